//! Where in an object, as Kubernetes writes it.

use std::fmt;
use std::sync::Arc;

/// One segment of the way down into an object.
#[derive(Debug, PartialEq, Eq)]
enum Segment {
    Field(String),
    Index(usize),
    Key(String),
}

/// A place in an object: `spec.containers[0].env`, `metadata.labels[app]`. Places share the way to them: names may be
/// long, and there is a place for each field of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(Option<Arc<Link>>);

#[derive(Debug, PartialEq, Eq)]
struct Link {
    above: Path,
    segment: Segment,
}

impl Path {
    /// A field of the object here.
    #[must_use]
    pub fn field(&self, name: &str) -> Path {
        self.then(Segment::Field(name.to_owned()))
    }

    /// An item of the list here.
    #[must_use]
    pub fn index(&self, index: usize) -> Path {
        self.then(Segment::Index(index))
    }

    /// An entry of the map here.
    #[must_use]
    pub fn key(&self, key: &str) -> Path {
        self.then(Segment::Key(key.to_owned()))
    }

    fn then(&self, segment: Segment) -> Path {
        Path(Some(Arc::new(Link { above: self.clone(), segment })))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(link) = &self.0 else { return Ok(()) };
        link.above.fmt(f)?;
        match &link.segment {
            Segment::Field(name) if link.above.0.is_none() => write!(f, "{name}"),
            Segment::Field(name) => write!(f, ".{name}"),
            Segment::Index(index) => write!(f, "[{index}]"),
            Segment::Key(key) => write!(f, "[{key}]"),
        }
    }
}
