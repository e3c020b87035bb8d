//! A Prometheus that says what the scenario wants, where what a real one says is not the point.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use http::StatusCode;
use serde_json::json;
use sts_plus_harness::proxy::Conduct;
use sts_plus_harness::{AuthProxy, Network};

/// Nobody listens there; nothing is forwarded either.
pub(super) const NOBODY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9);

/// What is answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Says {
    /// No series.
    Nothing,
    /// One series for each value.
    Values(Vec<f64>),
    /// An answer that is none, with this HTTP status.
    Error(u16),
    /// Never a word.
    Silence,
}

/// A scripted server; gone when dropped.
pub struct Answers {
    proxy: AuthProxy,
    script: Arc<Mutex<Script>>,
}

struct Script {
    always: Says,
    /// What is said to queries that contain a text instead.
    to: Vec<(String, Says)>,
}

impl Answers {
    /// One on this network that says the same to every query.
    pub async fn start(network: &Network, says: Says) -> Self {
        let proxy = AuthProxy::start_on(network, NOBODY, None).await.unwrap();
        let script = Arc::new(Mutex::new(Script { always: says, to: Vec::new() }));
        let reading = Arc::clone(&script);
        proxy.conduct(move |call| {
            let script = reading.lock().unwrap_or_else(PoisonError::into_inner);
            let query = call.parameter("query").unwrap_or_default();
            let known = script.to.iter().find(|(text, _)| query.contains(text.as_str()));
            known.map_or(&script.always, |(_, says)| says).conduct()
        });
        Self { proxy, script }
    }

    /// From now on this is said to every query without an answer of its own.
    pub fn say(&self, says: Says) {
        self.script.lock().unwrap().always = says;
    }

    /// From now on this is said to every query that contains the text.
    pub fn say_to(&self, text: &str, says: Says) {
        let mut script = self.script.lock().unwrap();
        script.to.retain(|(known, _)| known != text);
        script.to.push((text.to_owned(), says));
    }

    /// From now on the gate fails behind which exactly these pods are of the new revision: its query names them.
    pub fn hold(&self, updated: &[&str]) {
        self.say_to(&named(updated), Says::something());
    }

    /// From now on it does not.
    pub fn release(&self, updated: &[&str]) {
        self.say_to(&named(updated), Says::Nothing);
    }

    /// Where to ask.
    pub fn url(&self) -> String {
        self.proxy.url()
    }

    /// Every query so far.
    pub fn queries(&self) -> Vec<String> {
        let query = |call: &sts_plus_harness::proxy::Call| call.parameter("query").map(str::to_owned);
        self.proxy.calls().iter().filter_map(query).collect()
    }
}

/// The pods as a query names them, in quotes; before the first there is a name that no pod has.
fn named(updated: &[&str]) -> String {
    if updated.is_empty() { "\"-\"".to_owned() } else { format!("\"{}\"", updated.join("|")) }
}

impl Says {
    /// One series.
    pub fn something() -> Self {
        Self::Values(vec![1.0])
    }

    fn conduct(&self) -> Conduct {
        let result = match self {
            Self::Nothing => Vec::new(),
            Self::Values(values) => values
                .iter()
                .enumerate()
                .map(|(index, value)| {
                    json!({ "metric": { "series": index.to_string() }, "value": [1.0, value.to_string()] })
                })
                .collect(),
            Self::Error(code) => {
                let body = json!({ "status": "error", "errorType": "internal", "error": "as scripted" });
                return Conduct::answer(StatusCode::from_u16(*code).unwrap(), body.to_string());
            }
            Self::Silence => return Conduct::Hang,
        };
        let body = json!({ "status": "success", "data": { "resultType": "vector", "result": result } });
        Conduct::answer(StatusCode::OK, body.to_string())
    }
}
