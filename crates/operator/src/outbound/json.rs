//! JSON in pieces, as a connection delivers it: one token at a time, and nothing of it kept.
//!
//! What a server sends may be large and ill-meant, and most of it (the labels of each series) decides nothing. So it is
//! not parsed into values: whoever reads it sees each token once and says when there was enough.

/// How deep values may nest: an answer of the Prometheus API needs ten levels.
const MAX_DEPTH: usize = 32;

/// The longest text that is kept, in bytes as sent. Longer ones are no keys, no numbers and no sentences.
const MAX_TEXT_BYTES: usize = 4 * 1024;

/// The longest number or word. A double needs 25 bytes.
const MAX_ATOM_BYTES: usize = 64;

/// Why reading ends before the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The reader knows all it wants to know.
    Enough,
    /// It is not JSON, or not what the reader understands.
    Malformed(&'static str),
    /// There are more series than a reader keeps.
    TooMany,
    /// There are more bytes than a reader takes.
    TooLarge {
        /// So many.
        limit: usize,
    },
}

/// The kinds of values that hold others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Container {
    Object,
    Array,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Token<'a> {
    Begin(Container),
    End,
    Key(Text<'a>),
    Atom(Atom<'a>),
}

/// A value that holds no others.
#[derive(Clone, Copy, Debug)]
pub(super) enum Atom<'a> {
    Text(Text<'a>),
    Number(f64),
    Bool(bool),
    Null,
}

/// A text as sent, without its quotes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<'a> {
    raw: &'a [u8],
    /// Whether it went on.
    cut: bool,
}

impl<'a> Text<'a> {
    /// What was sent, escapes and all.
    pub(super) fn raw(self) -> &'a [u8] {
        self.raw
    }

    /// What it means; `None` where that is nothing. Of a text that is too long nothing is repeated: its beginning could
    /// end in half a credential, which nobody would recognise as one.
    pub(super) fn decode(self) -> Option<String> {
        if self.cut {
            return Some(format!("a text of more than {} KiB", MAX_TEXT_BYTES / 1024));
        }
        serde_json::from_slice(&[b"\"", self.raw, b"\""].concat()).ok()
    }
}

/// What may come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Value,
    ItemOrEnd,
    KeyOrEnd,
    Key,
    Colon,
    CommaOrEnd,
    InText { is_key: bool, escaped: bool },
    InAtom,
    Done,
}

/// The tokens of one document.
#[derive(Debug)]
pub(super) struct Tokens {
    state: State,
    open: Vec<Container>,
    /// The text or the atom under way.
    buffer: Vec<u8>,
    cut: bool,
}

impl Tokens {
    pub(super) fn new() -> Self {
        Self { state: State::Value, open: Vec::new(), buffer: Vec::new(), cut: false }
    }

    /// Reads on, and hands over each token that is complete.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        take: &mut impl FnMut(Token<'_>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        bytes.iter().try_for_each(|byte| self.byte(*byte, take))
    }

    /// Whether the document is complete.
    pub(super) fn end(&self) -> Result<(), Stop> {
        if self.state == State::Done { Ok(()) } else { Err(Stop::Malformed("it ends too early")) }
    }

    fn byte(&mut self, byte: u8, take: &mut impl FnMut(Token<'_>) -> Result<(), Stop>) -> Result<(), Stop> {
        match self.state {
            State::InText { is_key, escaped } => return self.text(byte, is_key, escaped, take),
            State::InAtom if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.') => {
                return self.keep(byte);
            }
            State::InAtom => {
                take(Token::Atom(self.atom()?))?;
                self.after_value();
            }
            _ => {}
        }
        match (self.state, byte) {
            (_, b' ' | b'\t' | b'\n' | b'\r') => Ok(()),
            (State::Value | State::ItemOrEnd, b'{') => self.begin(Container::Object, take),
            (State::Value | State::ItemOrEnd, b'[') => self.begin(Container::Array, take),
            (State::ItemOrEnd | State::CommaOrEnd, b']') => self.close(Container::Array, take),
            (State::KeyOrEnd | State::CommaOrEnd, b'}') => self.close(Container::Object, take),
            (State::Value | State::ItemOrEnd, b'"') => self.quote(false),
            (State::Key | State::KeyOrEnd, b'"') => self.quote(true),
            (State::Colon, b':') => self.turn(State::Value),
            (State::CommaOrEnd, b',') => {
                let in_object = self.open.last() == Some(&Container::Object);
                self.turn(if in_object { State::Key } else { State::Value })
            }
            (State::Value | State::ItemOrEnd, b'-' | b'0'..=b'9' | b'a'..=b'z') => {
                self.buffer.clear();
                self.state = State::InAtom;
                self.keep(byte)
            }
            (State::Done, _) => Err(Stop::Malformed("it continues after its end")),
            _ => Err(Stop::Malformed("it is not JSON")),
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "a step like the others")]
    fn turn(&mut self, state: State) -> Result<(), Stop> {
        self.state = state;
        Ok(())
    }

    fn quote(&mut self, is_key: bool) -> Result<(), Stop> {
        self.buffer.clear();
        self.cut = false;
        self.turn(State::InText { is_key, escaped: false })
    }

    fn text(
        &mut self,
        byte: u8,
        is_key: bool,
        escaped: bool,
        take: &mut impl FnMut(Token<'_>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        if byte == b'"' && !escaped {
            let text = Text { raw: &self.buffer, cut: self.cut };
            take(if is_key { Token::Key(text) } else { Token::Atom(Atom::Text(text)) })?;
            if is_key {
                self.state = State::Colon;
            } else {
                self.after_value();
            }
            return Ok(());
        }
        if self.buffer.len() < MAX_TEXT_BYTES {
            self.buffer.push(byte);
        } else {
            self.cut = true;
        }
        self.turn(State::InText { is_key, escaped: byte == b'\\' && !escaped })
    }

    fn keep(&mut self, byte: u8) -> Result<(), Stop> {
        if self.buffer.len() == MAX_ATOM_BYTES {
            return Err(Stop::Malformed("it is not JSON"));
        }
        self.buffer.push(byte);
        Ok(())
    }

    fn atom(&self) -> Result<Atom<'static>, Stop> {
        match self.buffer.as_slice() {
            b"true" => Ok(Atom::Bool(true)),
            b"false" => Ok(Atom::Bool(false)),
            b"null" => Ok(Atom::Null),
            number => {
                let number = serde_json::from_slice(number);
                number.map(Atom::Number).map_err(|_| Stop::Malformed("it is not JSON"))
            }
        }
    }

    fn begin(
        &mut self,
        container: Container,
        take: &mut impl FnMut(Token<'_>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        if self.open.len() == MAX_DEPTH {
            return Err(Stop::Malformed("it nests too deeply"));
        }
        self.open.push(container);
        self.state = match container {
            Container::Object => State::KeyOrEnd,
            Container::Array => State::ItemOrEnd,
        };
        take(Token::Begin(container))
    }

    fn close(
        &mut self,
        container: Container,
        take: &mut impl FnMut(Token<'_>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        if self.open.pop() != Some(container) {
            return Err(Stop::Malformed("it is not JSON"));
        }
        self.after_value();
        take(Token::End)
    }

    fn after_value(&mut self) {
        self.state = if self.open.is_empty() { State::Done } else { State::CommaOrEnd };
    }
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod json_tests;
