//! What stands between a client and its Prometheus: a proxy that wants a credential, and one that is a hole.
//!
//! ```text
//! client ──> AuthProxy ──> Prometheus
//!                └─ calls(): what was asked, never the credential
//! client ──> BlackHole
//! ```

use std::{
    future, io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode,
    header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING, WWW_AUTHENTICATE},
};

use crate::{
    credential::Credential,
    loopback::{Server, send},
    network::Network,
};

/// A request that has reached the proxy.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its place among all requests, from 0.
    pub index: usize,
    /// HTTP method.
    pub method: Method,
    /// The path alone.
    pub path: String,
    /// The parameters in the address, decoded.
    pub query: Vec<(String, String)>,
    /// The parameters in the body, decoded; none unless the body is a form.
    pub form: Vec<(String, String)>,
    /// All headers but the one with the credential.
    pub headers: HeaderMap,
    /// Whether it showed the credential that was asked for at that moment.
    pub authorised: bool,
}

impl Call {
    /// A parameter, wherever it stands.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let mut all = self.form.iter().chain(&self.query);
        all.find_map(|(key, value)| (key == name).then_some(value.as_str()))
    }
}

/// What the proxy does with a request.
#[derive(Clone, Debug)]
pub enum Conduct {
    /// Forwards it if it is authorised, refuses it if not.
    Forward,
    /// The same, later.
    Delay(Duration),
    /// Answers by itself, whoever asks.
    Answer(Response<Bytes>),
    /// Never answers.
    Hang,
}

impl Conduct {
    /// An answer of JSON, or of what pretends to be.
    pub fn answer(status: StatusCode, body: impl Into<Bytes>) -> Self {
        let mut answer = Response::new(body.into());
        *answer.status_mut() = status;
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Self::Answer(answer)
    }
}

/// A reverse proxy that wants a credential; gone when dropped.
pub struct AuthProxy {
    server: Server,
    shared: Arc<Shared>,
}

struct Shared {
    upstream: SocketAddr,
    state: Mutex<State>,
}

struct State {
    credential: Option<Credential>,
    plan: Box<dyn Fn(&Call) -> Conduct + Send>,
    calls: Vec<Call>,
}

impl AuthProxy {
    /// Starts in front of `upstream`; without a credential everybody may pass.
    pub async fn start(upstream: SocketAddr, credential: Option<Credential>) -> io::Result<Self> {
        Self::start_on(&Network::Loopback, upstream, credential).await
    }

    /// The same on another network; what it forwards goes over loopback all the same.
    pub async fn start_on(
        network: &Network,
        upstream: SocketAddr,
        credential: Option<Credential>,
    ) -> io::Result<Self> {
        let state = State { credential, plan: Box::new(|_| Conduct::Forward), calls: Vec::new() };
        let shared = Arc::new(Shared { upstream, state: Mutex::new(state) });
        let answering = shared.clone();
        let server = Server::http(network, move |request| {
            let shared = answering.clone();
            async move { shared.answer(request).await }
        })
        .await?;
        Ok(Self { server, shared })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// The same as a client is told it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// From now on only this credential passes.
    pub fn require(&self, credential: Option<Credential>) {
        self.shared.state().credential = credential;
    }

    /// From now on requests are treated as the plan says.
    pub fn conduct(&self, plan: impl Fn(&Call) -> Conduct + Send + 'static) {
        self.shared.state().plan = Box::new(plan);
    }

    /// Every request so far, whatever became of it.
    pub fn calls(&self) -> Vec<Call> {
        self.shared.state().calls.clone()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(&self, mut request: Request<Bytes>) -> Response<Bytes> {
        let shown = request.headers_mut().remove(AUTHORIZATION);
        let (conduct, authorised) = self.state().decide(shown.as_ref(), &request);
        match conduct {
            Conduct::Forward => {}
            Conduct::Delay(time) => tokio::time::sleep(time).await,
            Conduct::Answer(answer) => return answer,
            Conduct::Hang => future::pending().await,
        }
        if authorised { self.forward(request).await } else { unauthorised() }
    }

    async fn forward(&self, mut request: Request<Bytes>) -> Response<Bytes> {
        remove_framing(request.headers_mut());
        match send(self.upstream, request).await {
            Ok(mut answer) => {
                remove_framing(answer.headers_mut());
                answer
            }
            Err(error) => refusal(StatusCode::BAD_GATEWAY, error.to_string()),
        }
    }
}

impl State {
    fn decide(&mut self, shown: Option<&HeaderValue>, request: &Request<Bytes>) -> (Conduct, bool) {
        let authorised = self.credential.as_ref().is_none_or(|wanted| {
            let wanted = wanted.header();
            shown.is_some_and(|shown| shown.as_bytes() == wanted.as_bytes())
        });
        let is_form = request
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"application/x-www-form-urlencoded"));
        let call = Call {
            index: self.calls.len(),
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            query: decoded(request.uri().query().unwrap_or_default().as_bytes()),
            form: if is_form { decoded(request.body()) } else { Vec::new() },
            headers: request.headers().clone(),
            authorised,
        };
        let conduct = (self.plan)(&call);
        self.calls.push(call);
        (conduct, authorised)
    }
}

fn decoded(parameters: &[u8]) -> Vec<(String, String)> {
    form_urlencoded::parse(parameters).into_owned().collect()
}

/// Both sides frame their messages themselves.
fn remove_framing(headers: &mut HeaderMap) {
    for name in [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING] {
        headers.remove(name);
    }
}

/// As Prometheus itself words it.
fn unauthorised() -> Response<Bytes> {
    let mut answer = refusal(StatusCode::UNAUTHORIZED, "Unauthorized\n");
    answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic"));
    answer
}

fn refusal(status: StatusCode, reason: impl Into<Bytes>) -> Response<Bytes> {
    let mut answer = Response::new(reason.into());
    *answer.status_mut() = status;
    answer
}

/// Accepts connections and never says a word; gone, with all of them, when dropped.
pub struct BlackHole {
    server: Server,
    accepted: Arc<AtomicUsize>,
}

impl BlackHole {
    /// Starts to swallow.
    pub async fn start() -> io::Result<Self> {
        Self::start_on(&Network::Loopback).await
    }

    /// The same on another network.
    pub async fn start_on(network: &Network) -> io::Result<Self> {
        let accepted = Arc::new(AtomicUsize::new(0));
        let counting = accepted.clone();
        let server = Server::accept(network, move |stream| {
            counting.fetch_add(1, Ordering::SeqCst);
            async move {
                let _open = stream;
                future::pending::<()>().await;
            }
        })
        .await?;
        Ok(Self { server, accepted })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// The same as a client is told it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// How many connections it has accepted.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
#[path = "proxy_tests.rs"]
mod tests;
