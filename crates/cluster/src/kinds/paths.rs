//! The part of JSONPath that printer columns use: fields, indices, `[*]` and filters by one comparison.

use serde_json::Value;

/// A path into an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JsonPath(Vec<Segment>);

#[derive(Clone, Debug, PartialEq)]
enum Segment {
    Field(String),
    /// From the end where negative.
    Index(i64),
    All,
    /// Items whose part at a path is, or is not, this.
    Where {
        path: JsonPath,
        equal: bool,
        value: Value,
    },
    /// Items that have something at a path.
    With(JsonPath),
}

impl JsonPath {
    /// Reads `.a.b[0]['c.d'].e\.f[?(@.type=="Ready")].g`; nothing where it is not of that form.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let mut segments = Vec::new();
        let mut rest = path.strip_prefix('$').unwrap_or(path);
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('[') {
                let end = closing(after)?;
                segments.push(bracket(after.get(..end)?)?);
                rest = after.get(end + 1..)?;
                continue;
            }
            let field = rest.strip_prefix('.').unwrap_or(rest);
            if field.starts_with('[') {
                rest = field;
                continue;
            }
            let (name, after) = name(field);
            if name.is_empty() {
                // A dot alone is the whole.
                return if after.is_empty() && segments.is_empty() { Some(JsonPath(segments)) } else { None };
            }
            segments.push(if name == "*" { Segment::All } else { Segment::Field(name) });
            rest = after;
        }
        Some(JsonPath(segments))
    }

    /// The first value that the path leads to.
    pub(crate) fn find<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        let mut found = vec![value];
        for segment in &self.0 {
            found = found.into_iter().flat_map(|value| segment.take(value)).collect();
        }
        found.into_iter().next()
    }
}

impl Segment {
    fn take<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match (self, value) {
            (Segment::Field(name), value) => value.get(name).into_iter().collect(),
            (Segment::Index(index), Value::Array(items)) => {
                let at = usize::try_from(*index)
                    .ok()
                    .or_else(|| items.len().checked_sub(usize::try_from(index.unsigned_abs()).ok()?));
                at.and_then(|at| items.get(at)).into_iter().collect()
            }
            (Segment::All, Value::Array(items)) => items.iter().collect(),
            (Segment::All, Value::Object(fields)) => fields.values().collect(),
            (Segment::Where { path, equal, value: wanted }, Value::Array(items)) => {
                let is = |item: &&Value| path.find(item).is_some_and(|found| (found == wanted) == *equal);
                items.iter().filter(is).collect()
            }
            (Segment::With(path), Value::Array(items)) => {
                items.iter().filter(|item| path.find(item).is_some()).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Where a bracket ends that has been opened, strings and brackets within it aside.
fn closing(text: &str) -> Option<usize> {
    let (mut quote, mut depth) = (None, 0);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            _ => {}
        }
    }
    None
}

/// A name up to the next dot or bracket; a backslash makes the next letter part of it.
fn name(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '.' | '[' => return (name, text.get(at..).unwrap_or_default()),
            '\\' => name.extend(letters.next().map(|(_, letter)| letter)),
            _ => name.push(letter),
        }
    }
    (name, "")
}

fn bracket(inside: &str) -> Option<Segment> {
    let inside = inside.trim();
    if inside == "*" {
        return Some(Segment::All);
    }
    if let Some(name) = quoted(inside) {
        return Some(Segment::Field(name.to_owned()));
    }
    let Some(filter) = inside.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) else {
        return inside.parse().ok().map(Segment::Index);
    };
    let read = |path: &str| JsonPath::parse(path.trim().strip_prefix('@')?);
    for (sign, equal) in [("==", true), ("!=", false)] {
        if let Some((path, value)) = filter.split_once(sign) {
            let value = value.trim();
            let value = match quoted(value) {
                Some(text) => text.into(),
                None => serde_json::from_str(value).ok()?,
            };
            return Some(Segment::Where { path: read(path)?, equal, value });
        }
    }
    read(filter).map(Segment::With)
}

fn quoted(text: &str) -> Option<&str> {
    let inside = |quote| text.strip_prefix(quote).and_then(|rest: &str| rest.strip_suffix(quote));
    inside('\'').or_else(|| inside('"'))
}
