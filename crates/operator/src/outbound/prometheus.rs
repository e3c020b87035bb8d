//! The client of a Prometheus server: one question, one response.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use jiff::Timestamp;
use sts_plus_api::phased_rollout::Query;
use sts_plus_planner::phased_rollout::answer::{Answer, Data, Extent, QueryError};
use tokio::time::Instant;

use super::call::{CallError, Line};
use super::credentials::{self, CredentialError};
use super::dial::Dial;
use super::endpoint::{Endpoint, EndpointError};
use super::promql;
use super::reach::Reach;
use super::reading::Reading;
use super::reply;
use super::secrets::{Hidden, Reader, SecretError};
use super::slots::{Slot, Slots};
use super::tls::{self, Authorities, TlsError};
use crate::shell::api::{Api, escape};

/// The longest time limit of a query: so long does a server that hangs hold one of its slots.
const MAX_TIMEOUT_SECONDS: u64 = 300;

/// How much is kept of what a server says, or of a text that is an answer: it goes into a status.
const MAX_MESSAGE_CHARACTERS: usize = 300;

/// How much is kept of one warning.
const MAX_WARNING_CHARACTERS: usize = 200;

/// Parameters that ask for an error instead of a partial answer, in the dialects of Thanos and VictoriaMetrics.
/// Prometheus and Mimir ignore them.
const WHOLE_ANSWERS: &str = "&partial_response=false&deny_partial_response=1";

/// Asks Prometheus servers. Clones share the slots and the authorities.
#[derive(Clone)]
pub struct Prometheus {
    api: Api,
    reach: Reach,
    dial: Arc<dyn Dial>,
    shared: Arc<Shared>,
}

struct Shared {
    slots: Slots,
    authorities: Authorities,
}

/// What is to be asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// Whom to ask and how; its own expression is not used.
    pub query: Query,
    /// The expression, its placeholders filled.
    pub expr: String,
    /// How much of its answer is read.
    pub extent: Extent,
    /// Another expression for the same server, asked after the first and only if that had an answer. Its first series
    /// decides.
    pub guard: Option<String>,
}

/// What came of a question.
#[derive(Clone, Debug)]
pub struct Response {
    /// When the first query was sent, after all waiting for a slot and for Secrets.
    pub asked_at: Timestamp,
    /// How long it took from then on, the guard included.
    pub took: Duration,
    /// The answer to the expression.
    pub answer: Result<Answer, QueryError>,
    /// The answer to the guard; absent where there is no guard, or no answer that it could guard.
    pub guard: Option<Result<Answer, QueryError>>,
}

impl fmt::Debug for Prometheus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prometheus").field("reach", &self.reach).finish_non_exhaustive()
    }
}

impl Prometheus {
    /// A client that reads Secrets through `api` and reaches servers through `dial`.
    pub fn new(api: Api, reach: Reach, dial: Arc<dyn Dial>) -> Self {
        let shared = Shared { slots: Slots::default(), authorities: Authorities::default() };
        Self { api, reach, dial, shared: Arc::new(shared) }
    }

    /// Asks the server at `url` on behalf of a namespace, once there is a slot for it; only then the question is made,
    /// since thousands may wait. Takes no longer than the query's time limit from then on, twice that with a guard.
    pub async fn ask(
        &self,
        (namespace, url): (&Arc<str>, &str),
        question: impl FnOnce() -> Result<Question, QueryError>,
    ) -> Response {
        let endpoint = match Endpoint::parse(url) {
            Ok(endpoint) => endpoint,
            Err(error) => return Response::unasked(self.api.now(), error.into()),
        };
        let slot = self.shared.slots.take(namespace, &endpoint.site).await;
        let Question { query, expr, extent, guard } = match question() {
            Ok(question) => question,
            Err(error) => return Response::unasked(self.api.now(), error),
        };
        // Read as late as possible, so that a rotated Secret is used at once.
        let mut hidden = Hidden::default();
        let line = match self.prepare((namespace, &query), (endpoint, slot), &mut hidden).await {
            Ok(line) => line,
            Err(error) => return Response::unasked(self.api.now(), hidden.strip(error)),
        };
        let (asked_at, started) = (self.api.now(), Instant::now());
        let answer = ask_for(&line, expr, extent, &hidden).await;
        let guard = match guard {
            Some(guard) if answer.is_ok() => Some(ask_for(&line, guard, Extent::First, &hidden).await),
            Some(_) | None => None,
        };
        Response { asked_at, took: started.elapsed(), answer, guard }
    }

    async fn prepare(
        &self,
        (namespace, query): (&Arc<str>, &Query),
        (endpoint, slot): (Endpoint, Option<Slot>),
        hidden: &mut Hidden,
    ) -> Result<Line, QueryError> {
        let mut secrets = Reader::new(&self.api, namespace);
        let headers = credentials::headers(query, &mut secrets, hidden).await?;
        let tls = if endpoint.site.https {
            Some(tls::secured(query, &mut secrets, &self.shared.authorities).await?)
        } else {
            None
        };
        let (reach, dial, slot) = (self.reach, Arc::clone(&self.dial), Arc::new(slot));
        Ok(Line { endpoint, reach, dial, slot, headers, tls, limit: Duration::from_secs(limit(query)) })
    }
}

impl Response {
    /// That nothing was asked, and why.
    pub(crate) fn unasked(asked_at: Timestamp, error: QueryError) -> Self {
        Self { asked_at, took: Duration::ZERO, answer: Err(error), guard: None }
    }
}

fn limit(query: &Query) -> u64 {
    u64::try_from(query.timeout_seconds).unwrap_or_default().clamp(1, MAX_TIMEOUT_SECONDS)
}

/// Asks for an expression. It may be 64 KiB long, so nothing of it is held twice while the server takes its time.
async fn ask_for(line: &Line, expr: String, extent: Extent, hidden: &Hidden) -> Result<Answer, QueryError> {
    let (whole, plain) = forms(&expr, line.limit);
    drop(expr);
    let deadline = Instant::now() + line.limit;
    let mut answer = ask_with(line, whole, extent, deadline).await;
    if answer.as_ref().is_err_and(refuses_whole_answers) {
        answer = ask_with(line, plain, extent, deadline).await;
    }
    // The one way out: nothing that came from outside passes without being searched.
    answer.map(|answer| hidden.strip_answer(answer)).map_err(|error| hidden.strip(error))
}

/// The form that asks for whole answers, and the same without that.
fn forms(expr: &str, limit: Duration) -> (Bytes, Bytes) {
    let mut form = "query=".to_owned();
    form.extend(escape(&promql::one_line(expr)));
    form.push_str("&timeout=");
    form.push_str(&limit.as_secs().to_string());
    form.push('s');
    let plain = form.len();
    form.push_str(WHOLE_ANSWERS);
    let whole = Bytes::from(form);
    let plain = whole.slice(..plain);
    (whole, plain)
}

async fn ask_with(line: &Line, form: Bytes, extent: Extent, deadline: Instant) -> Result<Answer, QueryError> {
    let mut reading = Reading::new(extent);
    let reply = line.send(&form, deadline, &mut reading).await?;
    reply::judge(&reply, reading, &line.endpoint)
}

/// Whether a server refuses the parameters that ask for whole answers, which it then does not know: Google Cloud's
/// accepts none but those of Prometheus.
fn refuses_whole_answers(error: &QueryError) -> bool {
    matches!(error, QueryError::Rejected { message, .. } if message.contains("partial_response"))
}

impl Hidden {
    fn strip(&self, error: QueryError) -> QueryError {
        let tell = |text: String| self.tell(&text, MAX_MESSAGE_CHARACTERS);
        match error {
            QueryError::Config(message) => QueryError::Config(tell(message)),
            QueryError::Rejected { code, message } => QueryError::Rejected { code, message: tell(message) },
            QueryError::Failed(message) => QueryError::Failed(tell(message)),
        }
    }

    fn strip_answer(&self, answer: Answer) -> Answer {
        let tell = |texts: &[String]| {
            texts.iter().map(|text| self.tell(text, MAX_WARNING_CHARACTERS)).collect::<Vec<_>>()
        };
        let (warnings, infos) = (tell(&answer.warnings), tell(&answer.infos));
        let data = match answer.data {
            Data::Text(text) => Data::Text(self.tell(&text, MAX_MESSAGE_CHARACTERS)),
            numbers @ (Data::Series(_) | Data::Scalar(_)) => numbers,
        };
        Answer { data, warnings, infos, ..answer }
    }
}

impl From<EndpointError> for QueryError {
    fn from(error: EndpointError) -> Self {
        Self::Config(error.to_string())
    }
}

impl From<SecretError> for QueryError {
    fn from(error: SecretError) -> Self {
        match error {
            SecretError::Unread(..) => Self::Failed(error.to_string()),
            _ => Self::Config(error.to_string()),
        }
    }
}

impl From<CredentialError> for QueryError {
    fn from(error: CredentialError) -> Self {
        match error {
            CredentialError::Secret(error) => error.into(),
            _ => Self::Config(error.to_string()),
        }
    }
}

impl From<TlsError> for QueryError {
    fn from(error: TlsError) -> Self {
        match error {
            TlsError::Secret(error) => error.into(),
            _ => Self::Config(error.to_string()),
        }
    }
}

impl From<CallError> for QueryError {
    fn from(error: CallError) -> Self {
        let message = error.to_string();
        if error.needs_a_change() { Self::Config(message) } else { Self::Failed(message) }
    }
}

#[cfg(test)]
#[path = "prometheus_tests.rs"]
mod prometheus_tests;
