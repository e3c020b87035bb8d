//! The headers that a call goes out with: who asks, and what else the user wants to be sent.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use sts_plus_api::phased_rollout::{Header, Query};
use sts_plus_api::scaling_policy::Authorization;
use thiserror::Error;

use super::secrets::{Hidden, Reader, Sealed, SecretError, printable};

/// More headers than this in one call are a mistake; each may cost the reading of a Secret.
const MAX_HEADERS: usize = 32;

/// How much of a header's name is repeated in a complaint.
const MAX_NAME_CHARACTERS: usize = 100;

/// What we say ourselves about the request and its framing: a second opinion would confuse servers and proxies.
const RESERVED: [HeaderName; 11] = [
    header::ACCEPT_ENCODING,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::EXPECT,
    header::HOST,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::PROXY_AUTHORIZATION,
];

/// Why the headers cannot be made. No text holds a value.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(super) enum CredentialError {
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error("Secret {0} holds both token and username or password: keep one of the two")]
    Both(String),
    #[error("Secret {secret} holds {present} but no {missing}")]
    Half { secret: String, present: &'static str, missing: &'static str },
    #[error("key token of Secret {0} is empty")]
    EmptyToken(String),
    #[error("key username of Secret {0} holds a colon, which basic authentication cannot express")]
    Colon(String),
    #[error("{0} holds characters that a header cannot carry")]
    Characters(String),
    #[error("headers: {0:?} is not the name of a header")]
    Name(String),
    #[error("headers: {0} is set by the operator itself")]
    Reserved(HeaderName),
    #[error("headers: {0} needs either value or secretKeyRef")]
    Source(HeaderName),
    #[error("headers: authorization is given although {0} gives it already")]
    Twice(&'static str),
    #[error("key {key} of Secret {secret} is empty")]
    Empty { secret: String, key: String },
    #[error("authorization: {0:?} is not the name of a scheme")]
    Scheme(String),
    #[error("headers: {0} of them, at most {MAX_HEADERS}")]
    TooMany(usize),
}

/// All headers of a query that come from the user. What came from a Secret is added to what is hidden.
pub(super) async fn headers(
    query: &Query,
    secrets: &mut Reader<'_>,
    hidden: &mut Hidden,
) -> Result<HeaderMap, CredentialError> {
    let mut headers = HeaderMap::new();
    if let Some(name) = &query.secret_ref
        && let Some(value) = authorization(name, query, secrets, hidden).await?
    {
        headers.insert(header::AUTHORIZATION, value);
    }
    add(&mut headers, (&query.headers, "secretRef"), secrets, hidden).await?;
    Ok(headers)
}

/// All headers of a hook that come from the user. What came from a Secret is added to what is hidden.
pub(super) async fn headers_of_hook(
    (extra, authorization): (&[Header], Option<&Authorization>),
    secrets: &mut Reader<'_>,
    hidden: &mut Hidden,
) -> Result<HeaderMap, CredentialError> {
    let mut headers = HeaderMap::new();
    if let Some(Authorization { kind, secret_key_ref: at }) = authorization {
        // The name of a scheme and that of a header are spelled with the same characters.
        HeaderName::from_bytes(kind.as_bytes())
            .map_err(|_| CredentialError::Scheme(printable(kind, MAX_NAME_CHARACTERS)))?;
        let credentials = secrets.read(&at.name).await?.get(&at.key)?;
        if credentials.reveal().is_empty() {
            return Err(CredentialError::Empty { secret: at.name.clone(), key: at.key.clone() });
        }
        hidden.add(&credentials);
        let text = Sealed::new(format!("{kind} {}", credentials.reveal()));
        let value = sealed_value(&text, || format!("key {} of Secret {}", at.key, at.name))?;
        headers.insert(header::AUTHORIZATION, value);
    }
    add(&mut headers, (extra, "authorization"), secrets, hidden).await?;
    Ok(headers)
}

/// Adds what else the user wants to be sent. `authorized_by` is the field that may have set the credentials already.
async fn add(
    headers: &mut HeaderMap,
    (extra, authorized_by): (&[Header], &'static str),
    secrets: &mut Reader<'_>,
    hidden: &mut Hidden,
) -> Result<(), CredentialError> {
    if extra.len() > MAX_HEADERS {
        return Err(CredentialError::TooMany(extra.len()));
    }
    for extra in extra {
        let name = HeaderName::from_bytes(extra.name.as_bytes())
            .map_err(|_| CredentialError::Name(printable(&extra.name, MAX_NAME_CHARACTERS)))?;
        if RESERVED.contains(&name) {
            return Err(CredentialError::Reserved(name));
        }
        if name == header::AUTHORIZATION && headers.contains_key(&name) {
            return Err(CredentialError::Twice(authorized_by));
        }
        let value = value(&name, extra, secrets, hidden).await?;
        headers.append(name, value);
    }
    Ok(())
}

/// The value of the Authorization header; `None` where the Secret holds nothing for it.
async fn authorization(
    secret: &str,
    query: &Query,
    secrets: &mut Reader<'_>,
    hidden: &mut Hidden,
) -> Result<Option<HeaderValue>, CredentialError> {
    let keys = secrets.read(secret).await?;
    let (token, user, password) = (keys.find("token")?, keys.find("username")?, keys.find("password")?);
    let half = |present, missing| CredentialError::Half { secret: secret.to_owned(), present, missing };
    match (token, user, password) {
        (None, None, None) => Ok(None),
        (Some(_), user, password) if user.is_some() || password.is_some() => {
            Err(CredentialError::Both(secret.to_owned()))
        }
        (Some(token), ..) if token.reveal().is_empty() => Err(CredentialError::EmptyToken(secret.to_owned())),
        (Some(token), ..) => {
            hidden.add(&token);
            let text = Sealed::new(format!("Bearer {}", token.reveal()));
            sealed_value(&text, || format!("key token of Secret {secret}")).map(Some)
        }
        (None, Some(_), None) => Err(half("username", "password")),
        (None, None, Some(_)) => Err(half("password", "username")),
        (None, Some(user), Some(_)) if user.reveal().contains(':') => {
            Err(CredentialError::Colon(secret.to_owned()))
        }
        (None, Some(user), Some(password)) => {
            hidden.add(&password);
            // What everybody may read in the query itself is no secret, and hiding it would garble messages.
            if !query.url.contains(user.reveal()) && !query.expr.contains(user.reveal()) {
                hidden.add(&user);
            }
            let pair = Sealed::new(STANDARD.encode(format!("{}:{}", user.reveal(), password.reveal())));
            hidden.add(&pair);
            let text = Sealed::new(format!("Basic {}", pair.reveal()));
            sealed_value(&text, || format!("Secret {secret}")).map(Some)
        }
    }
}

async fn value(
    name: &HeaderName,
    header: &Header,
    secrets: &mut Reader<'_>,
    hidden: &mut Hidden,
) -> Result<HeaderValue, CredentialError> {
    match (&header.value, &header.secret_key_ref) {
        (Some(value), None) => plain_value(value.trim(), || format!("headers: the value of {name}")),
        (None, Some(key)) => {
            let text = secrets.read(&key.name).await?.get(&key.key)?;
            hidden.add(&text);
            sealed_value(&text, || format!("key {} of Secret {}", key.key, key.name))
        }
        (None, None) | (Some(_), Some(_)) => Err(CredentialError::Source(name.clone())),
    }
}

/// A value that no log of headers shows.
fn sealed_value(text: &Sealed, what: impl FnOnce() -> String) -> Result<HeaderValue, CredentialError> {
    let mut value = plain_value(text.reveal(), what)?;
    value.set_sensitive(true);
    Ok(value)
}

/// The bytes beyond ASCII that the library lets through mean something else to every server.
fn plain_value(text: &str, what: impl FnOnce() -> String) -> Result<HeaderValue, CredentialError> {
    let value = HeaderValue::from_str(text).ok().filter(|_| text.is_ascii());
    value.ok_or_else(|| CredentialError::Characters(what()))
}

#[cfg(test)]
#[path = "credentials_tests.rs"]
mod credentials_tests;
