//! Labels and label selectors.

use std::collections::BTreeMap;
use std::fmt;

/// Labels of an object or of a pod template.
pub type Labels = BTreeMap<Box<str>, Box<str>>;

/// A label selector: all requirements must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// The requirements, from `matchLabels` and `matchExpressions` alike.
    pub requirements: Vec<Requirement>,
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    pub key: Box<str>,
    /// What must hold for its value.
    pub test: Test,
}

/// The four operators of a label selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// The label is present with one of these values.
    In(Vec<Box<str>>),
    /// The label is absent, or present with none of these values.
    NotIn(Vec<Box<str>>),
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
}

impl Selector {
    /// A selector from `matchLabels` alone.
    pub fn labels<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let requirements = pairs
            .into_iter()
            .map(|(key, value)| Requirement { key: key.into(), test: Test::In(vec![value.into()]) })
            .collect();
        Self { requirements }
    }

    /// Whether labels, looked up by key, satisfy every requirement. An empty selector matches nothing:
    /// a StatefulSet cannot have one, so an empty one was not read properly.
    pub fn matches<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        !self.requirements.is_empty()
            && self.requirements.iter().all(|requirement| {
                let value = label(&requirement.key);
                match &requirement.test {
                    Test::In(values) => value.is_some_and(|v| values.iter().any(|w| **w == *v)),
                    Test::NotIn(values) => value.is_none_or(|v| values.iter().all(|w| **w != *v)),
                    Test::Exists => value.is_some(),
                    Test::DoesNotExist => value.is_none(),
                }
            })
    }
}

impl fmt::Display for Selector {
    /// As the API server parses it in a query.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, Requirement { key, test }) in self.requirements.iter().enumerate() {
            if number > 0 {
                f.write_str(",")?;
            }
            match test {
                Test::In(values) if values.len() == 1 => write!(f, "{key}={}", values.join(",")),
                Test::In(values) => write!(f, "{key} in ({})", values.join(",")),
                Test::NotIn(values) => write!(f, "{key} notin ({})", values.join(",")),
                Test::Exists => f.write_str(key),
                Test::DoesNotExist => write!(f, "!{key}"),
            }?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "selector_tests.rs"]
mod tests;
