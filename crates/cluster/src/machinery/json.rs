//! JSON as Go reads it: which keys come twice, and what is said about text that is no JSON.

use std::collections::BTreeSet;

use serde_json::Value;

/// Most values within values. Clients read 127 levels, of which an object has to leave some to what is wrapped around it
/// (lists, events, reviews) and to the account of who owns its fields, which is deeper than the fields are.
pub(crate) const MAX_DEPTH: usize = 110;
/// What is said of a value that is deeper.
pub(crate) const TOO_DEEP: &str = "exceeded max depth";
/// Most complaints about fields that come twice or are not known, as in Kubernetes: each is as long as all names on the
/// way.
pub(crate) const MAX_COMPLAINTS: usize = 100;

/// How many values are within values.
pub(crate) fn depth(value: &Value) -> usize {
    let deepest = match value {
        Value::Object(fields) => fields.values().map(depth).max(),
        Value::Array(items) => items.iter().map(depth).max(),
        _ => return 0,
    };
    1 + deepest.unwrap_or(0)
}

/// JSON that was read.
pub(crate) struct Document {
    pub(crate) value: Value,
    /// What Go says of fields that were given more than once; the last one counts.
    pub(crate) complaints: Vec<String>,
}

/// Reads a text, or says what Go would.
pub(crate) fn read(text: &[u8]) -> Result<Document, String> {
    let mut scan = Scan { text, at: 0, depth: 0, path: Vec::new(), duplicates: Vec::new() };
    scan.document()?;
    let complaints = scan.duplicates.iter().map(|at| format!("duplicate field \"{at}\"")).collect();
    let value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    Ok(Document { value, complaints })
}

struct Scan<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
    path: Vec<String>,
    /// As in `spec.ports[0].name`.
    duplicates: Vec<String>,
}

impl Scan<'_> {
    fn document(&mut self) -> Result<(), String> {
        self.value()?;
        self.space();
        match self.peek() {
            None => Ok(()),
            Some(_) => self.complain("after top-level value"),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while self.peek().is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn complain<T>(&self, context: &str) -> Result<T, String> {
        let Some(byte) = self.peek() else {
            return Err("unexpected end of JSON input".to_owned());
        };
        let shown = match byte {
            b'\'' => "'\\''".to_owned(),
            b'"' => "'\"'".to_owned(),
            b'\n' => "'\\n'".to_owned(),
            b'\t' => "'\\t'".to_owned(),
            b'\r' => "'\\r'".to_owned(),
            byte if byte.is_ascii_graphic() || byte == b' ' => format!("'{}'", char::from(byte)),
            byte if byte < 0x80 => format!("'\\x{byte:02x}'"),
            byte => format!("'{}'", char::from(byte)),
        };
        Err(format!("invalid character {shown} {context}"))
    }

    fn value(&mut self) -> Result<(), String> {
        self.space();
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => self.string().map(|_| ()),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'n') => self.literal("null"),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.complain("looking for beginning of value"),
        }
    }

    fn nested(&mut self, inner: fn(&mut Self) -> Result<(), String>) -> Result<(), String> {
        if self.depth >= MAX_DEPTH {
            return Err(TOO_DEEP.to_owned());
        }
        self.depth += 1;
        self.at += 1;
        inner(self)?;
        self.depth -= 1;
        Ok(())
    }

    fn object(&mut self) -> Result<(), String> {
        let (mut names, mut repeated): (BTreeSet<Vec<u8>>, BTreeSet<Vec<u8>>) = Default::default();
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return self.complain("looking for beginning of object key string");
            }
            let name = self.string()?;
            let dot = if self.path.is_empty() { "" } else { "." };
            self.path.push(format!("{dot}{}", String::from_utf8_lossy(&name)));
            let is_news = names.contains(&name) && repeated.insert(name.clone());
            names.insert(name);
            if is_news && self.duplicates.len() < MAX_COMPLAINTS {
                let place = self.path.concat();
                if !self.duplicates.contains(&place) {
                    self.duplicates.push(place);
                }
            }
            self.space();
            if self.peek() != Some(b':') {
                return self.complain("after object key");
            }
            self.at += 1;
            self.value()?;
            self.path.pop();
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return self.complain("after object key:value pair"),
            }
        }
    }

    fn array(&mut self) -> Result<(), String> {
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        for index in 0_usize.. {
            self.path.push(format!("[{index}]"));
            self.value()?;
            self.path.pop();
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    break;
                }
                _ => return self.complain("after array element"),
            }
        }
        Ok(())
    }

    /// The text between the quotes, as it is written.
    fn string(&mut self) -> Result<Vec<u8>, String> {
        self.at += 1;
        let start = self.at;
        loop {
            match self.peek() {
                Some(b'"') => {
                    let inside = self.text.get(start..self.at).unwrap_or_default().to_vec();
                    self.at += 1;
                    return Ok(inside);
                }
                Some(b'\\') => {
                    self.at += 1;
                    match self.peek() {
                        Some(b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => self.at += 1,
                        Some(b'u') => {
                            self.at += 1;
                            for _ in 0..4 {
                                if !self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                                    return self.complain("in \\u hexadecimal character escape");
                                }
                                self.at += 1;
                            }
                        }
                        _ => return self.complain("in string escape code"),
                    }
                }
                Some(byte) if byte >= b' ' => self.at += 1,
                _ => return self.complain("in string literal"),
            }
        }
    }

    fn literal(&mut self, word: &str) -> Result<(), String> {
        for expected in word.chars() {
            if self.peek().map(char::from) != Some(expected) {
                return self.complain(&format!("in literal {word} (expecting '{expected}')"));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn digits(&mut self, context: &str) -> Result<(), String> {
        if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return self.complain(context);
        }
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), String> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(())
    }
}
