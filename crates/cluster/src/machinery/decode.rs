//! Bodies into objects and patches, refused in Kubernetes' words.

use serde_json::Value;

use super::answer::Refusal;
use super::apply::ApplyError;
use super::object;
use super::patch::PatchError;
use super::request::{Request, Strictness};
use crate::kinds::{Kind, Version};

/// What a body may be written in.
const OBJECT_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const CUSTOM_TYPES: &str = "application/json, application/yaml";
const CUSTOM_PATCHES: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

/// How a patch is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl PatchKind {
    pub(crate) fn of(content_type: &str, is_custom: bool) -> Result<Self, Refusal> {
        match content_type {
            "application/json-patch+json" => Ok(PatchKind::Json),
            "application/merge-patch+json" => Ok(PatchKind::Merge),
            "application/strategic-merge-patch+json" if is_custom => {
                Err(Refusal::unsupported_media(CUSTOM_PATCHES))
            }
            "application/strategic-merge-patch+json" => Ok(PatchKind::Strategic),
            "application/apply-patch+yaml" => Ok(PatchKind::Apply),
            _ => Err(Refusal::unknown_patch()),
        }
    }
}

/// The text of a body: JSON, or YAML where JSON is not meant.
fn parse(content_type: &str, body: &[u8]) -> Result<Value, String> {
    if content_type.ends_with("yaml") && !body.trim_ascii_start().starts_with(b"{") {
        let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
        return serde_saphyr::from_str(text).map_err(|error| error.to_string());
    }
    serde_json::from_slice(body).map_err(|error| go_words(&error, body))
}

/// What Go says about JSON that it cannot read.
fn go_words(error: &serde_json::Error, body: &[u8]) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let lines = body.split(|byte| *byte == b'\n');
    let line = lines.into_iter().nth(error.line().saturating_sub(1)).unwrap_or_default();
    let culprit = line.get(error.column().saturating_sub(1)).map_or('?', |byte| char::from(*byte));
    let wanted = if error.to_string().contains("key must be") { "object key string" } else { "value" };
    format!("invalid character '{culprit}' looking for beginning of {wanted}")
}

/// Reads an object and makes it one of its kind; the texts are warnings for the client.
pub(crate) fn object(
    request: &Request,
    kind: &Kind,
    version: &Version,
    body: &[u8],
) -> Result<(Value, Vec<String>), Refusal> {
    // Without a content type a body counts as JSON, as clients of old expect.
    if !matches!(request.content_type.as_str(), "" | "application/json" | "application/yaml" | "*/*") {
        let accepted = if kind.custom { CUSTOM_TYPES } else { OBJECT_TYPES };
        return Err(Refusal::unsupported_media(accepted));
    }
    let unrecognised = |why: &str| {
        Refusal::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: \
             {why} ({})",
            kind.kind,
            excerpt(body)
        ))
    };
    let mut object = parse(&request.content_type, body).map_err(|why| unrecognised(&why))?;
    if !object.is_object() {
        let what = json_type(&object);
        return Err(unrecognised(&format!(
            "json: cannot unmarshal {what} into Go value of type struct {{ APIVersion string \
             \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
        )));
    }
    check_kind(kind, version, &object)?;
    let warnings = conform(request, kind, version, &mut object)?;
    Ok((object, warnings))
}

/// Bytes of a body that a refusal shows.
const EXCERPT_BYTES: usize = 100;

fn excerpt(body: &[u8]) -> String {
    match std::str::from_utf8(body) {
        Ok(text) => text.chars().take(EXCERPT_BYTES).collect(),
        Err(_) => String::new(),
    }
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// An object may leave out what it is; what it says must be true.
fn check_kind(kind: &Kind, version: &Version, object: &Value) -> Result<(), Refusal> {
    let expected = kind.api_version(&version.name);
    let (said_kind, said_version) = (object::text(object, "/kind"), object::text(object, "/apiVersion"));
    if !said_kind.is_empty() && said_kind != kind.kind {
        let name = said_version.rsplit('/').next().unwrap_or_default();
        let internal =
            if kind.group.is_empty() { "core" } else { kind.group.split('.').next().unwrap_or_default() };
        return Err(Refusal::bad_request(format!(
            "{said_kind} in version \"{name}\" cannot be handled as a {}: converting ({name}.{said_kind}) to \
             ({internal}.{}): unknown conversion",
            kind.kind, kind.kind
        )));
    }
    if !said_version.is_empty() && said_version != expected {
        return Err(Refusal::bad_request(format!(
            "the API version in the data ({said_version}) does not match the expected API version ({expected})"
        )));
    }
    Ok(())
}

/// Gives an object its kind, drops what the kind does not know and refuses what has the wrong type.
pub(crate) fn conform(
    request: &Request,
    kind: &Kind,
    version: &Version,
    object: &mut Value,
) -> Result<Vec<String>, Refusal> {
    let fields = object::fields(object);
    fields.insert("apiVersion".into(), kind.api_version(&version.name).into());
    fields.insert("kind".into(), kind.kind.clone().into());
    let handled = |why: &str| {
        Refusal::bad_request(format!(
            "{0} in version \"{1}\" cannot be handled as a {0}: {why}",
            kind.kind, version.name
        ))
    };
    if !kind.custom {
        // To Go a field that is null is not set, whatever its type.
        version.schema.default(object);
        let wrong =
            version.schema.validate(object).into_iter().find(|cause| cause.reason == "FieldValueTypeInvalid");
        if let Some(cause) = wrong {
            return Err(handled(&mistyped(kind, object, &cause.field)));
        }
    }
    let strictness = request.strictness()?;
    let unknown: Vec<String> = match strictness {
        Strictness::Ignore => Vec::new(),
        _ => {
            version.schema.unknown_fields(object).iter().map(|at| format!("unknown field \"{at}\"")).collect()
        }
    };
    if strictness == Strictness::Strict && !unknown.is_empty() {
        return Err(handled(&format!("strict decoding error: {}", unknown.join(", "))));
    }
    version.schema.prune(object);
    version.schema.normalize(object);
    Ok(unknown)
}

/// What Go says about a value of the wrong type.
fn mistyped(kind: &Kind, object: &Value, field: &str) -> String {
    let mut found = object;
    let mut path = kind.kind.clone();
    for step in field.replace('[', ".[").split('.') {
        let index = step.strip_prefix('[').and_then(|step| step.strip_suffix(']'));
        let inner = if let Some(index) = index {
            index.parse::<usize>().map_or_else(|_| found.get(index), |at| found.get(at))
        } else {
            path.push('.');
            path.push_str(step);
            found.get(step)
        };
        found = inner.unwrap_or(&Value::Null);
    }
    let what = json_type(found);
    format!("json: cannot unmarshal {what} into Go struct field {path} of another type")
}

/// Reads a patch.
pub(crate) fn patch(body: &[u8]) -> Result<Value, Refusal> {
    serde_json::from_slice(body)
        .map_err(|error| Refusal::bad_request(format!("error decoding patch: {}", go_words(&error, body))))
}

/// A merge patch of an object is an object.
pub(crate) fn patch_object(patch: &Value) -> Result<(), PatchError> {
    if patch.is_object() {
        return Ok(());
    }
    let what = json_type(patch);
    Err(PatchError::Malformed(format!(
        "error decoding patch: json: cannot unmarshal {what} into Go value of type map[string]interface {{}}"
    )))
}

/// Reads what is applied: it must say what it is.
pub(crate) fn applied(kind: &Kind, version: &Version, body: &[u8]) -> Result<Value, Refusal> {
    let unread = |why: String| Refusal::bad_request(format!("error decoding YAML: {why}"));
    let applied = parse("application/yaml", body).map_err(unread)?;
    let (said_kind, said_version) = (object::text(&applied, "/kind"), object::text(&applied, "/apiVersion"));
    let expected = kind.api_version(&version.name);
    if said_kind.is_empty() || said_version.is_empty() {
        let (group, version) = said_version.split_once('/').unwrap_or(("", said_version));
        return Err(Refusal::bad_request(format!(
            "invalid object type: {group}/{version}, Kind={said_kind}"
        )));
    }
    if said_kind != kind.kind || said_version != expected {
        check_kind(kind, version, &applied)?;
    }
    Ok(applied)
}

/// The refusal of an apply.
pub(crate) fn apply_refusal(error: ApplyError) -> Refusal {
    match error {
        ApplyError::Conflicts(conflicts) => {
            Refusal::apply_conflict(conflicts.to_string(), &conflicts.causes())
        }
        ApplyError::ManagedFields => Refusal::bad_request(error.to_string()),
        ApplyError::Untyped { .. } | ApplyError::Unreadable => Refusal::internal(error.to_string()),
    }
}

/// Reads the options of a deletion.
pub(crate) fn options(content_type: &str, body: &[u8]) -> Result<Value, Refusal> {
    if !matches!(content_type, "" | "application/json" | "application/yaml" | "*/*") {
        return Err(Refusal::unsupported_media(OBJECT_TYPES));
    }
    let options = parse(content_type, body)
        .map_err(|why| Refusal::bad_request(format!("couldn't get version/kind; json parse error: {why}")))?;
    if options.is_object() { Ok(options) } else { Ok(Value::Null) }
}
