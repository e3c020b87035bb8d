//! What a reply means: the shapes of the Prometheus API, and what each HTTP status says about asking again.
//!
//! The texts here repeat what the server said and are not yet fit to be shown.

use http::StatusCode;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use sts_plus_planner::phased_rollout::answer::{Answer, Data, QueryError};

use super::call::Reply;
use super::endpoint::Endpoint;

/// How many warnings of one answer are kept: they go into a status.
const MAX_WARNINGS: usize = 5;

/// The envelope of every answer of the API.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    status: Status,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    error_type: Option<String>,
    error: Option<String>,
    warnings: Option<Vec<String>>,
    infos: Option<Vec<String>>,
}

#[derive(Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Status {
    Success,
    Error,
}

#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum Shape {
    Vector(Vec<Series>),
    Scalar((IgnoredAny, Number)),
    String((IgnoredAny, String)),
    Matrix(Vec<Range>),
}

/// One series of a vector: either a value or a histogram.
#[derive(Deserialize)]
struct Series {
    value: Option<(IgnoredAny, Number)>,
    histogram: Option<IgnoredAny>,
}

/// One series of a matrix. It may have been a histogram for a part of the time.
#[derive(Deserialize)]
struct Range {
    #[serde(default)]
    values: Vec<(f64, Number)>,
    #[serde(default)]
    histograms: Vec<(f64, IgnoredAny)>,
}

/// A number as the API writes it: as a text, since JSON has neither NaN nor infinities.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Number(f64);

impl TryFrom<String> for Number {
    type Error = std::num::ParseFloatError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse().map(Self)
    }
}

/// Judges a reply.
pub(super) fn judge(reply: &Reply, endpoint: &Endpoint) -> Result<Answer, QueryError> {
    let code = reply.code;
    let envelope: Result<Envelope<'_>, _> = serde_json::from_slice(&reply.body);
    let said = said(reply, envelope.as_ref().ok());
    let because = |start: String| if said.is_empty() { start } else { format!("{start}: {said}") };
    match code {
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => {
            let message = if said.is_empty() { "it gave no reason".to_owned() } else { said };
            Err(QueryError::Rejected { code: code.as_u16(), message })
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(QueryError::Config(because(format!(
            "the server refused the credentials with {}",
            code.as_u16()
        )))),
        StatusCode::NOT_FOUND => {
            Err(QueryError::Config(because(format!("there is no Prometheus API at {endpoint} (404)"))))
        }
        code if code.is_redirection() => Err(QueryError::Failed(redirect(reply))),
        code if !code.is_success() => {
            Err(QueryError::Failed(because(format!("the server answered {}", code.as_u16()))))
        }
        _ => match envelope {
            Ok(envelope) if envelope.status == Status::Success => success(envelope),
            Ok(_) => Err(QueryError::Failed(because(format!(
                "the server answered {} with an error",
                code.as_u16()
            )))),
            Err(_) if reply.body.is_empty() => {
                Err(QueryError::Failed(format!("the server answered {} without a result", code.as_u16())))
            }
            Err(error) => Err(unreadable(&error)),
        },
    }
}

/// What the server gave as its reason: the envelope's error, or else the text of the body.
fn said(reply: &Reply, envelope: Option<&Envelope<'_>>) -> String {
    let Some(envelope) = envelope else {
        let text = String::from_utf8_lossy(&reply.body);
        // A page for browsers is no reason.
        return if text.trim_start().starts_with('<') { String::new() } else { text.trim().to_owned() };
    };
    let parts = [&envelope.error_type, &envelope.error].into_iter().flatten().filter(|part| !part.is_empty());
    parts.cloned().collect::<Vec<_>>().join(": ")
}

fn success(envelope: Envelope<'_>) -> Result<Answer, QueryError> {
    let Some(data) = envelope.data else {
        return Err(QueryError::Failed("the answer holds no data field".to_owned()));
    };
    let shape: Shape = serde_json::from_str(data.get()).map_err(|error| unreadable(&error))?;
    let warnings = envelope.warnings.into_iter().chain(envelope.infos).flatten().take(MAX_WARNINGS).collect();
    Ok(Answer { data: data_of(shape)?, warnings })
}

fn data_of(shape: Shape) -> Result<Data, QueryError> {
    let empty = || QueryError::Failed("the answer holds a series without a value".to_owned());
    Ok(match shape {
        Shape::Scalar((_, value)) => Data::Scalar(value.0),
        Shape::String((_, text)) => Data::Text(text),
        Shape::Vector(series) => {
            let values = series.into_iter().map(|series| match series {
                Series { value: Some((_, value)), .. } => Ok(value.0),
                Series { histogram: Some(_), .. } => Ok(f64::NAN),
                Series { value: None, histogram: None } => Err(empty()),
            });
            Data::Series(values.collect::<Result<_, _>>()?)
        }
        Shape::Matrix(ranges) => {
            let values = ranges.iter().map(|range| match (range.values.last(), range.histograms.last()) {
                (Some((at, _)), Some((later, _))) if later > at => Ok(f64::NAN),
                (Some((_, value)), _) => Ok(value.0),
                (None, Some(_)) => Ok(f64::NAN),
                (None, None) => Err(empty()),
            });
            Data::Series(values.collect::<Result<_, _>>()?)
        }
    })
}

fn unreadable(error: &serde_json::Error) -> QueryError {
    QueryError::Failed(format!("the answer is not one of the Prometheus API: {error}"))
}

/// Where a redirect leads, without what may be a secret in the address: its query and its user.
fn redirect(reply: &Reply) -> String {
    let code = reply.code.as_u16();
    let Some(location) = &reply.location else {
        return format!("the server answered {code}, which is no result");
    };
    let location = location.split(['?', '#']).next().unwrap_or_default();
    let shown = match location.split_once("://") {
        None => location.to_owned(),
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            format!("{scheme}://{host}{path}")
        }
    };
    format!("the server redirects ({code}) to {shown}, which is not followed: set url to where the API is")
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod reply_tests;
