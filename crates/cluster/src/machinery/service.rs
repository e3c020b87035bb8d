//! The API server as a service: HTTP requests in, answers out, in one process.
//!
//! A [`kube::Client`] calls it directly: `Client::new(server, "default")`. Whoever listens on a socket hands it what
//! arrives there.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, Full, Limited, StreamBody, combinators::UnsyncBoxBody};
use kube::client::Body;
use parking_lot::{Mutex, MutexGuard};

use super::admission::Admission;
use super::answer::{self, Refusal};
use super::decode::Wanted;
use super::delete::{self, DeleteOptions, Deleted};
use super::discovery::{self, Page};
use super::draft::{Draft, Written};
use super::hollow;
use super::journal::Journal;
use super::logs::Logs;
use super::object;
use super::protobuf;
use super::read;
use super::request::{Request, ResourcePath, Shape, header_text};
use super::reviews;
use super::scale;
use super::schema::DefinitionsError;
use super::show::{self, View};
use super::state::State;
use super::store::{HISTORY_CHANGES, Key};
use super::table::Headings;
use super::watch;
use super::write::WriteRequest;
use crate::clock::Clock;
use crate::kinds::{Action, Kind, Version};

/// Largest body that is read, in bytes: Kubernetes' own limit.
pub const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;
/// How often a write that was overtaken while webhooks thought about it starts over.
const MAX_OVERTAKEN: usize = 16;

/// What a server is made with.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// What time it is.
    pub clock: Clock,
    /// What UIDs and generated names are drawn from.
    pub seed: u64,
    /// Changes of each kind that watches can go back to.
    pub history: usize,
    /// What it can do that not every server can.
    pub gates: Gates,
}

/// Features that a server of Kubernetes 1.36 has or not, by its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    /// Watches may begin with all there is (`WatchList`).
    pub watch_list: bool,
    /// `maxUnavailable` of a set is kept and defaulted (`MaxUnavailableStatefulSet`).
    pub max_unavailable_stateful_set: bool,
}

impl Default for Gates {
    /// Those that it has without flags.
    fn default() -> Self {
        Gates { watch_list: true, max_unavailable_stateful_set: false }
    }
}

impl Settings {
    /// The settings of a server on this clock.
    pub fn new(clock: Clock) -> Self {
        Settings { clock, seed: 0, history: HISTORY_CHANGES, gates: Gates::default() }
    }
}

/// An API server. Clones are the same server.
#[derive(Clone)]
pub struct Server {
    state: Arc<Mutex<State>>,
    admission: Admission,
    pub(super) logs: Option<Arc<dyn Logs>>,
    journal: Option<Arc<dyn Journal>>,
}

/// The body of an answer: at once, or line by line.
pub type AnswerBody = UnsyncBoxBody<Bytes, Infallible>;

/// The body of a request, from wherever it came.
pub(super) type AskedBody = UnsyncBoxBody<Bytes, std::io::Error>;

/// The answer to a request.
pub(super) struct Reply {
    code: StatusCode,
    body: Vec<u8>,
    warnings: Vec<String>,
    content_type: &'static str,
}

impl Reply {
    pub(super) fn new(code: StatusCode, body: Vec<u8>) -> Self {
        Reply { code, body, warnings: Vec::new(), content_type: discovery::JSON }
    }

    fn ok(body: Vec<u8>) -> Self {
        Reply::new(StatusCode::OK, body)
    }
}

impl From<Page> for Reply {
    fn from(Page { content_type, body }: Page) -> Self {
        Reply { content_type, ..Reply::ok(body) }
    }
}

pub(super) enum Outcome {
    Reply(Reply),
    Watch(Box<watch::Watch>),
    /// Plain text, as it comes.
    Text(BoxStream<'static, Bytes>),
    NotFound,
}

impl Server {
    /// A server with its built-in kinds and the namespaces that every cluster has.
    pub fn new(settings: Settings) -> Result<Self, DefinitionsError> {
        let mut state = State::of(settings)?;
        crate::kinds::found(&mut state);
        Ok(Server::with(state, None))
    }

    pub(crate) fn with(state: State, journal: Option<Arc<dyn Journal>>) -> Self {
        Server { state: Arc::new(Mutex::new(state)), admission: Admission::default(), logs: None, journal }
    }

    /// Asks webhooks through this from now on; without it those in configurations cannot be reached.
    #[must_use]
    pub fn with_webhooks(mut self, webhooks: Arc<dyn super::admission::Webhooks>) -> Self {
        self.admission = Admission::new(webhooks);
        self
    }

    /// Shows what containers say through this from now on; without it they say nothing.
    #[must_use]
    pub fn with_logs(mut self, logs: Arc<dyn Logs>) -> Self {
        self.logs = Some(logs);
        self
    }

    /// Forgets the past: who watches from before now is told 410.
    pub fn compact(&self) {
        self.lock().store.compact();
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // Not poisoned by a panic elsewhere, which leaves objects whole: they are replaced, never changed in place.
        self.state.lock()
    }

    /// Answers one request; its body may come from a socket or from memory.
    pub(crate) fn answer<B>(self, request: http::Request<B>) -> BoxFuture<'static, Response<AnswerBody>>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<tower::BoxError>,
    {
        let request = request.map(|body| body.map_err(std::io::Error::other).boxed_unsync());
        let is_head = request.method() == Method::HEAD;
        Box::pin(async move {
            let mut response = self.respond(request).await;
            if is_head {
                *response.body_mut() = full(Vec::new());
            }
            response
        })
    }

    async fn respond(self, request: http::Request<AskedBody>) -> Response<AnswerBody> {
        match self.keep(request).await {
            Ok(Outcome::Reply(reply)) => {
                let mut response = respond(reply.code, reply.body, &reply.warnings, None);
                if reply.code == StatusCode::NO_CONTENT {
                    response.headers_mut().remove(header::CONTENT_TYPE);
                } else {
                    let content_type = HeaderValue::from_static(reply.content_type);
                    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
                }
                response
            }
            Ok(Outcome::Text(text)) => {
                let mut response =
                    Response::new(StreamBody::new(text.map(|text| Ok(Frame::data(text)))).boxed_unsync());
                let content_type = HeaderValue::from_static(discovery::TEXT);
                response.headers_mut().insert(header::CONTENT_TYPE, content_type);
                response
            }
            Ok(Outcome::Watch(watch)) => {
                let lines = watch.lines().map(|line| Ok(Frame::data(line)));
                let mut response = Response::new(StreamBody::new(lines).boxed_unsync());
                response
                    .headers_mut()
                    .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
                response
            }
            Ok(Outcome::NotFound) => {
                let mut response = Response::new(full(b"404 page not found\n".to_vec()));
                *response.status_mut() = StatusCode::NOT_FOUND;
                response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
                response
            }
            Err(refusal) => {
                let status = show::bytes(&refusal.status());
                respond(refusal.code(), status, refusal.warnings(), refusal.retry_after())
            }
        }
    }

    /// Handles a request, and answers a write once it is written down.
    async fn keep(&self, request: http::Request<AskedBody>) -> Result<Outcome, Refusal> {
        let reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        let Some(journal) = self.journal.as_ref().filter(|_| !reads) else {
            return self.handle(request).await;
        };
        journal.trouble().map_or(Ok(()), Err).map_err(Refusal::internal)?;
        let outcome = self.handle(request).await?;
        let version = self.lock().store.version();
        journal.written(version).await.map_err(Refusal::internal)?;
        Ok(outcome)
    }

    async fn handle(&self, request: http::Request<AskedBody>) -> Result<Outcome, Refusal> {
        let (parts, body) = request.into_parts();
        let Some(path) = ResourcePath::parse(parts.uri.path()) else {
            let state = self.lock();
            let accept = header_text(&parts.headers, header::ACCEPT);
            return match discovery::answer(&state, parts.uri.path(), accept)? {
                Some(page) => Ok(Outcome::Reply(page.into())),
                None if is_of_built_in(&state, parts.uri.path()) => Err(Refusal::no_such_resource()),
                None => Ok(Outcome::NotFound),
            };
        };
        if let Some(review) = reviews::find(&path) {
            let content_type = header_text(&parts.headers, header::CONTENT_TYPE);
            return self.review(review, &parts.method, &path, (content_type, body)).await.map(Outcome::Reply);
        }
        let found = {
            let state = self.lock();
            if !state.table.has_version(&path.group, &path.version) {
                // Groups that are custom throughout are answered by another part of Kubernetes.
                let is_built_in = state.table.rows().any(|row| row.group == path.group && !row.custom);
                return if is_built_in { Err(Refusal::no_such_resource()) } else { Ok(Outcome::NotFound) };
            }
            state.table.get(&path.group, &path.plural).cloned()
        };
        let kind = found.ok_or_else(Refusal::no_such_resource)?;
        let version = kind.version(&path.version).cloned().ok_or_else(Refusal::no_such_resource)?;
        if !is_in_scope(&kind, &path) {
            return if kind.custom { Ok(Outcome::NotFound) } else { Err(Refusal::no_such_resource()) };
        }
        if let Some(refusal) = hollow::refusal(&path) {
            let name = path.name.as_deref().unwrap_or_default();
            let key = kind.key(path.namespace.as_deref().unwrap_or_default(), name);
            let exists = self.lock().store.get(&key).is_some();
            return Err(if exists { refusal } else { Refusal::not_found(kind.resource(), name) });
        }
        if let ("", "pods", Some(name), Some("log")) =
            (kind.group.as_str(), kind.plural.as_str(), &path.name, path.subresource.as_deref())
        {
            return self.log(&parts, &kind, path.namespace.as_deref().unwrap_or_default(), name);
        }
        check_subresource(&kind, &version, &path, &parts.method)?;
        let mut request = Request::read(&parts, path)?;
        let view = View {
            kind: Arc::clone(&kind),
            version: version.name.clone(),
            shape: request.shape,
            clock: self.lock().clock,
            headings: Headings::default(),
        };
        let body = in_json(&mut request.content_type, body).await?;
        let mut outcome = self.serve(request, &view, &version, body).await?;
        if let (Outcome::Reply(reply), Some(told)) = (&mut outcome, &version.deprecation) {
            reply.warnings.insert(0, told.clone());
        }
        Ok(outcome)
    }

    async fn serve(
        &self,
        request: Request,
        view: &View,
        version: &Version,
        body: AskedBody,
    ) -> Result<Outcome, Refusal> {
        let kind = &view.kind;
        match (&request.method, request.path.name.clone(), request.path.subresource.clone()) {
            (&Method::GET, None, None) if request.query.flag("watch") => {
                watch::begin(&self.state, &request, view.clone()).map(|watch| Outcome::Watch(Box::new(watch)))
            }
            (&Method::GET, None, None) => {
                read::list(&self.lock(), &request, view).map(|body| Outcome::Reply(Reply::ok(body)))
            }
            (&Method::GET, Some(name), subresource) => {
                self.get(&request, view, version, &name, subresource.as_deref()).map(Outcome::Reply)
            }
            (&Method::DELETE, name, None) => {
                let body = read_body(body).await?;
                let options = DeleteOptions::read(&request, &body)?;
                match name {
                    Some(name) => self.delete(&request, view, &name, &options).await,
                    None => self.delete_many(&request, view, &options).await,
                }
                .map(Outcome::Reply)
            }
            (&Method::POST, Some(name), Some(subresource)) => {
                let body = read_body(body).await?;
                self.act(&request, kind, &name, &subresource, &body).await.map(Outcome::Reply)
            }
            // Who creates must say where.
            (&Method::POST, None, _) if kind.namespaced && request.path.namespace.is_none() => {
                Err(Refusal::method_not_allowed())
            }
            (&Method::POST | &Method::PUT | &Method::PATCH, ..) => {
                let body = read_body(body).await?;
                self.write(&request, view, version, &body).await.map(Outcome::Reply)
            }
            _ => Err(Refusal::method_not_allowed()),
        }
    }

    fn get(
        &self,
        request: &Request,
        view: &View,
        version: &Version,
        name: &str,
        subresource: Option<&str>,
    ) -> Result<Reply, Refusal> {
        let state = self.lock();
        if let (Some("scale"), Some(scale)) = (subresource, &version.scale) {
            let object = state.store.get(&key(request, &view.kind, name));
            let object = object.ok_or_else(|| Refusal::not_found(view.kind.resource(), name))?;
            return Ok(Reply::ok(show::bytes(&scale::show(&view.kind, scale, object)?)));
        }
        read::get(&state, request, view, name).map(Reply::ok)
    }

    /// Creates, updates, patches or applies.
    async fn write(
        &self,
        request: &Request,
        view: &View,
        version: &Version,
        body: &[u8],
    ) -> Result<Reply, Refusal> {
        let kind = &view.kind;
        let scale = match request.path.subresource.as_deref() {
            Some("scale") => Some(version.scale.as_ref().ok_or_else(Refusal::no_such_resource)?),
            _ => None,
        };
        let write = WriteRequest { request, kind, version, body };
        for _ in 0..MAX_OVERTAKEN {
            let mut draft = {
                let mut state = self.lock();
                let draft = match (scale, request.path.name.as_deref()) {
                    (Some(scale), Some(name)) => write.draft_scale(&mut state, scale, name)?,
                    _ => write.draft(&mut state)?,
                };
                if !Admission::concerns(&state, &draft) {
                    return finish(draft, &mut state, view, scale);
                }
                draft
            };
            self.admission.mutate(&self.state, &mut draft).await?;
            draft.judge().map_err(|refusal| refusal.warning(&draft.warnings))?;
            self.admission.validate(&self.state, &mut draft).await?;
            let mut state = self.lock();
            if draft.is_current(&state) {
                return finish(draft, &mut state, view, scale);
            }
        }
        Err(Refusal::modified(kind.resource(), request.path.name.as_deref().unwrap_or_default()))
    }

    async fn delete(
        &self,
        request: &Request,
        view: &View,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Reply, Refusal> {
        let kind = &view.kind;
        let key = key(request, kind, name);
        let warnings = self.admission.deletion(&self.state, kind, &key, options.said()).await?;
        let (code, body) = match delete::delete(&mut self.lock(), kind, &key, options)? {
            Deleted::Gone(object) if !kind.habits.shows_deleted => {
                let uid = object::uid(&object);
                (StatusCode::OK, show::bytes(&answer::deleted(kind.resource(), name, uid)))
            }
            Deleted::Gone(object) | Deleted::Going(object) => (StatusCode::OK, view.object(&object)),
        };
        Ok(Reply { code, warnings, ..Reply::ok(body) })
    }

    async fn delete_many(
        &self,
        request: &Request,
        view: &View,
        options: &DeleteOptions,
    ) -> Result<Reply, Refusal> {
        let kind = &view.kind;
        if kind.namespaced && request.path.namespace.is_none() || kind.habits.one_by_one {
            return Err(Refusal::method_not_allowed());
        }
        let (metadata, found) =
            read::find(&self.lock(), request, &View { shape: Shape::Whole, ..view.clone() })?;
        // A version in the query is one that each object has to have.
        let wanted = request.query.get("resourceVersion").map(str::to_owned);
        let options = &DeleteOptions { version: options.version.clone().or(wanted), ..options.clone() };
        for object in &found {
            let key = kind.key(object::namespace(object), object::name(object));
            self.admission.deletion(&self.state, kind, &key, options.said()).await?;
            match delete::delete(&mut self.lock(), kind, &key, options) {
                Err(refusal) if refusal.code() != StatusCode::NOT_FOUND => return Err(refusal),
                _ => {}
            }
        }
        Ok(Reply::ok(view.list(&metadata, found.iter().map(|object| &**object))))
    }

    async fn act(
        &self,
        request: &Request,
        kind: &Arc<Kind>,
        name: &str,
        subresource: &str,
        body: &[u8],
    ) -> Result<Reply, Refusal> {
        let act = kind.actions.iter().find(|action| action.name == subresource);
        let action = act.ok_or_else(Refusal::method_not_allowed)?;
        let Action { kind: wanted, api_version, act, .. } = action;
        let package = api_version.split_once('/').map_or("core", |(group, _)| group);
        let wanted = Wanted { kind: wanted, api_version: (*api_version).to_owned(), package, custom: false };
        let mut body = wanted.read(&request.content_type, body, &self.lock().table)?.value;
        let said = object::name(&body);
        if !said.is_empty() && said != name {
            let why = format!("name in URL does not match name in {} object", wanted.kind);
            return Err(Refusal::bad_request(why));
        }
        let key = key(request, kind, name);
        object::metadata(&mut body).insert("namespace".into(), key.namespace.clone().into());
        let mut options = serde_json::json!({ "kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1" });
        if request.query.dry_run("CreateOptions")? {
            object::fields(&mut options).insert("dryRun".into(), serde_json::json!(["All"]));
        }
        let warnings = self.admission.act(&self.state, kind, &key, action, (&body, options)).await?;
        let body = act(&mut self.lock(), kind, &key, &body, &request.query)?;
        Ok(Reply { code: StatusCode::CREATED, warnings, ..Reply::ok(show::bytes(&body)) })
    }
}

/// Judges and stores a draft, and shows what came of it.
fn finish(
    draft: Draft,
    state: &mut State,
    view: &View,
    scale: Option<&crate::kinds::Scale>,
) -> Result<Reply, Refusal> {
    draft.judge().map_err(|refusal| refusal.warning(&draft.warnings))?;
    if draft.before.is_none() {
        crate::kinds::quotas::admit(state, &draft.kind, &draft.key)?;
    }
    let warnings = draft.warnings.clone();
    let Written { object, created } = draft.commit(state)?;
    let code = if created { StatusCode::CREATED } else { StatusCode::OK };
    let body = match scale {
        Some(scale) => show::bytes(&scale::show(&view.kind, scale, &object)?),
        None => view.object(&object),
    };
    Ok(Reply { code, warnings, ..Reply::ok(body) })
}

fn key(request: &Request, kind: &Kind, name: &str) -> Key {
    kind.key(request.path.namespace.as_deref().unwrap_or_default(), name)
}

/// Whether a path that leads nowhere begins like one of a built-in group.
fn is_of_built_in(state: &State, path: &str) -> bool {
    match path.trim_matches('/').split('/').collect::<Vec<_>>().as_slice() {
        ["api", _, ..] => true,
        ["apis", group, _, ..] => state.table.rows().any(|row| row.group == *group && !row.custom),
        _ => false,
    }
}

/// Whether a path agrees with where the kind lives.
fn is_in_scope(kind: &Kind, path: &ResourcePath) -> bool {
    !matches!(
        (kind.namespaced, path.namespace.is_some(), path.name.is_some()),
        (true, false, true) | (false, true, _)
    )
}

/// A subresource must be one of the kind, and take the method.
fn check_subresource(
    kind: &Kind,
    version: &Version,
    path: &ResourcePath,
    method: &Method,
) -> Result<(), Refusal> {
    let (Some(name), Some(subresource)) = (&path.name, &path.subresource) else {
        return Ok(());
    };
    let is_action = kind.actions.iter().any(|action| action.name == subresource);
    let known = match subresource.as_str() {
        "status" => version.status,
        "scale" => version.scale.is_some(),
        "finalize" => kind.habits.one_by_one,
        _ => is_action,
    };
    match (known, is_action, method) {
        (false, ..) if kind.custom && matches!(subresource.as_str(), "scale" | "status") => {
            Err(Refusal::not_found(kind.resource(), name))
        }
        (false, ..) => Err(Refusal::no_such_resource()),
        (true, true, &Method::POST) | (true, false, &(Method::GET | Method::PUT | Method::PATCH)) => Ok(()),
        _ => Err(Refusal::method_not_allowed()),
    }
}

pub(super) async fn read_body(body: AskedBody) -> Result<Bytes, Refusal> {
    match Limited::new(body, MAX_BODY_BYTES).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            Err(Refusal::too_large(MAX_BODY_BYTES))
        }
        Err(error) => Err(Refusal::bad_request(format!("unable to read the body: {error}"))),
    }
}

/// The same body in JSON if it is in protobuf and of a kind that is known, and its type changed accordingly.
pub(super) async fn in_json(content_type: &mut String, body: AskedBody) -> Result<AskedBody, Refusal> {
    if content_type != protobuf::MEDIA_TYPE {
        return Ok(body);
    }
    let body = read_body(body).await?;
    // What is in it is told where the type is refused.
    let Ok(object) = protobuf::read(&body) else {
        return Ok(Full::new(body).map_err(|never| match never {}).boxed_unsync());
    };
    discovery::JSON.clone_into(content_type);
    Ok(Full::from(show::bytes(&object)).map_err(|never| match never {}).boxed_unsync())
}

fn full(body: Vec<u8>) -> AnswerBody {
    Full::new(Bytes::from(body)).boxed_unsync()
}

fn respond(
    code: StatusCode,
    body: Vec<u8>,
    warnings: &[String],
    retry_after: Option<u64>,
) -> Response<AnswerBody> {
    let mut response = Response::new(full(body));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(seconds) = retry_after {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    for warning in warnings {
        let escaped = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{escaped}\"")) {
            headers.append(header::WARNING, value);
        }
    }
    response
}

impl tower::Service<http::Request<Body>> for Server {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move { Ok(server.answer(request).await) })
    }
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "limits_tests.rs"]
mod limits;
