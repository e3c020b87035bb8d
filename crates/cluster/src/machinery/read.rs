//! Getting one object, listing many.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};

use super::answer::Refusal;
use super::field_selector::FieldSelector;
use super::request::{Query, Request, Shape};
use super::schema::Cause;
use super::selector::Selector;
use super::show::View;
use super::state::State;
use super::store::Key;
use super::stored::Stored;
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
            namespace: request.path.namespace.clone(),
            labels: Selector::parse(text("labelSelector")).map_err(refuse)?,
            fields: FieldSelector::parse(text("fieldSelector"), &kind.fields, kind.has_own_fields())
                .map_err(refuse)?,
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
        let version = query.get("resourceVersion").map(str::to_owned);
        let initial_events = query.get("sendInitialEvents").map(|_| query.flag("sendInitialEvents"));
        let said = query.get("resourceVersionMatch");
        let at = "resourceVersionMatch";
        let mut causes = Vec::new();
        let mut forbid = |why: &str| causes.push(Cause::forbidden(at, why));
        let is_continued = query.get("continue").is_some();
        if is_watch && initial_events.is_none() {
            if said.is_some() {
                forbid("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
            }
        } else if is_watch {
            if said != Some("NotOlderThan") {
                forbid("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
            }
            if is_continued {
                forbid("resourceVersionMatch is forbidden when continue is provided");
            }
            if let Some(other) = said.filter(|said| *said != "NotOlderThan") {
                causes.push(Cause::unsupported(at, &other.into(), &["NotOlderThan"]));
            }
        } else if let Some(said) = said {
            if version.is_none() {
                forbid("resourceVersionMatch is forbidden unless resourceVersion is provided");
            }
            if is_continued {
                forbid("resourceVersionMatch is forbidden when continue is provided");
            }
            if said == "Exact" && version.as_deref() == Some("0") {
                forbid("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
            }
            if !matches!(said, "Exact" | "NotOlderThan") {
                causes.push(Cause::unsupported(at, &said.into(), &["Exact", "NotOlderThan", ""]));
            }
        }
        if initial_events.is_some() && !is_watch {
            causes.push(Cause::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        if !causes.is_empty() {
            return Err(Refusal::options("ListOptions", &causes));
        }
        let matching = match said {
            None => Match::Unset,
            Some("Exact") => Match::Exact,
            Some(_) => Match::NotOlderThan,
        };
        Ok(ListOptions { version, matching, initial_events })
    }
}

/// The message with which Go refuses a number.
pub(crate) fn parse_version(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing \"{text}\": invalid syntax"))
}

/// What one object or a watch is not asked for at.
pub(crate) fn unread_version(text: &str, why: &str) -> Refusal {
    Refusal::internal(format!("resourceVersion: Invalid value: \"{text}\": {why}"))
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
        let asked = parse_version(version).map_err(|why| unread_version(version, &why))?;
        if asked > state.store.version() {
            return Err(Refusal::from_the_future(asked, state.store.version()));
        }
    }
    let kind = &view.kind;
    let key = kind.key(request.path.namespace.as_deref().unwrap_or_default(), name);
    match state.store.get(&key) {
        Some(object) => Ok(view.object(object)),
        None => Err(Refusal::not_found(kind.resource(), name)),
    }
}

/// Where a list goes on.
struct Continue {
    /// None is the latest.
    version: Option<u64>,
    start: String,
}

impl Continue {
    fn parse(token: &str) -> Result<Self, Refusal> {
        let refuse = |why: &str| Refusal::bad_request(format!("invalid continue token: {why}"));
        let undecodable = || refuse("continue key is not valid: illegal base64 data at input byte 0");
        let text = URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')).map_err(|_| undecodable())?;
        let unread = |why: String| refuse(&format!("continue key is not valid: {why}"));
        let token = super::json::read(&text).map_err(unread)?.value;
        if token.get("v").and_then(Value::as_str) != Some("meta.k8s.io/v1") {
            let said = token.get("v").and_then(Value::as_str).unwrap_or_default();
            return Err(refuse(&format!(
                "continue key is not valid: server does not recognize this encoded version {said}"
            )));
        }
        let version = token.get("rv").and_then(Value::as_i64).unwrap_or_default();
        if version == 0 {
            return Err(refuse(
                "continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ));
        }
        let start = token.get("start").and_then(Value::as_str).unwrap_or_default();
        if start.is_empty() {
            return Err(refuse(
                "continue key is not valid: encoded start key empty (version meta.k8s.io/v1)",
            ));
        }
        Ok(Continue { version: u64::try_from(version).ok(), start: start.to_owned() })
    }

    /// The token that goes on from here; without a version with the latest.
    fn token(start: &str, version: Option<u64>) -> String {
        let version = version.map_or_else(|| json!(-1), Value::from);
        URL_SAFE_NO_PAD.encode(json!({ "v": "meta.k8s.io/v1", "rv": version, "start": start }).to_string())
    }

    /// Goes on after this object.
    fn after(key: &Key, namespace: Option<&str>, version: u64) -> String {
        let namespace = if namespace.is_some() { "" } else { &key.namespace };
        let start = format!("{namespace}/{}\0", key.name);
        Self::token(&start, Some(version))
    }

    /// The first place in the store that has not been shown.
    fn key(&self, kind: &Kind, namespace: Option<&str>) -> Key {
        let (said, name) = self.start.split_once('/').unwrap_or(("", &self.start));
        Key { kind: kind.id, namespace: namespace.unwrap_or(said).to_owned(), name: name.to_owned() }
    }
}

/// A list, as text.
pub(crate) fn list(state: &State, request: &Request, view: &View) -> Result<Vec<u8>, Refusal> {
    let (metadata, found) = find(state, request, view)?;
    Ok(view.list(&metadata, found.iter().map(|object| &**object)))
}

/// The objects that a list shows, and its own metadata.
pub(crate) fn find(
    state: &State,
    request: &Request,
    view: &View,
) -> Result<(Value, Vec<Arc<Stored>>), Refusal> {
    let kind = &view.kind;
    let filter = Filter::read(request, kind)?;
    let options = ListOptions::read(&request.query, false)?;
    let limit = request.query.number("limit")?.unwrap_or_default();
    let mut limit = usize::try_from(limit).ok().filter(|limit| *limit > 0);
    let token = request.query.get("continue").map(Continue::parse).transpose()?;
    let namespace = filter.namespace.as_deref();
    let current = state.store.version();

    let mut version = current;
    let mut past: Option<BTreeMap<Key, Arc<Stored>>> = None;
    if let Some(token) = &token {
        if options.version.as_deref().is_some_and(|version| version != "0") {
            let why = "specifying resource version is not allowed when using continue";
            return Err(Refusal::bad_request(why));
        }
        if let Some(then) = token.version {
            version = then;
            let too_old = |_| Refusal::expired_page(Continue::token(&token.start, None));
            past = Some(state.store.list_at(kind.id, version).map_err(too_old)?);
        }
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
    let is_here = |key: &Key| namespace.is_none_or(|namespace| key.namespace == namespace);
    let due: Vec<(&Key, &Arc<Stored>)> = match &past {
        Some(past) => past.iter().filter(|(key, _)| is_due(key) && is_here(key)).collect(),
        None => state.store.list(kind.id, namespace).filter(|(key, _)| is_due(key)).collect(),
    };
    let mut found: Vec<(&Key, &Arc<Stored>)> =
        due.iter().copied().filter(|(key, object)| filter.matches(key, object)).collect();

    let mut metadata = Map::from_iter([("resourceVersion".to_owned(), version.to_string().into())]);
    if kind.custom && view.shape == Shape::Whole {
        metadata.insert("continue".into(), "".into());
    }
    let full = limit.filter(|limit| found.len() >= *limit);
    let last = full.and_then(|limit| found.get(limit.checked_sub(1)?)).map(|(key, _)| *key);
    // Whether more is to come is said of all objects: nobody has looked yet which of them match.
    let remaining = last.map_or(0, |last| due.iter().filter(|(key, _)| *key > last).count());
    if let (Some(limit), Some(last), 1..) = (full, last, remaining) {
        metadata.insert("continue".into(), Continue::after(last, namespace, version).into());
        if !filter.selects() {
            metadata.insert("remainingItemCount".into(), remaining.into());
        }
        found.truncate(limit);
    }
    Ok((Value::Object(metadata), found.into_iter().map(|(_, object)| Arc::clone(object)).collect()))
}
