//! Follows one object by its name, with a list and a watch that can see nothing else.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::shell::api::{Api, ApiError, Kind, LIST_TIMEOUT, MAX_OBJECT_BYTES, Place, of_code};
use crate::shell::backoff;
use crate::shell::kinds::FIELD_SELECTOR;

/// How long the server keeps a watch open, in seconds: each renewal is a request.
const WATCH_SECONDS: &str = "590";

/// A watch that is silent for longer is dead: the server sends a bookmark every minute.
const IDLE_LIMIT: Duration = Duration::from_secs(150);

/// What has gone well for so long has recovered: longer than the longest wait after a failure.
const RECOVERED_AFTER: Duration = Duration::from_mins(1);

/// An object, by its kind, namespace and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) kind: Kind,
    /// `None` for a kind whose objects are in no namespace.
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

impl Named {
    pub(super) fn place(&self) -> Place<'_> {
        Place { name: Some(&self.name), ..self.collection() }
    }

    pub(super) fn collection(&self) -> Place<'_> {
        Place::collection(self.kind, self.namespace.as_deref())
    }
}

/// What was seen last of an object.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Sight {
    /// Nothing yet, because of this.
    Unknown(Option<ApiError>),
    Absent,
    Found(Arc<Value>),
}

/// Follows an object until nobody looks any more.
pub(super) async fn follow(api: Api, object: Named, sight: watch::Sender<Sight>) {
    let mut failures = 0_u32;
    while !sight.is_closed() {
        let began = Instant::now();
        let error = round(&api, &object, &sight).await;
        if began.elapsed() >= RECOVERED_AFTER {
            failures = 0;
        }
        failures = failures.saturating_add(1);
        let wait = backoff::delay(failures, api.chance());
        tokio::time::sleep(match error {
            ApiError::Throttled { retry_after } => wait.max(retry_after),
            _ => wait,
        })
        .await;
    }
}

/// One consistent list, and watches from there until one of them fails.
async fn round(api: &Api, object: &Named, sight: &watch::Sender<Sight>) -> ApiError {
    let selector = format!("metadata.name={}", object.name);
    let mut version = match list(api, object, &selector, sight).await {
        Ok(version) => version,
        Err(error) => {
            // What was seen before is still the best that is known.
            sight.send_if_modified(|sight| {
                let is_unknown = matches!(sight, Sight::Unknown(_));
                if is_unknown {
                    *sight = Sight::Unknown(Some(error.clone()));
                }
                is_unknown
            });
            return error;
        }
    };
    loop {
        let began = Instant::now();
        if let Err(error) = watch(api, object, &selector, sight, &mut version).await {
            return error;
        }
        if began.elapsed() < RECOVERED_AFTER {
            return ApiError::Unanswered("the watch ended early".to_owned());
        }
    }
}

/// Lists the object; the version to watch from.
async fn list(
    api: &Api,
    object: &Named,
    selector: &str,
    sight: &watch::Sender<Sight>,
) -> Result<String, ApiError> {
    let limits = (LIST_TIMEOUT, MAX_OBJECT_BYTES);
    let listed = api.list_within(object.collection(), &[(FIELD_SELECTOR, selector)], limits).await?;
    let listed: List = serde_json::from_slice(&listed).map_err(|error| unreadable(&error))?;
    let found = listed.items.into_iter().flatten().next();
    see(sight, found.map_or(Sight::Absent, |found| Sight::Found(Arc::new(found))));
    Ok(listed.metadata.resource_version)
}

/// Watches the object from a version, until the server ends the watch.
async fn watch(
    api: &Api,
    object: &Named,
    selector: &str,
    sight: &watch::Sender<Sight>,
    version: &mut String,
) -> Result<(), ApiError> {
    let from = version.clone();
    let query = [
        (FIELD_SELECTOR, selector),
        ("resourceVersion", from.as_str()),
        ("allowWatchBookmarks", "true"),
        ("timeoutSeconds", WATCH_SECONDS),
    ];
    let mut lines = api.watch(object.collection(), &query).await?;
    while let Some(line) = lines.next(IDLE_LIMIT).await? {
        let event: Event = serde_json::from_slice(&line).map_err(|error| unreadable(&error))?;
        let at = event.object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        if let Some(at) = at.filter(|at| !at.is_empty()) {
            at.clone_into(version);
        }
        match event.kind.as_str() {
            "ADDED" | "MODIFIED" => see(sight, Sight::Found(Arc::new(event.object))),
            "DELETED" => see(sight, Sight::Absent),
            "ERROR" => {
                let code = event.object.get("code").and_then(Value::as_u64);
                let code = code.and_then(|code| http::StatusCode::from_u16(u16::try_from(code).ok()?).ok());
                let code = code.unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
                return Err(of_code(code, "the watch ended".to_owned(), None));
            }
            _ => {}
        }
    }
    Ok(())
}

fn see(sight: &watch::Sender<Sight>, seen: Sight) {
    sight.send_if_modified(|sight| {
        let is_news = *sight != seen;
        *sight = seen;
        is_news
    });
}

fn unreadable(error: &serde_json::Error) -> ApiError {
    // The text of the error may quote a value of a Secret.
    ApiError::Unanswered(format!("an answer that cannot be read, in line {}", error.line()))
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    metadata: Version,
    /// An empty list may be null.
    #[serde(default)]
    items: Option<Vec<Value>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Version {
    resource_version: String,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: Value,
}
