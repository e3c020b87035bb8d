//! Getting one object, listing many.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::answer::Refusal;
use super::request::{Query, Request};
use super::schema::Cause;
use super::selector::{FieldSelector, Selector};
use super::show::View;
use super::state::State;
use super::store::Key;
use crate::kinds::Kind;

/// Which objects a list, a watch or a deletion of many is about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    pub(crate) namespace: Option<String>,
    labels: Selector,
    fields: FieldSelector,
}

impl Filter {
    pub(crate) fn read(request: &Request, kind: &Kind) -> Result<Self, Refusal> {
        let refuse = |why: super::selector::SelectorError| Refusal::bad_request(why.to_string());
        let text = |name| request.query.get(name).unwrap_or_default();
        Ok(Filter {
            namespace: request.place.namespace.clone(),
            labels: Selector::parse(text("labelSelector")).map_err(refuse)?,
            fields: FieldSelector::parse(text("fieldSelector"), &kind.fields).map_err(refuse)?,
        })
    }

    pub(crate) fn matches(&self, key: &Key, object: &Value) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| *namespace == key.namespace)
            && self.labels.matches(object)
            && self.fields.matches(object)
    }

    fn selects(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }
}

/// How a version that was asked for is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    Unset,
    Exact,
    NotOlderThan,
}

/// What lists and watches have in common.
pub(crate) struct ListOptions {
    /// The text of the version; parsing it is refused differently by lists and watches.
    pub(crate) version: Option<String>,
    pub(crate) matching: Match,
    pub(crate) initial_events: Option<bool>,
}

impl ListOptions {
    pub(crate) fn read(query: &Query, is_watch: bool) -> Result<Self, Refusal> {
        let refuse = |cause| Refusal::options("ListOptions", cause);
        let version = query.get("resourceVersion").map(str::to_owned);
        let initial_events = query.get("sendInitialEvents").map(|_| query.flag("sendInitialEvents"));
        if initial_events.is_some() && !is_watch {
            let why = "sendInitialEvents is forbidden for list";
            return Err(refuse(Cause::forbidden("sendInitialEvents", why)));
        }
        let matching = match query.get("resourceVersionMatch") {
            None => Match::Unset,
            Some("Exact") => Match::Exact,
            Some("NotOlderThan") => Match::NotOlderThan,
            Some(other) => {
                let supported = ["Exact", "NotOlderThan", ""];
                return Err(refuse(Cause::unsupported("resourceVersionMatch", &other.into(), &supported)));
            }
        };
        let at = "resourceVersionMatch";
        let forbidden = |why| Err(refuse(Cause::forbidden(at, why)));
        if is_watch {
            if initial_events.is_some() && matching != Match::NotOlderThan {
                return forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
            }
            if initial_events.is_none() && matching != Match::Unset {
                return forbidden(
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                );
            }
        } else if matching != Match::Unset {
            if version.is_none() {
                return forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided");
            }
            if query.get("continue").is_some() {
                return forbidden("resourceVersionMatch is forbidden when continue is provided");
            }
            if matching == Match::Exact && version.as_deref() == Some("0") {
                return forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
            }
        }
        Ok(ListOptions { version, matching, initial_events })
    }
}

/// The message with which Go refuses a number.
pub(crate) fn parse_version(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing \"{text}\": invalid syntax"))
}

fn listed_version(text: &str) -> Result<u64, Refusal> {
    parse_version(text).map_err(|why| {
        Refusal::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: \"{text}\": {why}"
        ))
    })
}

pub(crate) fn get(state: &State, request: &Request, view: &View, name: &str) -> Result<Vec<u8>, Refusal> {
    if let Some(version) = request.query.get("resourceVersion") {
        let asked = listed_version(version)?;
        if asked > state.store.version() {
            return Err(Refusal::from_the_future(asked, state.store.version()));
        }
    }
    let kind = &view.kind;
    let key = kind.key(request.place.namespace.as_deref().unwrap_or_default(), name);
    match state.store.get(&key) {
        Some(object) => Ok(super::show::bytes(&*view.object(object))),
        None => Err(Refusal::not_found(kind.resource(), name)),
    }
}

/// Where a list goes on.
struct Continue {
    version: u64,
    start: String,
}

impl Continue {
    fn parse(token: &str) -> Result<Self, Refusal> {
        let refuse = |why: &str| Refusal::bad_request(format!("invalid continue token: {why}"));
        let undecodable = || refuse("continue key is not valid: illegal base64 data at input byte 0");
        let text = URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')).map_err(|_| undecodable())?;
        let unread = || {
            let first = text.first().map_or('"', |byte| char::from(*byte));
            refuse(&format!(
                "continue key is not valid: invalid character '{first}' looking for beginning of value"
            ))
        };
        let token: Value = serde_json::from_slice(&text).map_err(|_| unread())?;
        if token.get("v").and_then(Value::as_str) != Some("meta.k8s.io/v1") {
            let said = token.get("v").and_then(Value::as_str).unwrap_or_default();
            return Err(refuse(&format!(
                "continue key is not valid: server does not recognize this encoded version \"{said}\""
            )));
        }
        let start = token.get("start").and_then(Value::as_str).unwrap_or_default();
        if start.is_empty() {
            return Err(refuse(
                "continue key is not valid: encoded start key empty (version meta.k8s.io/v1)",
            ));
        }
        Ok(Continue {
            version: token.get("rv").and_then(Value::as_u64).unwrap_or_default(),
            start: start.to_owned(),
        })
    }

    /// Goes on after this object.
    fn after(key: &Key, namespace: Option<&str>, version: u64) -> String {
        let namespace = if namespace.is_some() { "" } else { &key.namespace };
        let start = format!("{namespace}/{}\0", key.name);
        URL_SAFE_NO_PAD.encode(json!({ "v": "meta.k8s.io/v1", "rv": version, "start": start }).to_string())
    }

    /// The first place in the store that has not been shown.
    fn key(&self, kind: &Kind, namespace: Option<&str>) -> Key {
        let (said, name) = self.start.split_once('/').unwrap_or(("", &self.start));
        Key { kind: kind.id, namespace: namespace.unwrap_or(said).to_owned(), name: name.to_owned() }
    }
}

pub(crate) fn list(state: &State, request: &Request, view: &View) -> Result<Vec<u8>, Refusal> {
    let kind = &view.kind;
    let filter = Filter::read(request, kind)?;
    let options = ListOptions::read(&request.query, false)?;
    let limit = request.query.number("limit")?.unwrap_or_default();
    let mut limit = usize::try_from(limit).ok().filter(|limit| *limit > 0);
    let token = request.query.get("continue").map(Continue::parse).transpose()?;
    let namespace = filter.namespace.as_deref();
    let current = state.store.version();

    let mut version = current;
    let mut past: Option<BTreeMap<Key, Arc<Value>>> = None;
    if let Some(token) = &token {
        version = token.version;
        let too_old = "The provided continue parameter is too old to display a consistent list result. You must start \
                       a new list without the continue parameter.";
        past = Some(state.store.list_at(kind.id, version).map_err(|_| Refusal::expired(too_old))?);
    } else if let Some(text) = &options.version {
        let asked = listed_version(text)?;
        if asked > current {
            return Err(Refusal::from_the_future(asked, current));
        }
        // A limited list at a version means that version, for its pages must agree.
        let exact = options.matching == Match::Exact
            || options.matching == Match::Unset && limit.is_some() && asked > 0;
        if exact {
            version = asked;
            let too_old = "The resourceVersion for the provided list is too old.";
            past = Some(state.store.list_at(kind.id, asked).map_err(|_| Refusal::expired(too_old))?);
        } else if asked == 0 {
            limit = None;
        }
    }

    let start = token.as_ref().map(|token| token.key(kind, namespace));
    let is_due = |key: &Key| start.as_ref().is_none_or(|start| key >= start);
    let wanted = |key: &Key, object: &Value| is_due(key) && filter.matches(key, object);
    let mut found: Vec<(&Key, &Arc<Value>)> = match &past {
        Some(past) => past.iter().filter(|(key, object)| wanted(key, object)).collect(),
        None => state.store.list(kind.id, namespace).filter(|(key, object)| wanted(key, object)).collect(),
    };

    let mut metadata = json!({ "resourceVersion": version.to_string() });
    if let Some(limit) = limit.filter(|limit| found.len() > *limit) {
        let remaining = found.len() - limit;
        found.truncate(limit);
        if let (Some((last, _)), Some(metadata)) = (found.last(), metadata.as_object_mut()) {
            metadata.insert("continue".into(), Continue::after(last, namespace, version).into());
            if !filter.selects() {
                metadata.insert("remainingItemCount".into(), remaining.into());
            }
        }
    }
    Ok(view.list(metadata, found.into_iter().map(|(_, object)| &**object)))
}
