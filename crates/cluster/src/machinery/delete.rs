//! Deleting objects: at once, or marked and left to those who hold them.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use strum::{EnumString, IntoStaticStr};

use super::answer::{About, Refusal};
use super::draft::is_free;
use super::object::{self, text};
use super::request::Request;
use super::schema::Cause;
use super::state::State;
use super::store::Key;
use super::stored::Stored;
use crate::clock;
use crate::kinds::Kind;

/// The finalizer that makes dependents go first.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer that lets dependents stay.
pub(crate) const ORPHAN: &str = "orphan";

/// What becomes of dependents, as `propagationPolicy` spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr)]
pub(crate) enum Propagation {
    Foreground,
    Background,
    Orphan,
}

/// How a deletion is meant.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace: Option<i64>,
    pub(crate) uid: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) propagation: Option<Propagation>,
    pub(crate) dry_run: bool,
}

/// What a deletion has led to.
pub(crate) enum Deleted {
    /// The object is gone; this was its last state.
    Gone(Arc<Stored>),
    /// It is marked and stays until its holders let go.
    Going(Arc<Stored>),
}

impl DeleteOptions {
    /// Options come as a body or, where there is none, in the query.
    pub(crate) fn read(request: &Request, body: &[u8]) -> Result<Self, Refusal> {
        let body = if body.trim_ascii().is_empty() {
            Value::Null
        } else {
            super::decode::delete_options(&request.content_type, body)?
        };
        let field = |name: &str| {
            let said = body.get(name).filter(|value| !value.is_null()).cloned();
            said.or_else(|| body.is_null().then(|| request.query.get(name).map(Value::from)).flatten())
        };
        let grace = match field("gracePeriodSeconds") {
            Some(Value::String(_)) => request.query.number("gracePeriodSeconds")?,
            said => said.and_then(|value| value.as_i64()),
        };
        let orphan = field("orphanDependents").map(|value| value == json!(true) || value == json!("true"));
        let policy = field("propagationPolicy");
        if let (Some(policy), Some(_)) = (&policy, orphan) {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            let cause = Cause::invalid("propagationPolicy", policy, why);
            return Err(Refusal::options("DeleteOptions", &[cause]));
        }
        let propagation = match policy.as_ref().and_then(Value::as_str) {
            None => orphan.map(|orphan| if orphan { Propagation::Orphan } else { Propagation::Background }),
            Some(said) => Some(said.parse().map_err(|_| {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                let cause = Cause::unsupported("propagationPolicy", &said.into(), &supported);
                Refusal::options("DeleteOptions", &[cause])
            })?),
        };
        let precondition = |pointer| Some(text(&body, pointer).to_owned()).filter(|said| !said.is_empty());
        let said_dry_run = match body.get("dryRun") {
            Some(asked) if *asked == json!(["All"]) => true,
            Some(asked) if asked.as_array().is_some_and(|asked| !asked.is_empty()) => {
                let cause = Cause::unsupported("dryRun", asked, &["All"]);
                return Err(Refusal::options("DeleteOptions", &[cause]));
            }
            _ => false,
        };
        Ok(DeleteOptions {
            grace,
            uid: precondition("/preconditions/uid"),
            version: precondition("/preconditions/resourceVersion"),
            propagation,
            dry_run: said_dry_run || request.query.dry_run("DeleteOptions")?,
        })
    }

    /// As webhooks see them.
    pub(crate) fn said(&self) -> Value {
        let mut said = json!({ "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1" });
        let fields = object::fields(&mut said);
        fields.extend(self.grace.map(|grace| ("gracePeriodSeconds".to_owned(), grace.into())));
        let policy = self.propagation.map(<&str>::from);
        fields.extend(policy.map(|policy| ("propagationPolicy".to_owned(), policy.into())));
        for (field, value) in [("uid", &self.uid), ("resourceVersion", &self.version)] {
            if let Some(value) = value {
                object::entry(fields, "preconditions").insert(field.to_owned(), value.clone().into());
            }
        }
        if self.dry_run {
            fields.insert("dryRun".into(), json!(["All"]));
        }
        said
    }

    fn check(&self, kind: About<'_>, live: &Value) -> Result<(), Refusal> {
        let name = object::name(live);
        let (uid, version) = (object::uid(live), text(live, "/metadata/resourceVersion"));
        match (&self.uid, &self.version) {
            (Some(wanted), _) if wanted != uid => {
                let why = format!(
                    "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object \
                     might have been deleted and then recreated"
                );
                Err(Refusal::conflict(kind, name, &why))
            }
            (_, Some(wanted)) if wanted != version => {
                let why = format!(
                    "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record \
                     ({version}). The object might have been modified"
                );
                Err(Refusal::conflict(kind, name, &why))
            }
            _ => Ok(()),
        }
    }
}

/// Deletes an object, or marks it.
pub(crate) fn delete(
    state: &mut State,
    kind: &Arc<Kind>,
    key: &Key,
    options: &DeleteOptions,
) -> Result<Deleted, Refusal> {
    let Some(live) = state.store.get(key).cloned() else {
        return Err(Refusal::not_found(kind.resource(), &key.name));
    };
    if let Some(why) = kind.strategy.undeletable(&key.name) {
        return Err(Refusal::forbidden(kind.resource(), &key.name, why, None));
    }
    options.check(kind.about(), &live)?;
    let mut object = (*live).clone();
    propagate(&mut object, options.propagation);
    let left = object::number(&live, "/metadata/deletionGracePeriodSeconds");
    let grace = kind.strategy.grace(&live, options.grace);
    let asked = grace.unwrap_or_default();
    if object::is_deleting(&live) {
        // A deletion can be hurried, never slowed down.
        let wanted = options.grace.map(|_| asked);
        if let Some(sooner) = wanted.filter(|wanted| *wanted < left.unwrap_or_default()) {
            mark(&mut object, state.clock.timestamp(), sooner);
        }
    } else {
        mark(&mut object, state.clock.timestamp(), asked);
        let metadata = object::metadata(&mut object);
        if let Some(generation) = metadata.get("generation").and_then(Value::as_i64).filter(|n| *n > 0) {
            metadata.insert("generation".into(), (generation + 1).into());
        }
        kind.strategy.mark_deleted(&mut object);
    }
    if is_free(kind, &object) {
        if grace.is_none() {
            object = (*live).clone();
        }
        if options.dry_run {
            return Ok(Deleted::Gone(Stored::new(object)));
        }
        // What has a time to end is marked first, even when that time is over.
        let object = if grace.is_some() && *live != object {
            (*state.store.put(key.clone(), object)).clone()
        } else {
            object
        };
        let gone = state.store.remove(key.clone(), object);
        kind.strategy.written(state, Some(&live), None);
        return Ok(Deleted::Gone(gone));
    }
    if *live == object || options.dry_run {
        return Ok(Deleted::Going(Stored::new(object)));
    }
    let marked = state.store.put(key.clone(), object);
    kind.strategy.written(state, Some(&live), Some(&marked));
    Ok(Deleted::Going(marked))
}

fn mark(object: &mut Value, now: Timestamp, grace: i64) {
    let end = now.checked_add(SignedDuration::from_secs(grace)).unwrap_or(now);
    let metadata = object::metadata(object);
    metadata.insert("deletionTimestamp".into(), clock::whole_seconds(end).into());
    metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
}

fn propagate(object: &mut Value, propagation: Option<Propagation>) {
    let Some(propagation) = propagation else {
        return;
    };
    let metadata = object::metadata(object);
    let mut finalizers = metadata.get("finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
    finalizers.retain(|finalizer| *finalizer != FOREGROUND && *finalizer != ORPHAN);
    match propagation {
        Propagation::Foreground => finalizers.push(FOREGROUND.into()),
        Propagation::Orphan => finalizers.push(ORPHAN.into()),
        Propagation::Background => {}
    }
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), finalizers.into());
    }
}
