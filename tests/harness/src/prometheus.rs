//! A real Prometheus, started and stopped by the test.

use std::{
    collections::BTreeMap,
    fs,
    future::Future,
    io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use bytes::Bytes;
use http::{
    HeaderValue, Request, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use serde::Deserialize;
use serde_json::json;
use tempfile::TempDir;

use crate::{
    assets::{Assets, AssetsMissing},
    control_plane::{ControlPlaneError, PORT_ATTEMPTS, PORT_TAKEN, ready},
    credential::Credential,
    loopback::{SendError, send},
    ports,
    process::{Process, ProcessError},
    wait::{NotYet, until},
};

/// How often each target is scraped, and how long that may take: a test that turns a gauge waits this long. A scrape that
/// takes longer has failed, and all series of its target are gone until the next one: on a busy machine it takes tenths of a
/// second, and Prometheus allows no time-out that is longer than the interval.
const SCRAPE_INTERVAL: &str = "1s";
/// How long a sample counts when Prometheus itself falls behind; ten scrapes, so that a busy machine loses none.
const LOOKBACK: &str = "--query.lookback-delta=10s";
/// New targets are taken up with the next scrape; Prometheus would batch them for 5 s. The flag is hidden.
const TARGET_UPDATE: &str = "--scrape.discovery-reload-interval=200ms";
/// A turned gauge or a new target is seen within a second or two.
const SEEN_DEADLINE: Duration = Duration::from_mins(1);

/// The one user of a Prometheus with basic authentication.
const USER: &str = "prometheus";
const PASSWORD: &str = "only-for-tests";
/// bcrypt of the password at the lowest cost, made once with crypt(3).
const PASSWORD_HASH: &str = "$2b$04$fixedSaltForOurFixture8sjGMfmdHORFMb0oPOk0ffHFGml8Vae";

/// A running Prometheus; dropping it stops it and removes its data.
pub struct Prometheus {
    process: Process,
    address: SocketAddr,
    credential: Option<Credential>,
    folder: TempDir,
}

/// One element of a query's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The labels, the metric's name (`__name__`) among them unless the expression dropped it.
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

/// Why there is no Prometheus, or no answer from it.
#[derive(Debug, thiserror::Error)]
pub enum PrometheusError {
    /// The binary is missing.
    #[error(transparent)]
    Assets(#[from] AssetsMissing),
    /// Its folder cannot be used.
    #[error("the folder of Prometheus: {0}")]
    Folder(#[from] io::Error),
    /// The process could not be started.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// It has no port, or does not get ready.
    #[error(transparent)]
    Start(#[from] ControlPlaneError),
    /// A request cannot be put into words.
    #[error(transparent)]
    Request(#[from] http::Error),
    /// It does not answer.
    #[error(transparent)]
    Send(#[from] SendError),
    /// It answers that it will not.
    #[error("Prometheus answers {status}: {body}")]
    Refused {
        /// The HTTP status.
        status: StatusCode,
        /// What it says.
        body: String,
    },
    /// Its answer is not a vector.
    #[error("the answer is not a vector: {0}")]
    NoVector(#[from] serde_json::Error),
    /// A value is not a number.
    #[error("{0:?} is not a number")]
    NoNumber(String),
}

#[derive(Deserialize)]
struct Answer {
    data: Vector,
}

#[derive(Deserialize)]
struct Vector {
    result: Vec<Element>,
}

#[derive(Deserialize)]
struct Element {
    metric: BTreeMap<String, String>,
    value: (f64, String),
}

impl Prometheus {
    /// Starts one that scrapes these targets as job `test` and waits until it is ready. That is before its
    /// first scrape, for which to wait with `until_data("up == 1")`.
    pub async fn start(assets: &Assets, targets: &[SocketAddr]) -> Result<Self, PrometheusError> {
        Self::start_on_a_free_port(assets, Ipv4Addr::LOCALHOST, targets, None).await
    }

    /// The same at another address of this machine, for clients that have a network of their own.
    pub async fn start_at(
        assets: &Assets,
        address: Ipv4Addr,
        targets: &[SocketAddr],
    ) -> Result<Self, PrometheusError> {
        Self::start_on_a_free_port(assets, address, targets, None).await
    }

    /// The same, and it answers only those who show [`Self::credential`].
    pub async fn start_with_basic_auth(
        assets: &Assets,
        targets: &[SocketAddr],
    ) -> Result<Self, PrometheusError> {
        let credential = Credential::basic(USER, PASSWORD);
        Self::start_on_a_free_port(assets, Ipv4Addr::LOCALHOST, targets, Some(credential)).await
    }

    async fn start_on_a_free_port(
        assets: &Assets,
        address: Ipv4Addr,
        targets: &[SocketAddr],
        credential: Option<Credential>,
    ) -> Result<Self, PrometheusError> {
        let mut attempt = 1;
        loop {
            match Self::try_start(assets, address, targets, credential.clone()).await {
                Err(PrometheusError::Start(ControlPlaneError::Died { tail, .. }))
                    if tail.contains(PORT_TAKEN) && attempt < PORT_ATTEMPTS =>
                {
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    async fn try_start(
        assets: &Assets,
        address: Ipv4Addr,
        targets: &[SocketAddr],
        credential: Option<Credential>,
    ) -> Result<Self, PrometheusError> {
        let binary = assets.binary("prometheus")?;
        let folder = tempfile::Builder::new().prefix("sts-plus-prometheus-").tempdir()?;
        let path = |name: &str| folder.path().join(name);
        write_targets(folder.path(), targets)?;
        let port = ports::free().ok_or(ControlPlaneError::NoFreePort)?;
        let address = SocketAddr::from((address, port));

        let mut command = Command::new(binary);
        command
            .arg(format!("--config.file={}", config(folder.path()).display()))
            .arg(format!("--storage.tsdb.path={}", path("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .args(["--web.enable-lifecycle", "--log.level=warn", LOOKBACK, TARGET_UPDATE]);
        if credential.is_some() {
            let users = json!({"basic_auth_users": {USER: PASSWORD_HASH}});
            fs::write(path("web.yml"), users.to_string())?;
            command.arg(format!("--web.config.file={}", path("web.yml").display()));
        }
        let process = Process::spawn(&command, path("prometheus.log"))?;
        let mut started = Self { process, address, credential, folder };
        let Self { process, credential, .. } = &mut started;
        ready(&mut [("prometheus", process)], || async {
            Ok(answer(address, credential.as_ref(), Request::get("/-/ready"), Bytes::new())
                .await
                .map(drop)?)
        })
        .await?;
        Ok(started)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its base address as a client is told it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it wants to be shown, if anything.
    pub fn credential(&self) -> Option<&Credential> {
        self.credential.as_ref()
    }

    /// The id of its process.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Scrapes these targets instead; it has understood when this returns, and scrapes them soon.
    pub async fn scrape(&self, targets: &[SocketAddr]) -> Result<(), PrometheusError> {
        write_targets(self.folder.path(), targets)?;
        let reload = Request::post("/-/reload");
        answer(self.address, self.credential.as_ref(), reload, Bytes::new()).await.map(drop)
    }

    /// What an expression that yields a vector yields now.
    pub async fn query(&self, expression: &str) -> Result<Vec<Sample>, PrometheusError> {
        query(self.address, self.credential.as_ref(), expression).await
    }

    /// Waits until the expression yields something.
    ///
    /// # Panics
    /// When it does not for a long time.
    #[track_caller]
    pub fn until_data(&self, expression: &str) -> impl Future<Output = Vec<Sample>> {
        until(SEEN_DEADLINE, format!("{expression} to yield something"), move || async move {
            let samples = self.query(expression).await?;
            if samples.is_empty() { Err(NotYet::saw(samples)) } else { Ok(samples) }
        })
    }

    /// Waits until the expression yields nothing.
    ///
    /// # Panics
    /// When it does for a long time.
    #[track_caller]
    pub fn until_no_data(&self, expression: &str) -> impl Future<Output = ()> {
        until(SEEN_DEADLINE, format!("{expression} to yield nothing"), move || async move {
            let samples = self.query(expression).await?;
            if samples.is_empty() { Ok(()) } else { Err(NotYet::saw(samples)) }
        })
    }
}

/// The same of a Prometheus at any address, for example behind a proxy.
pub async fn query(
    address: SocketAddr,
    credential: Option<&Credential>,
    expression: &str,
) -> Result<Vec<Sample>, PrometheusError> {
    let form = form_urlencoded::Serializer::new(String::new()).append_pair("query", expression).finish();
    let request = Request::post("/api/v1/query").header(CONTENT_TYPE, "application/x-www-form-urlencoded");
    let answer: Answer = serde_json::from_slice(&answer(address, credential, request, form.into()).await?)?;
    let samples = answer.data.result.into_iter().map(|Element { metric, value: (_, value) }| {
        let value = value.parse().map_err(|_| PrometheusError::NoNumber(value))?;
        Ok(Sample { labels: metric, value })
    });
    samples.collect()
}

async fn answer(
    address: SocketAddr,
    credential: Option<&Credential>,
    request: http::request::Builder,
    body: Bytes,
) -> Result<Bytes, PrometheusError> {
    let mut request = request.body(body)?;
    if let Some(credential) = credential {
        let header = HeaderValue::try_from(credential.header()).map_err(http::Error::from)?;
        request.headers_mut().insert(AUTHORIZATION, header);
    }
    let answer = send(address, request).await?;
    let (status, body) = (answer.status(), answer.into_body());
    if status.is_success() {
        return Ok(body);
    }
    Err(PrometheusError::Refused { status, body: String::from_utf8_lossy(&body).into_owned() })
}

fn config(folder: &Path) -> PathBuf {
    folder.join("prometheus.yml")
}

/// JSON is YAML.
fn write_targets(folder: &Path, targets: &[SocketAddr]) -> io::Result<()> {
    let content = json!({
        "global": {"scrape_interval": SCRAPE_INTERVAL, "scrape_timeout": SCRAPE_INTERVAL},
        "scrape_configs": [{
            "job_name": "test",
            // A file that a web server serves as metrics does not say its format.
            "fallback_scrape_protocol": "PrometheusText0.0.4",
            "static_configs": [{"targets": targets}],
        }],
    });
    fs::write(config(folder), content.to_string())
}
