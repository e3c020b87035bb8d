//! Sequences of requests, as data.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

/// Why the sequences cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SequenceError {
    /// A file is not there.
    #[error("{0}: {1}")]
    File(PathBuf, std::io::Error),
    /// A file does not say what a file should.
    #[error("{0}: {1}")]
    Format(PathBuf, String),
    /// A step that no server could be asked.
    #[error("{sequence}, step {position}: {why}")]
    Step {
        sequence: String,
        /// Counted from one.
        position: usize,
        /// What is wrong.
        why: String,
    },
    /// Namespaces are named after sequences.
    #[error("two sequences are called {0}")]
    Twice(String),
}

/// All sequences.
#[derive(Debug)]
pub struct Suite {
    /// By the order of their files.
    pub areas: Vec<Area>,
    /// What both servers need before anything else.
    pub setup: Option<Sequence>,
}

/// The sequences of one file.
#[derive(Debug)]
pub struct Area {
    /// What they are about.
    pub name: String,
    /// In the order of the file.
    pub sequences: Vec<Sequence>,
}

/// Requests that belong together.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// Unique among all; the namespace is named after it.
    pub name: String,
    /// Why the servers may differ here; then they must.
    pub out_of_scope: Option<String>,
    pub(crate) steps: Vec<Step>,
}

impl Sequence {
    /// What of the answers is not compared, as JSON pointers.
    pub fn ignored(&self) -> BTreeSet<&str> {
        self.steps.iter().flat_map(|step| &step.ignore).map(String::as_str).collect()
    }

    /// How often a server is asked.
    pub fn requests(&self) -> usize {
        self.steps.iter().filter(|step| !matches!(step.ask, Ask::Events { .. } | Ask::Reviews { .. })).count()
    }
}

/// One request, or what is looked at between requests.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) ask: Ask,
    /// The refusal that is expected; without one the real server must agree.
    pub(crate) refused: Option<u16>,
    /// Whether to ask until the answer has the expected code: some things take the real server a moment.
    pub(crate) eventually: bool,
    /// What is of no concern in the answer, as JSON pointers.
    pub(crate) ignore: Vec<String>,
    /// What later steps can refer to, by name: JSON pointers into the answer.
    pub(crate) remember: BTreeMap<String, String>,
}

#[derive(Clone, Debug)]
pub(crate) enum Ask {
    Send(Send),
    /// Begins a watch and leaves it open.
    Watch {
        path: String,
        name: String,
        accept: Option<String>,
    },
    /// Collects the events of a watch.
    Events {
        name: String,
        until: Until,
    },
    /// What webhooks have been asked.
    Reviews {
        ordered: bool,
    },
}

/// How far the events of a watch are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    End,
    Bookmark,
    /// Up to the first event of the object of this name.
    Object(String),
}

#[derive(Clone, Debug)]
pub(crate) struct Send {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) content_type: Option<String>,
    pub(crate) accept: Option<String>,
    pub(crate) body: Body,
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    None,
    Json(Value),
    /// The object as it was last seen, with a merge patch applied.
    Changed(Value),
    Text(String),
}

/// A file, as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    area: String,
    #[serde(default)]
    bases: BTreeMap<String, Value>,
    #[serde(default)]
    kinds: BTreeMap<String, Kind>,
    #[serde(default)]
    sequences: Vec<Written>,
}

/// A kind by the short name that paths begin with.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "as objects call it")]
struct Kind {
    api_version: String,
    kind: String,
    plural: String,
    #[serde(default)]
    cluster: bool,
}

impl Kind {
    fn path(&self) -> String {
        let root = if self.api_version.contains('/') { "/apis" } else { "/api" };
        let place = if self.cluster { "" } else { "/namespaces/${ns}" };
        format!("{root}/{}{place}/{}", self.api_version, self.plural)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    out_of_scope: Option<String>,
    steps: Vec<WrittenStep>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenStep {
    #[serde(rename = "GET")]
    get: Option<String>,
    #[serde(rename = "POST")]
    post: Option<String>,
    #[serde(rename = "PUT")]
    put: Option<String>,
    #[serde(rename = "DELETE")]
    delete: Option<String>,
    #[serde(rename = "JSON")]
    json: Option<String>,
    #[serde(rename = "MERGE")]
    merge: Option<String>,
    #[serde(rename = "STRATEGIC")]
    strategic: Option<String>,
    #[serde(rename = "APPLY")]
    apply: Option<String>,
    /// Method and path.
    #[serde(rename = "SEND")]
    send: Option<String>,
    #[serde(rename = "WATCH")]
    watch: Option<String>,
    #[serde(rename = "EVENTS")]
    events: Option<String>,
    /// `in order`, or `in any order` for webhooks that are asked at once.
    #[serde(rename = "REVIEWS")]
    reviews: Option<String>,
    /// The name of a watch.
    r#as: Option<String>,
    until: Option<String>,
    /// A base that the body is merged into.
    r#use: Option<String>,
    body: Option<Value>,
    change: Option<Value>,
    raw: Option<String>,
    r#type: Option<String>,
    accept: Option<String>,
    /// The field manager.
    by: Option<String>,
    #[serde(default)]
    force: bool,
    /// Whether the body is sent without `apiVersion` and `kind`.
    #[serde(default)]
    bare: bool,
    refused: Option<u16>,
    #[serde(default)]
    eventually: bool,
    #[serde(default)]
    ignore: Vec<String>,
    #[serde(default)]
    remember: BTreeMap<String, String>,
}

/// What all files may refer to.
const COMMON: &str = "common.yaml";

impl Suite {
    /// Reads all files of a folder.
    pub fn read(folder: &Path) -> Result<Self, SequenceError> {
        let mut common = read(&folder.join(COMMON))?;
        let setup = common.sequences.pop();
        let listed =
            std::fs::read_dir(folder).map_err(|error| SequenceError::File(folder.to_owned(), error))?;
        let mut paths: Vec<PathBuf> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.retain(|path| path.extension().is_some_and(|ext| ext == "yaml") && !path.ends_with(COMMON));
        paths.sort();
        let mut areas: Vec<Area> = Vec::new();
        for path in paths {
            let file = read(&path)?;
            let mut reader = Reader { bases: common.bases.clone(), kinds: common.kinds.clone() };
            reader.bases.extend(file.bases);
            reader.kinds.extend(file.kinds);
            let sequences: Result<Vec<_>, _> =
                file.sequences.into_iter().map(|written| reader.sequence(written)).collect();
            // An area may be spread over files.
            match areas.iter_mut().find(|area| area.name == file.area) {
                Some(area) => area.sequences.extend(sequences?),
                None => areas.push(Area { name: file.area, sequences: sequences? }),
            }
        }
        let mut names = BTreeSet::new();
        for sequence in areas.iter().flat_map(|area| &area.sequences) {
            if !names.insert(&sequence.name) {
                return Err(SequenceError::Twice(sequence.name.clone()));
            }
        }
        let reader = Reader { bases: common.bases, kinds: common.kinds };
        let setup = setup.map(|setup| reader.sequence(setup)).transpose()?;
        Ok(Suite { areas, setup })
    }
}

fn read(path: &Path) -> Result<File, SequenceError> {
    let text = std::fs::read_to_string(path).map_err(|error| SequenceError::File(path.to_owned(), error))?;
    serde_saphyr::from_str(&text).map_err(|error| SequenceError::Format(path.to_owned(), error.to_string()))
}

struct Reader {
    bases: BTreeMap<String, Value>,
    kinds: BTreeMap<String, Kind>,
}

const JSON: &str = "application/json";

impl Reader {
    fn sequence(&self, written: Written) -> Result<Sequence, SequenceError> {
        let Written { name, out_of_scope, steps } = written;
        let steps = steps.into_iter().enumerate().map(|(index, step)| {
            let failed = |why| SequenceError::Step { sequence: name.clone(), position: index + 1, why };
            self.step(step).map_err(failed)
        });
        let steps = steps.collect::<Result<Vec<_>, _>>()?;
        Ok(Sequence { name, out_of_scope, steps })
    }

    fn step(&self, written: WrittenStep) -> Result<Step, String> {
        let ask = self.ask(&written)?;
        let WrittenStep { refused, eventually, ignore, remember, .. } = written;
        Ok(Step { ask, refused, eventually, ignore, remember })
    }

    fn ask(&self, step: &WrittenStep) -> Result<Ask, String> {
        if let Some(path) = &step.watch {
            let path = self.expand(path)?.0;
            let mark = if path.contains('?') { '&' } else { '?' };
            let name = step.r#as.clone().unwrap_or_default();
            let accept = step.accept.clone();
            return Ok(Ask::Watch { path: format!("{path}{mark}watch=true"), name, accept });
        }
        if let Some(name) = &step.events {
            let until = match step.until.as_deref().ok_or("events up to what?")? {
                "END" => Until::End,
                "BOOKMARK" => Until::Bookmark,
                name => Until::Object(name.to_owned()),
            };
            return Ok(Ask::Events { name: name.clone(), until });
        }
        match step.reviews.as_deref() {
            None => {}
            Some("in order") => return Ok(Ask::Reviews { ordered: true }),
            Some("in any order") => return Ok(Ask::Reviews { ordered: false }),
            Some(other) => return Err(format!("reviews come in order or in any order, not {other}")),
        }
        self.send(step).map(Ask::Send)
    }

    fn send(&self, step: &WrittenStep) -> Result<Send, String> {
        let verbs = [
            (&step.get, "GET", None),
            (&step.post, "POST", Some(JSON)),
            (&step.put, "PUT", Some(JSON)),
            (&step.delete, "DELETE", Some(JSON)),
            (&step.json, "PATCH", Some("application/json-patch+json")),
            (&step.merge, "PATCH", Some("application/merge-patch+json")),
            (&step.strategic, "PATCH", Some("application/strategic-merge-patch+json")),
            (&step.apply, "PATCH", Some("application/apply-patch+yaml")),
        ];
        let said: Vec<_> = verbs
            .into_iter()
            .filter_map(|(path, method, kind)| Some((path.as_deref()?, method.to_owned(), kind)))
            .chain(step.send.as_deref().and_then(|said| {
                let (method, path) = said.split_once(' ')?;
                Some((path, method.to_owned(), Some(JSON)))
            }))
            .collect();
        let [(path, method, content_type)] = said.as_slice() else {
            return Err("a step does one thing".to_owned());
        };
        let (mut path, kind) = self.expand(path)?;
        for (name, value) in [("fieldManager", step.by.as_deref()), ("force", step.force.then_some("true"))] {
            if let Some(value) = value {
                let mark = if path.contains('?') { '&' } else { '?' };
                path = format!("{path}{mark}{name}={value}");
            }
        }
        let describes = matches!(method.as_str(), "POST" | "PUT") || step.apply.is_some();
        let body = self.body(step, kind.filter(|_| describes && !step.bare))?;
        let content_type = match &body {
            Body::None => step.r#type.clone(),
            _ => step.r#type.clone().or(content_type.map(str::to_owned)),
        };
        Ok(Send { method: method.clone(), path, content_type, accept: step.accept.clone(), body })
    }

    fn body(&self, step: &WrittenStep, kind: Option<&Kind>) -> Result<Body, String> {
        if let Some(raw) = &step.raw {
            return Ok(Body::Text(raw.clone()));
        }
        if let Some(change) = &step.change {
            return Ok(Body::Changed(change.clone()));
        }
        let mut body = match (&step.r#use, &step.body) {
            (None, None) => return Ok(Body::None),
            (Some(base), body) => {
                let mut base = self.bases.get(base).cloned().ok_or(format!("no base is called {base}"))?;
                merge(&mut base, body.as_ref().unwrap_or(&json!({})));
                base
            }
            (None, Some(body)) => body.clone(),
        };
        if let (Some(kind), Some(fields)) = (kind, body.as_object_mut()) {
            fields.entry("apiVersion").or_insert_with(|| kind.api_version.clone().into());
            fields.entry("kind").or_insert_with(|| kind.kind.clone().into());
        }
        Ok(Body::Json(body))
    }

    /// A path that begins with the short name of a kind is one of its objects, unless a subresource follows: that has a
    /// kind of its own.
    fn expand(&self, path: &str) -> Result<(String, Option<&Kind>), String> {
        if path.starts_with('/') {
            return Ok((path.to_owned(), None));
        }
        let end = path.find(['/', '?']).unwrap_or(path.len());
        let (short, rest) = path.split_at_checked(end).unwrap_or_default();
        let kind = self.kinds.get(short).ok_or(format!("no kind is called {short}"))?;
        let parts = rest.split('?').next().unwrap_or_default().split('/').count();
        let own = parts <= 2 || rest.split('?').next().is_some_and(|rest| rest.ends_with("/status"));
        Ok((format!("{}{rest}", kind.path()), own.then_some(kind)))
    }
}

/// As a merge patch does.
pub(crate) fn merge(into: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    let Some(fields) = into.as_object_mut() else { return };
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}
