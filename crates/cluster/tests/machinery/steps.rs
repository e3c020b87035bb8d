//! Sequences of writes to one object.

use jiff::Timestamp;
use serde_json::{Value, json};
use sts_plus_cluster::machinery::{
    apply::{self, ApplyError, Manager, Operation},
    patch::{self, PatchError},
    schema::Schema,
};

use crate::server::{Answer, Kind, NAMESPACE, Server};

/// How a step writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Create,
    /// Replaces the object by itself with a merge patch applied.
    Update,
    Json,
    Merge,
    Strategic,
    Apply,
    ForceApply,
}

/// One write.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    how: How,
    manager: &'static str,
    status: bool,
    /// The code of the refusal that is expected.
    refused: Option<u16>,
    body: Value,
}

/// Writes to one object, and its name.
pub(crate) struct Sequence {
    pub name: &'static str,
    kind: Kind,
    steps: Vec<Step>,
}

pub(crate) fn sequence(name: &'static str, kind: Kind, steps: Vec<Step>) -> Sequence {
    Sequence { name, kind, steps }
}

pub(crate) fn step(how: How, manager: &'static str, body: Value) -> Step {
    Step { how, manager, status: false, refused: None, body }
}

pub(crate) fn create(body: Value) -> Step {
    step(How::Create, "creator", body)
}

pub(crate) fn update(body: Value) -> Step {
    step(How::Update, "updater", body)
}

pub(crate) fn json_patch(body: Value) -> Step {
    step(How::Json, "patcher", body)
}

pub(crate) fn merge_patch(body: Value) -> Step {
    step(How::Merge, "patcher", body)
}

pub(crate) fn strategic(body: Value) -> Step {
    step(How::Strategic, "patcher", body)
}

pub(crate) fn applied(manager: &'static str, body: Value) -> Step {
    step(How::Apply, manager, body)
}

pub(crate) fn forced(manager: &'static str, body: Value) -> Step {
    step(How::ForceApply, manager, body)
}

impl Step {
    /// The same through the status subresource.
    pub(crate) fn through_status(self) -> Self {
        Step { status: true, ..self }
    }

    /// The same, to be refused: a step that is refused unexpectedly shows nothing.
    pub(crate) fn refused(self, code: u16) -> Self {
        Step { refused: Some(code), ..self }
    }
}

/// What our functions make of a step.
enum Ours {
    Object(Value),
    Refused { code: u16, message: String },
}

impl Sequence {
    pub(crate) async fn run(&self, server: &Server) {
        let mut live: Option<Value> = None;
        for (position, step) in self.steps.iter().enumerate() {
            let place = format!("{} step {position}, {:?} {}", self.name, step.how, step.body);
            let run =
                Run { server, kind: self.kind, schema: server.schema(self.kind), place, name: self.object() };
            live = run.step(step, live).await;
        }
    }

    fn object(&self) -> String {
        self.name.replace('_', "-")
    }
}

struct Run<'a> {
    server: &'a Server,
    kind: Kind,
    schema: Schema,
    place: String,
    name: String,
}

impl Run<'_> {
    async fn step(&self, step: &Step, live: Option<Value>) -> Option<Value> {
        let body = self.body(step, live.as_ref());
        let ours = self.ours(step, &body, live.as_ref());
        let expected = match &ours {
            Ours::Object(object) => Some(self.as_stored(step, object, live.as_ref()).await),
            Ours::Refused { .. } => None,
        };
        let theirs = self.theirs(step, &body).await;
        let refused = (!theirs.is_ok()).then_some(theirs.code);
        assert_eq!(refused, step.refused, "{}: {}", self.place, theirs.body);
        match (&ours, expected) {
            (Ours::Refused { code, message }, _) => {
                let said = theirs.body.to_string();
                let quoted = Value::from(message.as_str()).to_string();
                assert_eq!(theirs.code, *code, "{}: {message}\n{said}", self.place);
                // What does not fit is refused without a word why.
                let told = *code == 422 || said.contains(quoted.trim_matches('"'));
                assert!(told, "{}: {message}\n{said}", self.place);
                return live;
            }
            (Ours::Object(_), Some(expected)) => {
                assert_eq!(theirs.code, expected.code, "{}\n{}\n{}", self.place, expected.body, theirs.body);
                if !theirs.is_ok() {
                    return live;
                }
                self.compare("object", &steady(&expected.body), &steady(&theirs.body));
            }
            (Ours::Object(_), None) => unreachable!("objects are always stored"),
        }
        let managers = self.managers(step, &ours, live.as_ref(), &theirs.body);
        self.compare("managers", &managers, &managers_of(&theirs.body));
        Some(theirs.body)
    }

    fn compare(&self, what: &str, ours: &Value, theirs: &Value) {
        if ours != theirs {
            let pretty = |value| serde_json::to_string_pretty(value).unwrap();
            panic!("{}: {what}\nours:\n{}\ntheirs:\n{}", self.place, pretty(ours), pretty(theirs));
        }
    }

    fn body(&self, step: &Step, live: Option<&Value>) -> Value {
        let mut body = step.body.clone();
        if step.how == How::Update {
            body = patch::merge(live.unwrap(), &body);
        }
        if matches!(step.how, How::Create | How::Apply | How::ForceApply) {
            body["apiVersion"] = self.kind.api_version().into();
            body["kind"] = self.kind.name.into();
            body["metadata"]["name"] = self.name.clone().into();
            body["metadata"]["namespace"] = NAMESPACE.into();
        }
        body
    }

    fn manager(&self, step: &Step) -> Manager {
        let has_status = self.schema_has_status();
        Manager {
            name: step.manager.to_owned(),
            operation: match step.how {
                How::Apply | How::ForceApply => Operation::Apply,
                _ => Operation::Update,
            },
            api_version: self.kind.api_version(),
            subresource: step.status.then(|| "status".to_owned()),
            resets: match step.status {
                true => self.kind.status_resets,
                false if has_status => &["status"],
                false => &[],
            },
        }
    }

    fn schema_has_status(&self) -> bool {
        self.schema.unknown_fields(&json!({ "status": {} })).is_empty()
    }

    fn ours(&self, step: &Step, body: &Value, live: Option<&Value>) -> Ours {
        let patched = |result: Result<Value, PatchError>| match result {
            Ok(object) => Ours::Object(object),
            Err(error) => Ours::Refused {
                code: match error {
                    PatchError::Malformed(_) => 400,
                    PatchError::TooLarge(_) => 413,
                    PatchError::Inapplicable(_) => 422,
                    PatchError::Unsupported(_) => 500,
                },
                message: error.to_string(),
            },
        };
        match step.how {
            How::Create | How::Update => Ours::Object(body.clone()),
            How::Json => patched(patch::json(live.unwrap(), body)),
            How::Merge => Ours::Object(patch::merge(live.unwrap(), body)),
            How::Strategic => patched(patch::strategic(live.unwrap(), body, &self.schema)),
            How::Apply | How::ForceApply => {
                let force = step.how == How::ForceApply;
                match apply::apply(live, body, &self.manager(step), force, &self.schema, Timestamp::now()) {
                    Ok(object) => Ours::Object(object),
                    Err(error) => Ours::Refused {
                        code: match error {
                            ApplyError::Conflicts(_) => 409,
                            ApplyError::ManagedFields => 400,
                            ApplyError::Untyped { .. } | ApplyError::Unreadable => 500,
                        },
                        message: error.to_string(),
                    },
                }
            }
        }
    }

    /// Our object with what the server adds on its own; of custom resources our schema knows all of that.
    async fn as_stored(&self, step: &Step, object: &Value, live: Option<&Value>) -> Answer {
        if self.kind.group == "example.com" {
            let mut object = object.clone();
            self.schema.prune(&mut object);
            self.schema.default(&mut object);
            // Each endpoint takes its own part and leaves the other as it is.
            let mut kept = live.cloned().unwrap_or_else(|| json!({}));
            let (from, to) = if step.status { (&mut object, &mut kept) } else { (&mut kept, &mut object) };
            to.as_object_mut().unwrap().remove("status");
            if let Some(status) = from.get("status") {
                to["status"] = status.clone();
            }
            if step.status {
                object = kept;
            }
            let causes = self.schema.validate(&object);
            let code = if causes.is_empty() { 200 } else { 422 };
            let code = if causes.is_empty() && live.is_none() { 201 } else { code };
            return Answer { code, body: object };
        }
        let mut object = object.clone();
        object["metadata"].as_object_mut().unwrap().remove("managedFields");
        let suffix = if step.status { "/status" } else { "" };
        let path = self.kind.path();
        let (method, path) = if live.is_none() {
            ("POST", format!("{path}?dryRun=All"))
        } else {
            ("PUT", format!("{path}/{}{suffix}?dryRun=All", self.name))
        };
        self.server.send(method, &path, "application/json", &object).await
    }

    async fn theirs(&self, step: &Step, body: &Value) -> Answer {
        let suffix = if step.status { "/status" } else { "" };
        let (all, one) = (self.kind.path(), format!("{}/{}{suffix}", self.kind.path(), self.name));
        let options = format!("fieldManager={}", step.manager);
        let (method, path, content_type) = match step.how {
            How::Create => ("POST", all, "application/json"),
            How::Update => ("PUT", one, "application/json"),
            How::Json => ("PATCH", one, "application/json-patch+json"),
            How::Merge => ("PATCH", one, "application/merge-patch+json"),
            How::Strategic => ("PATCH", one, "application/strategic-merge-patch+json"),
            How::Apply | How::ForceApply => ("PATCH", one, "application/apply-patch+yaml"),
        };
        let force = if step.how == How::ForceApply { "&force=true" } else { "" };
        self.server.send(method, &format!("{path}?{options}{force}"), content_type, body).await
    }

    /// Apply has noted the managers itself; for other writes they follow from what became of the object.
    fn managers(&self, step: &Step, ours: &Ours, live: Option<&Value>, stored: &Value) -> Value {
        if let (How::Apply | How::ForceApply, Ours::Object(object)) = (step.how, ours) {
            return managers_of(object);
        }
        let mut after = stored.clone();
        if live.is_none() {
            for pointer in self.kind.filled_in {
                let (parent, field) = pointer.rsplit_once('/').unwrap();
                if let Some(parent) = after.pointer_mut(parent).and_then(Value::as_object_mut) {
                    parent.remove(field);
                }
            }
        }
        let metadata = after["metadata"].as_object_mut().unwrap();
        metadata.remove("managedFields");
        let sent = step.body.pointer("/metadata/managedFields");
        let before = sent.or_else(|| live?.pointer("/metadata/managedFields")).cloned();
        metadata.extend(before.map(|before| ("managedFields".to_owned(), before)));
        managers_of(&apply::track(live, after, &self.manager(step), &self.schema, Timestamp::now()))
    }
}

/// An object without what differs from one server to the next.
fn steady(object: &Value) -> Value {
    let mut object = object.clone();
    let metadata = object["metadata"].as_object_mut().unwrap();
    for name in ["managedFields", "uid", "resourceVersion", "creationTimestamp", "generation"] {
        metadata.remove(name);
    }
    let addresses = ["clusterIP", "clusterIPs"];
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.retain(|name, value| !addresses.contains(&name.as_str()) || *value == json!("None"));
    }
    object
}

/// Managed fields without times, which also order them.
fn managers_of(object: &Value) -> Value {
    let mut entries =
        object.pointer("/metadata/managedFields").and_then(Value::as_array).cloned().unwrap_or_default();
    for entry in &mut entries {
        entry.as_object_mut().unwrap().remove("time");
    }
    entries.sort_by_key(ToString::to_string);
    Value::Array(entries)
}
