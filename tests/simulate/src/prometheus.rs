//! The Prometheus of a run: reached without sockets, and not always right.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use sts_plus_cluster::nodes::network::Network;
use sts_plus_operator::outbound::{Dial, Dialled, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::sleep;

use crate::cast;
use crate::dice::Dice;
use crate::faults::Fault;
use crate::link::Net;
use crate::truth::Pod;

/// Its name.
pub const HOST: &str = "prometheus.simulate";
/// Its address, of a range that is nobody's.
const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 9));
/// What a request may be long, in bytes: the queries of the run are short.
const MAX_REQUEST: usize = 64 * 1024;
/// What a connection holds, in bytes.
const PIPE: usize = 64 * 1024;
/// How long a slow answer takes: within the time limit of a query, or beyond it.
const SLOW: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(40));
/// Of a thousand answers in a window of lies, so many are.
const LIES: u64 = 600;

/// An answer, as whoever checks gates has to know it.
#[derive(Clone, Debug)]
pub struct Heard {
    /// The life of the operator that asked.
    pub who: Arc<str>,
    /// The rollout it was about.
    pub rollout: String,
    /// Whether it was a pass.
    pub passed: bool,
    /// Since the run began.
    pub at: Duration,
}

/// The way of one life of an operator to Prometheus and to pods.
#[derive(Clone)]
pub struct Way {
    net: Net,
    who: Arc<str>,
    /// Where pods answer.
    pods: Option<Network>,
    dice: Dice,
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Way").field("who", &self.who).finish_non_exhaustive()
    }
}

impl Way {
    /// A way for the one called `who`.
    pub fn new(net: &Net, who: &Arc<str>, pods: Option<Network>, seed: u64) -> Self {
        Self {
            net: net.clone(),
            who: Arc::clone(who),
            pods,
            dice: Dice::new(seed, &format!("prometheus {who}")),
        }
    }

    async fn serve(self, mut stream: DuplexStream) {
        let mut request = Vec::new();
        let mut chunk = [0; 4096];
        let body = loop {
            match stream.read(&mut chunk).await {
                Ok(read) if read > 0 && request.len() + read <= MAX_REQUEST => {
                    request.extend_from_slice(chunk.get(..read).unwrap_or_default());
                }
                _ => return,
            }
            if let Some(body) = complete(&request) {
                break body;
            }
        };
        let rollout = body.split("rollout%3D%22").nth(1).and_then(|rest| rest.split('%').next());
        // What else is asked is the nonsense that the user has made of a query: nobody knows whose.
        let (says, passed) = match rollout {
            Some(rollout) => self.says(rollout),
            None => ((400, unparsed()), false),
        };
        let rollout = rollout.map(ToOwned::to_owned);
        if self.net.open(Fault::PrometheusSlow).is_some() {
            sleep(self.dice.time(SLOW.0, SLOW.1)).await;
        }
        let answer = format!(
            "HTTP/1.1 {} simulated\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{}",
            says.0,
            says.1.len(),
            says.1
        );
        if stream.write_all(answer.as_bytes()).await.is_ok()
            && let Some(rollout) = rollout
        {
            let at = self.net.now();
            self.net.monitor.heard(Heard { who: self.who, rollout, passed, at });
        }
    }

    /// Status and body of an answer, and whether it is a pass: no series.
    fn says(&self, rollout: &str) -> ((u16, String), bool) {
        let result = |result: serde_json::Value| {
            json!({ "status": "success", "data": { "resultType": "vector", "result": result } }).to_string()
        };
        let good = ((200, result(json!([]))), true);
        let is_bad = |pod: &Pod| pod.set.as_deref() == Some(rollout) && cast::is_bad(&pod.image);
        let series = |value: &str| result(json!([{ "metric": {}, "value": [0, value] }]));
        if self.net.monitor.look_at(|truth| truth.pods.values().any(is_bad)) {
            return ((200, series("1")), false);
        }
        if self.net.open(Fault::PrometheusLies).is_none() || !self.dice.happens(LIES) {
            return good;
        }
        // An empty result that is not the whole one: a pass to whoever does not read on.
        let partial = |mark: serde_json::Value| {
            let mut answer = json!({ "status": "success", "data": { "resultType": "vector", "result": [] } });
            if let (Some(answer), serde_json::Value::Object(mark)) = (answer.as_object_mut(), mark) {
                answer.extend(mark);
            }
            answer.to_string()
        };
        let lies: [(u16, String); 11] = [
            (200, series("1")),
            (200, series("NaN")),
            (200, series("+Inf")),
            (
                200,
                json!({ "status": "error", "errorType": "execution", "error": "query timed out" })
                    .to_string(),
            ),
            (500, "internal error".to_owned()),
            (200, "<html>sign in</html>".to_owned()),
            (200, json!({ "status": "success", "data": { "resultType": "vector" } }).to_string()),
            (302, String::new()),
            (200, partial(json!({ "isPartial": true }))),
            (200, partial(json!({ "warnings": ["No StoreAPIs matched for this query"] }))),
            (
                200,
                partial(
                    json!({ "warnings": ["PromQL warning: encountered a mix of histograms and floats"] }),
                ),
            ),
        ];
        // Half of the lies are failures: those alone show whether a failure ends a streak, because each error does.
        let (failures, errors) = lies.split_at(3);
        let lies = if self.dice.happens(500) { failures } else { errors };
        (self.dice.pick(lies).cloned().unwrap_or_default(), false)
    }
}

/// What Prometheus says of a query that it cannot read.
fn unparsed() -> String {
    let error = "invalid parameter \"query\": parse error: unclosed left parenthesis";
    json!({ "status": "error", "errorType": "bad_data", "error": error }).to_string()
}

/// The body of a request that has arrived in full.
fn complete(request: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(request);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let length = head
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length: usize = length.and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(0);
    if head.starts_with("GET") {
        return Some(head.lines().next().unwrap_or_default().to_owned());
    }
    (body.len() >= length).then(|| body.to_owned())
}

impl Dial for Way {
    fn lookup<'a>(&'a self, host: &'a str, port: u16) -> Dialled<'a, Vec<SocketAddr>> {
        Box::pin(async move {
            if host == HOST {
                Ok(vec![SocketAddr::new(ADDRESS, port)])
            } else {
                Err(io::Error::new(io::ErrorKind::NotFound, "no such host"))
            }
        })
    }

    fn connect(&self, address: SocketAddr) -> Dialled<'_, Box<dyn Stream>> {
        Box::pin(async move {
            if let Some(pods) = self.pods.as_ref().filter(|_| address.ip() != ADDRESS) {
                return pods.connect(address).await.map(|stream| Box::new(stream) as Box<dyn Stream>);
            }
            sleep(self.dice.time(Duration::from_millis(1), Duration::from_millis(20))).await;
            if self.net.open(Fault::PrometheusDown).is_some() {
                return Err(io::Error::new(io::ErrorKind::ConnectionRefused, "connection refused"));
            }
            let (near, far) = tokio::io::duplex(PIPE);
            tokio::spawn(self.clone().serve(far));
            Ok(Box::new(near) as Box<dyn Stream>)
        })
    }
}
