//! Where in an object, as Kubernetes writes it.

use std::fmt;

/// One step down into an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Field(String),
    Index(usize),
    Key(String),
}

/// A place in an object: `spec.containers[0].env`, `metadata.labels[app]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(Vec<Step>);

impl Path {
    /// A field of the object here.
    #[must_use]
    pub fn field(&self, name: &str) -> Path {
        self.then(Step::Field(name.to_owned()))
    }

    /// An item of the list here.
    #[must_use]
    pub fn index(&self, index: usize) -> Path {
        self.then(Step::Index(index))
    }

    /// An entry of the map here.
    #[must_use]
    pub fn key(&self, key: &str) -> Path {
        self.then(Step::Key(key.to_owned()))
    }

    fn then(&self, step: Step) -> Path {
        let mut steps = self.0.clone();
        steps.push(step);
        Path(steps)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                Step::Field(name) if position == 0 => write!(f, "{name}")?,
                Step::Field(name) => write!(f, ".{name}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key) => write!(f, "[{key}]")?,
            }
        }
        Ok(())
    }
}
