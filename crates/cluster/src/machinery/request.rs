//! What a request asks for: its path, its query and its headers, read once.

use http::{HeaderMap, Method, header, request::Parts};
use serde_json::{Value, json};

use super::answer::Refusal;
use super::schema::Cause;

/// A resource as a path names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

/// Subresources of a namespace itself, which stand where the plural of a namespaced kind does.
const OF_NAMESPACES: [&str; 2] = ["status", "finalize"];

impl ResourcePath {
    /// Reads `/api/v1/...` and `/apis/GROUP/VERSION/...`; nothing else names a resource.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let parts: Vec<String> = path.trim_matches('/').split('/').map(decode).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", _, third, ..] if OF_NAMESPACES.contains(third) && rest.len() == 3 => (None, rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
            rest => (None, rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (*plural, None, None),
            [plural, name] => (*plural, Some(*name), None),
            [plural, name, subresource] => (*plural, Some(*name), Some(*subresource)),
            // What follows is meant for somebody else.
            [plural, name, "proxy", ..] => (*plural, Some(*name), Some("proxy")),
            _ => return None,
        };
        Some(ResourcePath {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: plural.to_owned(),
            namespace: namespace.map(str::to_owned),
            name: name.map(str::to_owned),
            subresource: subresource.map(str::to_owned),
        })
    }
}

/// Resolves percent signs in a part of a path.
fn decode(part: &str) -> String {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        let digits = rest.clone().take(2).filter_map(|digit| char::from(digit).to_digit(16));
        let digits: Vec<u32> = digits.collect();
        match (byte, digits.as_slice()) {
            (b'%', [high, low]) => {
                bytes.push(u8::try_from(high * 16 + low).unwrap_or(b'?'));
                rest.nth(1);
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The query, in order; of two equal names the first counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(query: &str) -> Self {
        let pairs = form_urlencoded::parse(query.as_bytes());
        Query(pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    /// A value that is there and not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(found, _)| found == name)?;
        Some(found.1.as_str()).filter(|value| !value.is_empty())
    }

    fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(found, _)| found == name).map(|(_, value)| value.as_str()).collect()
    }

    /// As Kubernetes reads flags: anything but `false` and `0` is true.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.0
            .iter()
            .find(|(found, _)| found == name)
            .is_some_and(|(_, value)| value != "false" && value != "0")
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, Refusal> {
        self.get(name)
            .map(|text| {
                text.parse().map_err(|_| {
                    Refusal::bad_request(format!("strconv.ParseInt: parsing \"{text}\": invalid syntax"))
                })
            })
            .transpose()
    }

    /// Whether nothing may be stored.
    pub(crate) fn dry_run(&self, options: &'static str) -> Result<bool, Refusal> {
        match self.dry_run_cause() {
            Some(cause) => Err(Refusal::options(options, &[cause])),
            None => Ok(!self.all("dryRun").is_empty()),
        }
    }

    fn dry_run_cause(&self) -> Option<Cause> {
        let asked = self.all("dryRun");
        asked
            .iter()
            .any(|value| *value != "All")
            .then(|| Cause::unsupported("dryRun", &json!(asked), &["All"]))
    }
}

/// How objects are to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Whole,
    MetadataOnly,
    Table(Include),
}

/// What the rows of a table show besides their cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    None,
    Metadata,
    Object,
}

impl Include {
    fn read(query: &Query) -> Result<Self, Refusal> {
        match query.get("includeObject").unwrap_or_default() {
            "" | "Metadata" => Ok(Include::Metadata),
            "Object" => Ok(Include::Object),
            "None" => Ok(Include::None),
            other => Err(Refusal::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: \"{other}\": must be 'Metadata', \
                 'Object', 'None', or empty"
            ))),
        }
    }
}

/// How unknown fields are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strictness {
    Ignore,
    Warn,
    Strict,
}

/// A request for a resource, without its body.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) path: ResourcePath,
    pub(crate) query: Query,
    pub(crate) shape: Shape,
    pub(crate) content_type: String,
    user_agent: String,
}

/// Longest name of a field manager, in bytes.
const MAX_MANAGER: usize = 128;

impl Request {
    pub(crate) fn read(parts: &Parts, path: ResourcePath) -> Result<Self, Refusal> {
        let text = |name| header_text(&parts.headers, name);
        let content_type = text(header::CONTENT_TYPE).split(';').next().unwrap_or_default().trim().to_owned();
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        Ok(Request {
            method: parts.method.clone(),
            path,
            shape: shape(text(header::ACCEPT), &query)?,
            query,
            content_type,
            user_agent: text(header::USER_AGENT).to_owned(),
        })
    }

    /// Who the fields belong to that this request writes.
    pub(crate) fn manager(&self) -> String {
        let named = self.query.get("fieldManager").map(str::to_owned);
        let agent = || self.user_agent.split('/').next().unwrap_or_default().to_owned();
        let manager: String = named.unwrap_or_else(agent).chars().take(MAX_MANAGER).collect();
        if manager.is_empty() { "unknown".to_owned() } else { manager }
    }

    pub(crate) fn strictness(&self) -> Strictness {
        match self.query.get("fieldValidation") {
            Some("Ignore") => Strictness::Ignore,
            Some("Strict") => Strictness::Strict,
            _ => Strictness::Warn,
        }
    }

    /// Checks the options of a write; true where nothing may be stored.
    pub(crate) fn write_options(&self, options: &'static str, is_apply: bool) -> Result<bool, Refusal> {
        let mut causes = Vec::new();
        if options == "PatchOptions" {
            if is_apply && self.query.get("fieldManager").is_none() {
                causes.push(Cause::required("fieldManager", "is required for apply patch"));
            }
            if !is_apply && self.query.get("force").is_some() {
                causes.push(Cause::forbidden("force", "may not be specified for non-apply patch"));
            }
        }
        let manager = self.query.get("fieldManager").unwrap_or_default();
        if manager.len() > MAX_MANAGER {
            let message = format!("Too long: may not be more than {MAX_MANAGER} bytes");
            causes.push(Cause { field: "fieldManager".into(), reason: "FieldValueTooLong", message });
        }
        if let Some((place, letter)) = manager.chars().enumerate().find(|(_, letter)| letter.is_control()) {
            let why = format!("invalid character U+{:04X} (at position {place})", u32::from(letter));
            let shown = manager.replace(letter, &format!("\\x{:02x}", u32::from(letter)));
            let message = format!("Invalid value: \"{shown}\": {why}");
            causes.push(Cause { field: "fieldManager".into(), reason: "FieldValueInvalid", message });
        }
        causes.extend(self.query.dry_run_cause());
        let said = self.query.get("fieldValidation").unwrap_or_default();
        let supported = ["", "Ignore", "Strict", "Warn"];
        if !supported.contains(&said) {
            causes.push(Cause::unsupported("fieldValidation", &Value::from(said), &supported));
        }
        if causes.is_empty() {
            Ok(!self.query.all("dryRun").is_empty())
        } else {
            Err(Refusal::options(options, &causes))
        }
    }
}

pub(crate) fn header_text(headers: &HeaderMap, name: header::HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// What there is to accept; what the real server offers besides is named too, since clients only read this.
const OFFERED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// The first that is understood, as the client prefers.
fn shape(accept: &str, query: &Query) -> Result<Shape, Refusal> {
    if accept.trim().is_empty() {
        return Ok(Shape::Whole);
    }
    let mut transformed = false;
    for wanted in accept.split(',').map(str::trim) {
        let parts: Vec<&str> = wanted.split(';').map(str::trim).collect();
        let media = parts.first().copied().unwrap_or_default();
        if !matches!(media, "application/json" | "*/*") {
            continue;
        }
        let is = |part| parts.contains(&part);
        match parts.iter().find_map(|part| part.strip_prefix("as=")) {
            None => return Ok(Shape::Whole),
            Some("Table") if is("g=meta.k8s.io") && is("v=v1") => {
                return Include::read(query).map(Shape::Table);
            }
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") => return Ok(Shape::MetadataOnly),
            Some(_) => transformed = true,
        }
    }
    Err(Refusal::not_acceptable(&if transformed {
        format!("only the following media types are accepted: {OFFERED}")
    } else {
        format!("406: Not Acceptable\n\nAvailable representations: {OFFERED}")
    }))
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
