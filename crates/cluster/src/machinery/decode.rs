//! Bodies into objects and patches, refused in Kubernetes' words.

use serde_json::{Map, Value};

use super::answer::Refusal;
use super::apply::ApplyError;
use super::json::{self, Document};
use super::patch::{self, PatchError};
use super::request::{Request, Strictness};
use super::schema::Schema;
use super::{go, object};
use crate::kinds::{Kind, Table, Version};

/// What a body may be written in.
const OBJECT_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const CUSTOM_PATCHES: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
/// Versions of kinds that Kubernetes has types for and serves no longer.
const RETIRED: [&str; 2] = ["apps/v1beta1", "apps/v1beta2"];
/// Values that the aliases of a YAML text may repeat altogether: few letters could stand for billions.
const MAX_REPEATED: usize = 100_000;
/// What decides whether a text is an object of some kind.
pub(crate) const TYPE_META: &str =
    r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

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
            "application/strategic-merge-patch+json" if !is_custom => Ok(PatchKind::Strategic),
            "application/apply-patch+yaml" => Ok(PatchKind::Apply),
            _ if is_custom => Err(Refusal::unsupported_media(CUSTOM_PATCHES)),
            _ => Err(Refusal::unknown_patch()),
        }
    }
}

/// The text of a body: JSON, or YAML where JSON is not meant.
fn parse(content_type: &str, body: &[u8]) -> Result<Document, String> {
    if content_type.ends_with("yaml") && !body.trim_ascii_start().starts_with(b"{") {
        let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
        return parse_yaml(text);
    }
    json::read(body)
}

/// How Go begins to tell what is wrong with a YAML text; warnings go without.
const YAML_ERRORS: &str = "yaml: unmarshal errors:\n  ";

fn warnings(complaints: Vec<String>) -> Vec<String> {
    complaints.into_iter().map(|text| text.replacen(YAML_ERRORS, "", 1)).collect()
}

/// YAML in which the last of two equal keys counts, as it does in JSON.
fn parse_yaml(text: &str) -> Result<Document, String> {
    let limits = || serde_saphyr::alias_limits! { max_total_replayed_events: MAX_REPEATED };
    let deep_enough = |value: Value, complaints| {
        let is_too_deep = json::depth(&value) > json::MAX_DEPTH;
        if is_too_deep { Err(json::TOO_DEEP.to_owned()) } else { Ok(Document { value, complaints }) }
    };
    let options = serde_saphyr::options! { alias_limits: limits() };
    let twice = match serde_saphyr::from_str_with_options(text, options) {
        Ok(value) => return deep_enough(value, Vec::new()),
        Err(error) => match error.without_snippet() {
            serde_saphyr::Error::DuplicateMappingKey { key, location } => {
                let key = key.clone().unwrap_or_default();
                format!("{YAML_ERRORS}line {}: key {key:?} already set in map", location.line())
            }
            other => return Err(other.to_string()),
        },
    };
    let options = serde_saphyr::options! {
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::LastWins,
        alias_limits: limits(),
    };
    let value = serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())?;
    deep_enough(value, vec![twice])
}

/// What a body has to be.
pub(crate) struct Wanted<'a> {
    pub(crate) kind: &'a str,
    pub(crate) api_version: String,
    /// The group as Go's packages are called.
    pub(crate) package: &'a str,
    pub(crate) custom: bool,
}

impl<'a> Wanted<'a> {
    fn of(kind: &'a Kind, version: &Version) -> Self {
        let package = kind.group.split('.').next().filter(|group| !group.is_empty()).unwrap_or("core");
        Wanted {
            kind: &kind.kind,
            api_version: kind.api_version(&version.name),
            package,
            custom: kind.custom,
        }
    }

    /// Reads a body and checks that it is what it has to be.
    pub(crate) fn read(&self, content_type: &str, body: &[u8], table: &Table) -> Result<Document, Refusal> {
        // Without a content type a body counts as JSON, as clients of old expect.
        if !matches!(content_type, "" | "application/json" | "application/yaml" | "*/*") {
            return Err(Refusal::unsupported_media(OBJECT_TYPES));
        }
        let unrecognised = |why: &str| {
            Refusal::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): {why} ({})",
                self.kind,
                excerpt(body)
            ))
        };
        let unversioned =
            |why: &str| unrecognised(&format!("couldn't get version/kind; json parse error: {why}"));
        let mut document = parse(content_type, body).map_err(|why| unversioned(&why))?;
        if document.value.is_null() {
            document.value = Value::Object(Map::new());
        }
        if !document.value.is_object() {
            let what = go::json_type(&document.value);
            return Err(unversioned(&format!(
                "json: cannot unmarshal {what} into Go value of type {TYPE_META}"
            )));
        }
        if self.custom {
            for field in ["kind", "apiVersion"] {
                if object::text(&document.value, &format!("/{field}")).is_empty() {
                    let shown = if field == "kind" { "Kind" } else { field };
                    let said = String::from_utf8_lossy(body);
                    return Err(unrecognised(&format!("Object '{shown}' is missing in '{said}'")));
                }
            }
        }
        self.check(&document.value, table)?;
        Ok(document)
    }

    /// The refusal of an object that does not fit its kind.
    pub(crate) fn unhandled(&self, why: &str) -> Refusal {
        let short = self.api_version.rsplit('/').next().unwrap_or_default();
        Refusal::bad_request(format!(
            "{0} in version \"{short}\" cannot be handled as a {0}: {why}",
            self.kind
        ))
    }

    /// An object may leave out what it is; what it says must be true.
    fn check(&self, object: &Value, table: &Table) -> Result<(), Refusal> {
        let (kind, version) = self.said(object);
        if kind == self.kind && version == self.api_version {
            return Ok(());
        }
        if self.custom && version == self.api_version {
            let about =
                super::answer::About { group: version.split('/').next().unwrap_or_default(), name: &kind };
            let why = format!("must be {}", self.kind);
            let cause = super::schema::Cause::invalid("kind", &kind.as_str().into(), &why);
            return Err(Refusal::invalid(about, object::name(object), &[cause]));
        }
        if let Some(why) = self.unknown(&kind, &version, table) {
            let short = version.rsplit('/').next().unwrap_or_default();
            return Err(Refusal::bad_request(format!(
                "{kind} in version \"{short}\" cannot be handled as a {}: {why}",
                self.kind
            )));
        }
        Err(Refusal::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({})",
            self.api_version
        )))
    }

    fn said(&self, object: &Value) -> (String, String) {
        let said = |field: &str, own: &str| {
            let said = object::text(object, &format!("/{field}"));
            if said.is_empty() { own.to_owned() } else { said.to_owned() }
        };
        (said("kind", self.kind), said("apiVersion", &self.api_version))
    }

    /// What Go says about a kind that is another, if it says anything.
    fn unknown(&self, kind: &str, version: &str, table: &Table) -> Option<String> {
        let (group, short) = version.split_once('/').unwrap_or(("", version));
        let served = table.named(group, kind).is_some_and(|row| row.version(short).is_some());
        let retired = RETIRED.contains(&version) && table.named(group, kind).is_some();
        if self.custom || kind == self.kind && (served || retired) {
            None
        } else if served || retired {
            let into = format!("{}.{}", self.package, self.kind);
            Some(format!("converting ({short}.{kind}) to ({into}): unknown conversion"))
        } else {
            Some(unregistered(kind, version))
        }
    }
}

fn unregistered(kind: &str, version: &str) -> String {
    format!(
        "no kind \"{kind}\" is registered for version \"{version}\" in scheme \"pkg/runtime/scheme.go:111\""
    )
}

/// Bytes of a body that a refusal shows.
const EXCERPT_BYTES: usize = 30;

fn excerpt(body: &[u8]) -> String {
    let more = if body.len() > EXCERPT_BYTES { " ..." } else { "" };
    let start = body.get(..EXCERPT_BYTES).unwrap_or(body);
    match start.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(start)),
        Some(_) => {
            let hex: Vec<String> = start.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{}{more}", hex.concat())
        }
    }
}

/// Reads an object and makes it one of its kind; the texts are warnings for the client.
pub(crate) fn object(
    request: &Request,
    kind: &Kind,
    version: &Version,
    body: &[u8],
    table: &Table,
) -> Result<(Value, Vec<String>), Refusal> {
    let wanted = Wanted::of(kind, version);
    let Document { value: mut object, complaints } = wanted.read(&request.content_type, body, table)?;
    let warnings = conform(request, kind, version, &mut object, &complaints);
    Ok((object, warnings.map_err(|why| wanted.unhandled(&why))?))
}

/// What is said about a text and the fields that its kind does not know: warnings, unless the client wants a refusal.
pub(crate) fn complaints(
    request: &Request,
    schema: &Schema,
    object: &Value,
    of_text: &[String],
) -> Result<Vec<String>, String> {
    let strictness = request.strictness();
    if strictness == Strictness::Ignore {
        return Ok(Vec::new());
    }
    let unknown = schema.unknown_fields(object);
    let unknown = unknown.iter().map(|at| format!("unknown field \"{at}\""));
    let complaints: Vec<String> = of_text.iter().cloned().chain(unknown).take(json::MAX_COMPLAINTS).collect();
    if strictness == Strictness::Strict && !complaints.is_empty() {
        return Err(format!("strict decoding error: {}", complaints.join(", ")));
    }
    Ok(warnings(complaints))
}

/// Gives an object its kind, drops what the kind does not know and refuses what has the wrong type.
pub(crate) fn conform(
    request: &Request,
    kind: &Kind,
    version: &Version,
    object: &mut Value,
    of_text: &[String],
) -> Result<Vec<String>, String> {
    let fields = object::fields(object);
    fields.insert("apiVersion".into(), kind.api_version(&version.name).into());
    fields.insert("kind".into(), kind.kind.clone().into());
    if kind.custom {
        // Of a custom resource only the metadata is read into a type.
        if let Some(why) = object.get("metadata").and_then(|metadata| mistyped_metadata(version, metadata)) {
            return Err(why);
        }
    } else if let Some(why) = version.schema.mistyped(object) {
        return Err(why);
    }
    let complaints = complaints(request, &version.schema, object, of_text)?;
    if kind.custom {
        version.schema.drop_unset(object);
    } else {
        // To Go a field that is null is not set, whatever its type.
        version.schema.default(object);
    }
    // An empty list of managers means what one empty entry means, and would be lost.
    if let Some(managers) = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut)
        && managers.is_empty()
    {
        managers.push(Value::Object(Map::new()));
    }
    version.schema.prune(object);
    version.schema.normalize(object);
    Ok(complaints)
}

fn mistyped_metadata(version: &Version, metadata: &Value) -> Option<String> {
    let object = Value::Object(Map::from_iter([("metadata".to_owned(), metadata.clone())]));
    version.schema.mistyped(&object)
}

/// Reads a patch.
pub(crate) fn patch(kind: PatchKind, body: &[u8]) -> Result<Document, Refusal> {
    let prefix = if kind == PatchKind::Strategic { "" } else { "error decoding patch: " };
    let mut patch = json::read(body).map_err(|why| Refusal::bad_request(format!("{prefix}{why}")))?;
    if kind == PatchKind::Json {
        let operations = patch.value.as_array().map(Vec::as_slice).unwrap_or_default();
        patch.complaints.extend(patch::unknown_fields(operations));
        for complaint in &mut patch.complaints {
            *complaint = format!("json patch {complaint}");
        }
    } else if kind == PatchKind::Merge && patch.value.is_null() {
        return Err(Refusal::bad_request("Invalid JSON Patch"));
    } else if !patch.value.is_object() {
        let what = go::json_type(&patch.value);
        return Err(Refusal::bad_request(format!(
            "{prefix}json: cannot unmarshal {what} into Go value of type map[string]interface {{}}"
        )));
    }
    Ok(patch)
}

pub(crate) fn patch_refusal(error: PatchError) -> Refusal {
    match error {
        PatchError::Malformed(why) => Refusal::bad_request(why),
        PatchError::Inapplicable(_) => Refusal::inapplicable(),
        PatchError::Unsupported(why) => Refusal::internal(why),
        PatchError::TooLarge(_) => Refusal::too_large_patch(&error.to_string()),
    }
}

/// What is wrong with the kind that the outcome of a patch says it is.
pub(crate) fn patched_kind(kind: &Kind, version: &Version, object: &Value, table: &Table) -> Option<String> {
    let wanted = Wanted::of(kind, version);
    let (said_kind, said_version) = wanted.said(object);
    if said_kind == wanted.kind && said_version == wanted.api_version {
        return None;
    }
    wanted.unknown(&said_kind, &said_version, table)
}

/// Reads what is applied: it must say what it is; the texts are warnings for the client.
pub(crate) fn applied(
    request: &Request,
    wanted_kind: &str,
    wanted_version: &str,
    body: &[u8],
) -> Result<(Value, Vec<String>), Refusal> {
    let unread = |why: String| Refusal::bad_request(format!("error decoding YAML: {why}"));
    let Document { value: mut applied, complaints } = parse("application/yaml", body).map_err(unread)?;
    if applied.is_null() {
        applied = Value::Object(Map::new());
    }
    if !applied.is_object() {
        let what = go::json_type(&applied);
        return Err(unread(format!(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {what} into Go value of type \
             map[string]interface {{}}"
        )));
    }
    if let (Strictness::Strict, Some(complaint)) = (request.strictness(), complaints.first()) {
        return Err(Refusal::bad_request(format!(
            "error strict decoding YAML: error converting YAML to JSON: {complaint}"
        )));
    }
    let (said_kind, said_version) = (object::text(&applied, "/kind"), object::text(&applied, "/apiVersion"));
    if said_kind != wanted_kind || said_version != wanted_version {
        let (group, version) = said_version.split_once('/').unwrap_or(("", said_version));
        return Err(Refusal::bad_request(format!(
            "invalid object type: {group}/{version}, Kind={said_kind}"
        )));
    }
    let warnings = if request.strictness() == Strictness::Ignore { Vec::new() } else { warnings(complaints) };
    Ok((applied, warnings))
}

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
pub(crate) fn delete_options(content_type: &str, body: &[u8]) -> Result<Value, Refusal> {
    if !matches!(content_type, "" | "application/json" | "application/yaml" | "*/*") {
        return Err(Refusal::unsupported_media(OBJECT_TYPES));
    }
    let unversioned =
        |why: String| Refusal::bad_request(format!("couldn't get version/kind; json parse error: {why}"));
    let options = parse(content_type, body).map_err(unversioned)?.value;
    if !options.is_object() {
        let what = go::json_type(&options);
        return Err(unversioned(format!("json: cannot unmarshal {what} into Go value of type {TYPE_META}")));
    }
    let kind = object::text(&options, "/kind");
    if !kind.is_empty() && kind != "DeleteOptions" {
        return Err(Refusal::bad_request(unregistered(kind, object::text(&options, "/apiVersion"))));
    }
    let grace =
        options.get("gracePeriodSeconds").filter(|grace| !grace.is_null() && grace.as_i64().is_none());
    if let Some(grace) = grace {
        let what = go::json_type(grace);
        return Err(Refusal::bad_request(format!(
            "json: cannot unmarshal {what} into Go struct field DeleteOptions.gracePeriodSeconds of type int64"
        )));
    }
    Ok(options)
}
