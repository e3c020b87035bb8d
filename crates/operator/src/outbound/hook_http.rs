//! One request of an HTTP hook: what is sent, over which connection, and what the answer means.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use http::header::{self, HeaderMap, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::Value;
use sts_plus_api::extended::Scheme;
use sts_plus_api::scaling_policy::HttpHook as Manifest;
use sts_plus_planner::scaling::hook::{Call, HookRequest, HookResult, HttpHook, StatusCall};
use tokio_rustls::TlsConnector;

use super::call::{self, CallError};
use super::credentials::headers_of_hook;
use super::dial::Dial;
use super::hook::MAX_MESSAGE_CHARACTERS;
use super::reach::Reach;
use super::secrets::{Hidden, Reader, printable};
use super::tls;

/// How much is read of an answer, in bytes: what is compared is one value.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// How long a path may be, in bytes, as the schema has it.
const MAX_PATH_BYTES: usize = 2048;

/// How much of a path is repeated in a message, in characters.
const MAX_PATH_CHARACTERS: usize = 100;

/// How much of a value is repeated in a message, in characters.
const MAX_VALUE_CHARACTERS: usize = 200;

/// A request that is ready to be sent.
pub(super) struct Exchange<'a> {
    call: Call,
    hook: &'a HttpHook,
    dial: &'a dyn Dial,
    address: SocketAddr,
    /// Present for HTTPS, with the name that the certificate must be valid for.
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    request: Request<Full<Bytes>>,
    /// Which request it is, as messages name it: without the query, which may hold a password.
    shown: String,
}

/// What came back.
struct Reply {
    code: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
    /// Whether there was more of it than is read.
    is_too_long: bool,
}

impl<'a> Exchange<'a> {
    /// Makes the request of a call: its target, its address, and what Secrets give it. `None` where the call needs none.
    pub(super) async fn prepare(
        (reach, dial): (Reach, &'a dyn Dial),
        (request, hook): (&'a HookRequest, &'a HttpHook),
        secrets: &mut Reader<'_>,
        hidden: &mut Hidden,
    ) -> Result<Option<Self>, String> {
        let call = request.call;
        let (method, path) = match call {
            Call::Prepare | Call::Join => (&*hook.method, &hook.path),
            Call::Poll => match &hook.status {
                Some(status) => ("GET", &status.path),
                None => return Err("the hook has no status to ask for".to_owned()),
            },
            Call::Cancel => match &hook.cancel {
                Some(cancel) => (&*cancel.method, &cancel.path),
                None => return Ok(None),
            },
        };
        let (method, target) = (known_method(method)?, target(path)?);
        let address = address(request, reach)?;
        let headers = (&*hook.headers, hook.authorization.as_ref());
        let headers = headers_of_hook(headers, secrets, hidden).await.map_err(|error| error.to_string())?;
        let tls = match hook.scheme {
            Scheme::Http => None,
            Scheme::Https => Some(secured(hook, address.ip(), secrets).await?),
        };
        let shown = format!("{method} {}", printable(target.path(), MAX_PATH_CHARACTERS));
        let request = request_for(method, &target, address, &headers)
            .map_err(|error| format!("the request cannot be made: {error}"))?;
        Ok(Some(Self { call, hook, dial, address, tls, request, shown }))
    }

    /// Sends it, and judges the answer.
    pub(super) async fn carry_out(self, hidden: &Hidden) -> HookResult {
        let Self { call, hook, dial, address, tls, request, shown } = self;
        let tell = |text: &str| -> Arc<str> { hidden.tell(text, MAX_MESSAGE_CHARACTERS).into() };
        match send(dial, address, tls, request).await {
            Ok(reply) => judge((call, hook), &reply, &shown, hidden),
            Err(error @ CallError::Broken(..)) => HookResult::Broken(tell(&words(&error))),
            Err(error) => HookResult::Failed(tell(&words(&error))),
        }
    }
}

/// The method, where it is one that a hook may have.
fn known_method(method: &str) -> Result<Method, String> {
    let known = Manifest::METHODS.contains(&method).then(|| Method::from_bytes(method.as_bytes()).ok());
    known
        .flatten()
        .ok_or_else(|| format!("{:?} is not a method of hooks", printable(method, MAX_PATH_CHARACTERS)))
}

/// The path with its query, where it is nothing else: no other host, no second line, no fragment.
fn target(path: &str) -> Result<PathAndQuery, String> {
    let refused = |why: &str| Err(format!("path: {why}"));
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'#' | b'\\' | b'"' | b'<' | b'>');
    if path.len() > MAX_PATH_BYTES {
        return refused("it is longer than 2048 bytes");
    }
    if !path.starts_with('/') {
        return refused("it must begin with a slash");
    }
    if path.starts_with("//") {
        return refused("it must not begin with two slashes, which would name a host");
    }
    if !path.bytes().all(is_plain) {
        return refused("it holds characters that have to be written as %XX");
    }
    match path.parse::<PathAndQuery>() {
        Ok(target) if target.as_str() == path => Ok(target),
        Ok(_) | Err(_) => refused("it is not a path of a URL"),
    }
}

/// The pod's own address, and the port of the hook.
fn address(request: &HookRequest, reach: Reach) -> Result<SocketAddr, String> {
    let ip = request.ip.as_deref().and_then(|ip| ip.parse::<IpAddr>().ok());
    let ip = ip.ok_or_else(|| "the pod has no address".to_owned())?;
    if let Some(refusal) = reach.refusal(ip) {
        return Err(format!("{ip} is {}", refusal.words()));
    }
    let port = request.port.as_ref().map_err(ToString::to_string)?;
    Ok(SocketAddr::new(ip, *port))
}

async fn secured(
    hook: &HttpHook,
    ip: IpAddr,
    secrets: &mut Reader<'_>,
) -> Result<(Arc<ClientConfig>, ServerName<'static>), String> {
    let given = hook.tls.as_ref();
    let authority = given.and_then(|tls| tls.ca_secret_key_ref.as_ref());
    let config = tls::of_hook(authority, secrets).await.map_err(|error| error.to_string())?;
    let name = match given.and_then(|tls| tls.server_name.clone()) {
        None => ServerName::from(ip),
        Some(name) => ServerName::try_from(name).map_err(|error| format!("tls.serverName: {error}"))?,
    };
    Ok((config, name))
}

fn request_for(
    method: Method,
    target: &PathAndQuery,
    address: SocketAddr,
    headers: &HeaderMap,
) -> Result<Request<Full<Bytes>>, http::Error> {
    let mut request = Request::builder()
        .method(method)
        .uri(target.as_str())
        .header(header::HOST, address.to_string())
        .header(header::USER_AGENT, concat!("sts-plus/", env!("CARGO_PKG_VERSION")))
        .header(header::CONNECTION, "close")
        .body(Full::default())?;
    if *request.method() != Method::GET {
        // There are servers that refuse a POST of unknown length.
        request.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    for name in headers.keys() {
        request.headers_mut().remove(name);
    }
    for (name, value) in headers {
        request.headers_mut().append(name, value.clone());
    }
    Ok(request)
}

async fn send(
    dial: &dyn Dial,
    address: SocketAddr,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    request: Request<Full<Bytes>>,
) -> Result<Reply, CallError> {
    let host = address.ip().to_string();
    let stream = dial.connect(address).await;
    let stream = stream.map_err(|error| CallError::Unconnected { address, why: error.to_string() })?;
    let (mut body, mut is_too_long) = (Vec::new(), false);
    // It is read to its end also where only its code matters: before that the pod may not be done.
    let take = |_, data: &[u8]| {
        is_too_long = body.len().saturating_add(data.len()) > MAX_BODY_BYTES;
        if is_too_long {
            return ControlFlow::Break(());
        }
        body.extend_from_slice(data);
        ControlFlow::Continue(())
    };
    let head = match tls {
        None => call::exchange(stream, request, take).await,
        Some((config, name)) => {
            let stream = TlsConnector::from(config).connect(name, stream).await;
            let stream = stream.map_err(|error| call::broken(&error, &host, false))?;
            call::exchange(stream, request, take).await
        }
    };
    let head = head.map_err(|error| call::broken(&error, &host, false))?;
    Ok(Reply { code: head.status, headers: head.headers, body, is_too_long })
}

/// What a failure of the transport is in words, where those of a query name fields that a hook does not have.
fn words(error: &CallError) -> String {
    match error {
        CallError::UnknownAuthority(host) => {
            format!("the certificate of {host} is not signed by an authority of tls.caSecretKeyRef")
        }
        CallError::NoClientCertificate(host) => {
            format!("{host} asks for a client certificate, which hooks do not have")
        }
        other => other.to_string(),
    }
}

/// What an answer means.
fn judge((call, hook): (Call, &HttpHook), reply: &Reply, shown: &str, hidden: &Hidden) -> HookResult {
    let tell = |text: &str| -> Arc<str> { hidden.tell(text, MAX_MESSAGE_CHARACTERS).into() };
    let code = reply.code.as_u16();
    let pending =
        |message: &str| HookResult::Pending { message: tell(message), retry_after: reply.retry_after() };
    match (call, &hook.status) {
        (Call::Poll, Some(status)) => match poll(status, reply, shown) {
            Ok(None) => HookResult::Done,
            Ok(Some(message)) => pending(&message),
            Err(why) => HookResult::Failed(tell(&why)),
        },
        _ if !hook.success.contains(&code) => HookResult::Failed(tell(&unsuccessful(reply, shown))),
        _ if reply.is_too_long => HookResult::Failed(tell(&too_long(shown))),
        (Call::Prepare | Call::Join, Some(_)) => {
            pending(&reply.said().unwrap_or_else(|| format!("{shown} answered {code}")))
        }
        _ => HookResult::Done,
    }
}

/// Whether the status of a pod shows that it is done; otherwise what it shows. An error where it shows nothing.
fn poll(status: &StatusCall, reply: &Reply, shown: &str) -> Result<Option<String>, String> {
    let code = reply.code;
    let is_refused =
        matches!(code, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) || code.is_redirection();
    if !status.codes.contains(&code.as_u16()) {
        return if is_refused { Err(unsuccessful(reply, shown)) } else { Ok(Some(answered(reply, shown))) };
    }
    if reply.is_too_long {
        return Err(too_long(shown));
    }
    let Some(pointer) = &status.pointer else { return Ok(None) };
    let body: Value =
        serde_json::from_slice(&reply.body).map_err(|_| format!("the answer to {shown} is not JSON"))?;
    let place = if pointer.is_empty() { "the answer" } else { pointer };
    let Some(value) = body.pointer(pointer) else { return Ok(Some(format!("there is no {place}"))) };
    // A null in the manifest is the same as none.
    if is_equal(value, status.equals.as_ref().unwrap_or(&Value::Null)) {
        return Ok(None);
    }
    Ok(Some(format!("{place} is {}", printable(&value.to_string(), MAX_VALUE_CHARACTERS))))
}

/// Whether two values are the same; 1 and 1.0 are.
fn is_equal(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one.to_bits() == other.to_bits(),
        _ => one == other,
    }
}

/// Why an answer is no success.
fn unsuccessful(reply: &Reply, shown: &str) -> String {
    if reply.code.is_redirection() {
        return format!("{shown} answered {} with a redirect, which is not followed", reply.code.as_u16());
    }
    answered(reply, shown)
}

fn answered(reply: &Reply, shown: &str) -> String {
    let code = reply.code.as_u16();
    match reply.said() {
        None => format!("{shown} answered {code}"),
        Some(said) => format!("{shown} answered {code}: {said}"),
    }
}

fn too_long(shown: &str) -> String {
    format!("the answer to {shown} is longer than {} KiB", MAX_BODY_BYTES / 1024)
}

impl Reply {
    /// What the pod says in words. A page for browsers says nothing, and of a text without end there is no beginning: it could
    /// end in half a credential.
    fn said(&self) -> Option<String> {
        let text: Cow<'_, str> = String::from_utf8_lossy(&self.body);
        let text = text.trim();
        let says = !self.is_too_long && !text.is_empty() && !text.starts_with('<');
        says.then(|| text.to_owned())
    }

    fn retry_after(&self) -> Option<Duration> {
        let seconds = self.headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
        Some(Duration::from_secs(seconds))
    }
}
