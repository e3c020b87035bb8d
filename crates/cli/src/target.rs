//! Objects as the command line names them: `NAME`, `TYPE/NAME` or `TYPE.GROUP/NAME`, with the types as kubectl takes them.

use anyhow::{Result, bail};
use serde_json::Value;
use sts_plus_api::keys;
use sts_plus_operator::shell::api::{Api, ApiError, Kind, Place};

/// The types and groups by which kinds can be named.
const TYPES: [(Kind, [&str; 3], &str); 5] = [
    (Kind::StatefulSet, ["statefulset", "statefulsets", "sts"], "apps"),
    (Kind::PhasedRollout, ["phasedrollout", "phasedrollouts", "phr"], "sts.plus"),
    (Kind::Extended, ["extendedstatefulset", "extendedstatefulsets", "ests"], "sts.plus"),
    (
        Kind::FissileExtended,
        ["extendedstatefulset", "extendedstatefulsets", "fests"],
        "fissile.cloudfoundry.org",
    ),
    (Kind::ScalingPolicy, ["scalingpolicy", "scalingpolicies", "scp"], "sts.plus"),
];

/// A name, and the kinds that it may be of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    kinds: Vec<Kind>,
    name: &'a str,
}

/// An object that exists.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    /// As it was read.
    pub(crate) object: Value,
}

impl Found {
    /// As it can be written on the command line.
    pub(crate) fn title(&self) -> String {
        title(self.kind, &self.name)
    }
}

/// A kind and a name as they can be written on the command line: with the group where several have the kind.
pub(crate) fn title(kind: Kind, name: &str) -> String {
    let word = kind.definition().kind.to_lowercase();
    let group = TYPES.iter().find(|(known, ..)| *known == kind).map_or("", |(.., group)| group);
    if matches!(kind, Kind::Extended | Kind::FissileExtended) {
        format!("{word}.{group}/{name}")
    } else {
        format!("{word}/{name}")
    }
}

impl<'a> Target<'a> {
    /// Parses a word of the command line. A name alone may be of any of the kinds.
    pub(crate) fn parse(text: &'a str, kinds: &[Kind]) -> Result<Self> {
        let (kinds, name) = match text.split_once('/') {
            None => (kinds.to_vec(), text),
            Some((word, name)) => {
                let named = of_type(word);
                if named.is_empty() {
                    bail!("{text}: there is no type {word:?} here: write one of {}", examples(kinds));
                }
                if !named.iter().any(|kind| kinds.contains(kind)) {
                    bail!("{text} cannot be approved: write one of {}", examples(kinds));
                }
                (named, name)
            }
        };
        if name.is_empty() || name.contains('/') {
            bail!("{text:?} names no object: write NAME or one of {}", examples(&kinds));
        }
        Ok(Self { kinds, name })
    }

    /// The object of that name in a namespace.
    pub(crate) async fn find(&self, api: &Api, namespace: &str) -> Result<Found> {
        let (mut found, mut refused) = (Vec::new(), None);
        for kind in &self.kinds {
            match api.get(Place::object(*kind, namespace, self.name)).await {
                Ok(object) => found.push(Found { kind: *kind, name: self.name.to_owned(), object }),
                Err(ApiError::NotFound(_)) => {}
                // Somebody who may not read one kind may still mean another.
                Err(ApiError::Forbidden(why)) if self.kinds.len() > 1 => refused = Some(why),
                Err(error) => bail!("{} in namespace {namespace}: {error}", title(*kind, self.name)),
            }
        }
        self.choose(found, namespace, refused.as_deref())
    }

    /// The only one of those that exist, or which there are.
    fn choose(&self, mut found: Vec<Found>, namespace: &str, refused: Option<&str>) -> Result<Found> {
        let titles: Vec<String> = found.iter().map(Found::title).collect();
        // The set of an ExtendedStatefulSet may have its name, and is a part of it.
        if found.len() > 1 {
            found.retain(|found| {
                let owner = owner(found);
                owner.is_none_or(|owner| !titles.contains(&owner))
            });
        }
        match <[Found; 1]>::try_from(found) {
            Ok([found]) => Ok(found),
            Err(none) if none.is_empty() => {
                let name = self.name;
                let kinds: Vec<_> = self.kinds.iter().map(|kind| kind.definition().kind).collect();
                match refused {
                    Some(why) => bail!("{name} was not found in namespace {namespace}: {why}"),
                    None => bail!("there is no {} {name} in namespace {namespace}", either(&kinds)),
                }
            }
            Err(several) => {
                let titles: Vec<_> = several.iter().map(Found::title).collect();
                bail!(
                    "{} is ambiguous in namespace {namespace}: write {}",
                    self.name,
                    either(&titles.iter().map(String::as_str).collect::<Vec<_>>())
                )
            }
        }
    }
}

/// The ExtendedStatefulSet that controls an object, as it can be written on the command line.
pub(crate) fn owner(found: &Found) -> Option<String> {
    let owners = found.object.pointer("/metadata/ownerReferences")?.as_array()?;
    owners.iter().find_map(|owner| {
        let text = |key: &str| owner.get(key).and_then(Value::as_str);
        let kind = [Kind::Extended, Kind::FissileExtended].into_iter().find(|kind| {
            let definition = kind.definition();
            (text("apiVersion"), text("kind")) == (Some(definition.api_version), Some(definition.kind))
        })?;
        Some(title(kind, text("name")?))
    })
}

/// Whether a StatefulSet is a member of a rollout group.
pub(crate) fn is_in_group(found: &Found) -> bool {
    found.object.pointer("/metadata/labels").is_some_and(|labels| labels.get(keys::ROLLOUT_GROUP).is_some())
}

/// The kinds of a type, with or without a group.
fn of_type(word: &str) -> Vec<Kind> {
    let (name, group) = word.split_once('.').map_or((word, None), |(name, group)| (name, Some(group)));
    let is_named = |(_, names, known): &&(Kind, [&str; 3], &str)| {
        names.contains(&name) && group.is_none_or(|group| group == *known)
    };
    TYPES.iter().filter(is_named).map(|(kind, ..)| *kind).collect()
}

/// How objects of these kinds are written.
fn examples(kinds: &[Kind]) -> String {
    let mut titles: Vec<_> = kinds.iter().map(|kind| title(*kind, "NAME")).collect();
    titles.dedup();
    titles.join(", ")
}

/// `a`, `a or b`, `a, b or c`; each once.
fn either(words: &[&str]) -> String {
    let mut words = words.to_vec();
    words.dedup();
    match words.split_last() {
        None => String::new(),
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

#[cfg(test)]
#[path = "target_tests.rs"]
mod tests;
