//! What a hollow pod answers: whatever its annotation says of the path, else 200 and a word about itself.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::json;

use super::super::behaviour::{DelayError, duration};
use super::{Answer, Asked, Handler, Reset, handler};

/// How many paths one annotation may name; it holds 256 KiB and this bounds the work per request.
const MAX_RULES: usize = 256;

/// The answers that a pod's annotation chooses: one line per path.
///
/// `<path> <status>|hang|reset [after <duration>] [body <text>]`; a path may end in `*`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Answers(Arc<[Rule]>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    path: String,
    delay: Duration,
    act: Act,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Act {
    Respond(StatusCode, String),
    Hang,
    Reset,
}

/// Why a text does not say how to answer.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(in super::super) enum AnswersError {
    #[error("`{0}` is not `<path> <status>|hang|reset [after <duration>] [body <text>]`")]
    NotALine(String),
    #[error("after: {0}")]
    After(#[from] DelayError),
    #[error("more than {MAX_RULES} lines")]
    TooMany,
}

impl FromStr for Answers {
    type Err = AnswersError;

    fn from_str(text: &str) -> Result<Self, AnswersError> {
        let lines: Vec<&str> =
            text.lines().map(str::trim).filter(|line| !line.is_empty()).take(MAX_RULES + 1).collect();
        if lines.len() > MAX_RULES {
            return Err(AnswersError::TooMany);
        }
        lines.into_iter().map(rule).collect::<Result<Vec<_>, _>>().map(|rules| Answers(rules.into()))
    }
}

fn rule(line: &str) -> Result<Rule, AnswersError> {
    let not_a_line = || AnswersError::NotALine(line.to_owned());
    let next = |rest: &'_ str| -> (String, String) {
        let (word, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        (word.to_owned(), rest.trim_start().to_owned())
    };
    let (path, rest) = next(line);
    let (what, mut rest) = next(&rest);
    if !path.starts_with(['/', '*']) {
        return Err(not_a_line());
    }
    let mut delay = Duration::ZERO;
    if let Some(after) = rest.strip_prefix("after ") {
        let (text, left) = next(after.trim_start());
        delay = duration(&text)?;
        rest = left;
    }
    let body = match rest.strip_prefix("body ") {
        Some(body) => body.to_owned(),
        None if rest.is_empty() => String::new(),
        None => return Err(not_a_line()),
    };
    let act = match what.as_str() {
        "hang" => Act::Hang,
        "reset" => Act::Reset,
        status => {
            let status = status.parse().ok().and_then(|status: u16| StatusCode::from_u16(status).ok());
            // Below 200 an answer is only announced.
            let status = status.filter(|status| !status.is_informational()).ok_or_else(not_a_line)?;
            Act::Respond(status, body)
        }
    };
    Ok(Rule { path, delay, act })
}

impl Rule {
    fn is_for(&self, path: &str) -> bool {
        match self.path.strip_suffix('*') {
            Some(beginning) => path.starts_with(beginning),
            None => path == self.path,
        }
    }
}

impl Answers {
    /// What answers so; the first line that fits a path counts.
    pub(super) fn handler(&self) -> Handler {
        let rules = Arc::clone(&self.0);
        handler(move |request| {
            let rule = rules.iter().find(|rule| rule.is_for(request.uri().path())).cloned();
            async move {
                match rule {
                    Some(rule) => rule.answer().await,
                    None => Ok(about(&request)),
                }
            }
        })
    }
}

impl Rule {
    async fn answer(self) -> Answer {
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
        match self.act {
            Act::Respond(status, body) => {
                let mut response = Response::new(Bytes::from(body));
                *response.status_mut() = status;
                Ok(response)
            }
            Act::Hang => std::future::pending().await,
            Act::Reset => Err(Reset),
        }
    }
}

fn about(request: &http::Request<Bytes>) -> Response<Bytes> {
    let asked = request.extensions().get::<Asked>();
    let body = json!({
        "namespace": asked.map(|asked| &asked.namespace),
        "pod": asked.map(|asked| &asked.pod),
        "port": asked.map(|asked| asked.port),
        "path": request.uri().path(),
    });
    let mut response = Response::new(Bytes::from(body.to_string()));
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
#[path = "answers_tests.rs"]
mod tests;
