//! What all objects have in common: names, labels, owners, finalizers.

use serde_json::{Value, json};

use super::Kind;
use crate::machinery::answer::{About, Refusal};
use crate::machinery::label_rules::{self, MAX_LABEL, SUBDOMAIN_RULE, is_dns_label_of_any_length};
use crate::machinery::object::{self, text};
use crate::machinery::schema::Cause;
use crate::machinery::state::State;

/// What only the server writes, once an object exists.
pub(crate) const SYSTEM_FIELDS: [&str; 6] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
];

/// Longest DNS subdomain, in characters.
const MAX_SUBDOMAIN: usize = 253;
/// Longest start of a generated name, in characters: the suffix must fit into a label's length.
const MAX_GENERATED_BASE: usize = 58;
/// All annotations of an object together, in bytes.
const MAX_ANNOTATIONS_BYTES: usize = 256 * 1024;
/// Longest name of a field manager, in bytes.
const MAX_MANAGER_BYTES: usize = 128;

/// Removes what only the server writes.
pub(crate) fn reset(object: &mut Value) {
    let metadata = object::metadata(object);
    // A generation stays where the kind does not count its own.
    for field in SYSTEM_FIELDS.into_iter().filter(|field| *field != "generation") {
        metadata.remove(field);
    }
    metadata.remove("selfLink");
}

/// The part of a prefix that leaves room for a suffix.
pub(crate) fn room_for_suffix(prefix: &str) -> &str {
    let end = prefix.char_indices().nth(MAX_GENERATED_BASE).map_or(prefix.len(), |(at, _)| at);
    prefix.get(..end).unwrap_or(prefix)
}

/// Whether new objects may come into a namespace.
pub(crate) fn check_namespace(
    state: &State,
    kind: &Kind,
    namespace: &str,
    name: &str,
) -> Result<(), Refusal> {
    let Some(found) = state.object("", "namespaces", "", namespace) else {
        return Err(Refusal::not_found(About { group: "", name: "namespaces" }, namespace));
    };
    if object::is_deleting(found) {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let cause = json!({
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        });
        return Err(Refusal::forbidden(kind.resource(), name, &why, Some(cause)));
    }
    Ok(())
}

/// What is wrong with a DNS subdomain.
pub(crate) fn subdomain_problem(name: &str) -> Option<String> {
    if name.len() > MAX_SUBDOMAIN {
        return Some(format!("must be no more than {MAX_SUBDOMAIN} characters"));
    }
    (!name.split('.').all(is_dns_label_of_any_length)).then(|| SUBDOMAIN_RULE.to_owned())
}

/// What is wrong with a DNS label.
pub(crate) fn label_problem(name: &str) -> Option<String> {
    if name.len() > MAX_LABEL {
        return Some(format!("must be no more than {MAX_LABEL} characters"));
    }
    if name.contains('.') && name.split('.').all(is_dns_label_of_any_length) {
        return Some("must not contain dots".to_owned());
    }
    (!is_dns_label_of_any_length(name)).then(|| {
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end \
         with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            .to_owned()
    })
}

/// How often an update looks at labels, annotations and owners: before it asks the kind, and through the kind.
const LOOKS: usize = 4;

/// What is wrong with the metadata of an object.
pub(crate) fn validate(kind: &Kind, object: &Value, before: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = object::name(object);
    if before.is_none() {
        let prefix = text(object, "/metadata/generateName");
        // A dash at its end is followed by something.
        let start = prefix.strip_suffix('-').map_or_else(|| prefix.to_owned(), |start| format!("{start}a"));
        let problem = kind.strategy.name_problem(&start).filter(|_| !prefix.is_empty());
        causes.extend(problem.map(|why| Cause::invalid("metadata.generateName", &prefix.into(), &why)));
        let problem = kind.strategy.name_problem(name);
        causes.extend(problem.map(|why| Cause::invalid("metadata.name", &name.into(), &why)));
    }
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    let mut repeated = label_causes("metadata.labels", labels.into_iter().flatten());
    repeated.extend(annotation_causes(object));
    repeated.extend(owner_causes(object));
    repeated.extend(manager_causes(object));
    let looks = if before.is_some() && !kind.custom { LOOKS } else { 1 };
    causes.extend(std::iter::repeat_n(repeated, looks).flatten());
    causes.extend(finalizer_causes(object));
    let looks = if before.is_some() { 2 } else { 1 };
    if !kind.custom {
        causes.extend(std::iter::repeat_n(unqualified_finalizers(object), looks).flatten());
    }
    if let Some(cause) = before.and_then(|before| new_finalizers(object, before)) {
        causes.extend([cause.clone(), cause]);
    }
    causes
}

fn annotation_causes(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let annotations = object.pointer("/metadata/annotations").and_then(Value::as_object);
    let mut size = 0;
    for (key, value) in annotations.into_iter().flatten() {
        size += key.len() + value.as_str().map_or(0, str::len);
        for why in label_rules::key_problems(&key.to_lowercase(), "a qualified name") {
            causes.push(Cause::invalid("metadata.annotations", &key.as_str().into(), &why));
        }
    }
    if size > MAX_ANNOTATIONS_BYTES {
        let message = format!("Too long: may not be more than {MAX_ANNOTATIONS_BYTES} bytes");
        let field = "metadata.annotations".to_owned();
        causes.push(Cause { field, reason: "FieldValueTooLong", message });
    }
    causes
}

/// Finalizers that need no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

fn finalizer_causes(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let finalizers = object::list(object, "/metadata/finalizers");
    for finalizer in finalizers {
        for why in label_rules::key_problems(finalizer.as_str().unwrap_or_default(), "a qualified name") {
            causes.push(Cause::invalid("metadata.finalizers", finalizer, &why));
        }
    }
    if ["orphan", "foregroundDeletion"].iter().all(|one| finalizers.iter().any(|found| found == one)) {
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        causes.push(Cause::invalid("metadata.finalizers", &finalizers.into(), why));
    }
    causes
}

fn unqualified_finalizers(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (index, finalizer) in object::list(object, "/metadata/finalizers").iter().enumerate() {
        let name = finalizer.as_str().unwrap_or_default();
        if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            causes.push(Cause::invalid(format!("metadata.finalizers[{index}]"), finalizer, why));
        }
    }
    causes
}

fn manager_causes(object: &Value) -> Vec<Cause> {
    let entries = object::list(object, "/metadata/managedFields").iter().enumerate();
    let too_long = entries.filter(|(_, entry)| text(entry, "/manager").len() > MAX_MANAGER_BYTES);
    too_long
        .map(|(index, _)| Cause {
            field: format!("metadata.managedFields[{index}].manager"),
            reason: "FieldValueTooLong",
            message: format!("Too long: may not be more than {MAX_MANAGER_BYTES} bytes"),
        })
        .collect()
}

/// What is wrong with labels.
pub(crate) fn label_causes<'a>(
    field: &str,
    labels: impl Iterator<Item = (&'a String, &'a Value)>,
) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (key, value) in labels {
        for why in label_rules::key_problems(key, "a valid label key") {
            causes.push(Cause::invalid(field, &key.as_str().into(), &why));
        }
        let problem = label_rules::value_problem(value.as_str().unwrap_or_default());
        causes.extend(problem.map(|why| Cause::invalid(field, value, &why)));
    }
    causes
}

fn owner_causes(object: &Value) -> Vec<Cause> {
    const FIELD: &str = "metadata.ownerReferences";
    let owners = object::list(object, "/metadata/ownerReferences");
    let mut causes = Vec::new();
    for owner in owners {
        let version = text(owner, "/apiVersion");
        if version.is_empty() || version.split('/').count() > 2 {
            let why = "version must not be empty";
            causes.push(Cause::invalid(format!("{FIELD}.apiVersion"), &version.into(), why));
        }
        for field in ["kind", "name", "uid"] {
            if text(owner, &format!("/{field}")).is_empty() {
                causes.push(Cause::invalid(format!("{FIELD}.{field}"), &"".into(), "must not be empty"));
            }
        }
        if version == "v1" && text(owner, "/kind") == "Event" {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            causes.push(Cause::invalid_as(FIELD, &shown_owner(owner), why));
        }
    }
    let controllers: Vec<String> = owners
        .iter()
        .filter(|owner| owner.get("controller") == Some(&Value::Bool(true)))
        .map(|owner| format!("{}/{}", text(owner, "/kind"), text(owner, "/name")))
        .collect();
    if let [first, second, ..] = controllers.as_slice() {
        let shown: Vec<String> = owners.iter().map(shown_owner).collect();
        let why = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {second}"
        );
        causes.push(Cause::invalid_as(FIELD, &format!("[{}]", shown.join(",")), &why));
    }
    causes
}

/// In the order in which Go writes it.
fn shown_owner(owner: &Value) -> String {
    in_order(owner, &["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"])
}

/// An object with its fields in an order of their own; those that are not there are left out.
pub(crate) fn in_order(object: &Value, fields: &[&str]) -> String {
    let shown: Vec<String> =
        fields.iter().filter_map(|field| Some(format!("\"{field}\":{}", object.get(field)?))).collect();
    format!("{{{}}}", shown.join(","))
}

/// Nothing may begin to hold what is already on its way out.
fn new_finalizers(object: &Value, before: &Value) -> Option<Cause> {
    if !object::is_deleting(before) {
        return None;
    }
    let held = object::list(before, "/metadata/finalizers");
    let new: Vec<String> = object::list(object, "/metadata/finalizers")
        .iter()
        .filter(|finalizer| !held.contains(finalizer))
        .map(ToString::to_string)
        .collect();
    if new.is_empty() {
        return None;
    }
    let why = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        new.join(", ")
    );
    Some(Cause::forbidden("metadata.finalizers", &why))
}

/// A field that may not change.
pub(crate) fn immutable(field: &str, object: &Value, before: &Value) -> Option<Cause> {
    let pointer = format!("/{}", field.replace('.', "/"));
    let (now, then) = (object.pointer(&pointer), before.pointer(&pointer));
    (now != then).then(|| Cause::invalid(field, now.unwrap_or(&Value::Null), "field is immutable"))
}

/// A number that may not be negative.
pub(crate) fn not_negative(object: &Value, pointer: &str) -> Option<Cause> {
    let number = object::number(object, pointer).filter(|number| *number < 0)?;
    let field = pointer.trim_start_matches('/').replace('/', ".");
    Some(Cause::invalid(field, &number.into(), "must be greater than or equal to 0"))
}

/// One of a few texts.
pub(crate) fn one_of(object: &Value, pointer: &str, supported: &[&str]) -> Option<Cause> {
    let said = text(object, pointer);
    let field = pointer.trim_start_matches('/').replace('/', ".");
    if said.is_empty() {
        return Some(Cause::required(field, ""));
    }
    (!supported.contains(&said)).then(|| Cause::unsupported(field, &said.into(), supported))
}
