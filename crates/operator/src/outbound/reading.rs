//! Reading an answer of the Prometheus API as it comes: what decides is kept, the rest passes by.
//!
//! ```text
//! {"status": "success", "isPartial": false, "data": {"resultType": "vector", "result": [
//!     {"metric": {...}, "value": [0, "1"]}, ...]}, "warnings": ["..."], "infos": ["..."]}
//! ```
//!
//! The fields come in any order, so a result is read by its own form and compared with `resultType` at the end.

use std::ops::ControlFlow;

use sts_plus_planner::phased_rollout::answer::{Answer, Data, Extent, QueryError, Weight};
use sts_plus_planner::phased_rollout::judge::MAX_REMARKS;

use super::json::{Atom, Container, Stop, Text, Token, Tokens};
use super::reply::reason;

/// How long an answer may be whose values are compared, and how much is read for the first series, in bytes. A query
/// that is judged needs a handful of series; this is room for a thousand with many labels.
pub(super) const MAX_BODY_BYTES: usize = 256 * 1024;

/// How far an answer is read, in bytes, whose first series has decided already and whose remarks have not come yet.
/// Nothing of it is kept meanwhile. Behind that the first series decides alone: what is missing from so long an answer are
/// further series.
pub(super) const MAX_SKIPPED_BYTES: usize = 4 * 1024 * 1024;

/// How many values are kept. They wait in memory until a pass has counted them.
pub(super) const MAX_SERIES: usize = 500;

const SHAPE: Stop = Stop::Malformed("it has another form");

/// An answer under way.
#[derive(Debug)]
pub(super) struct Reading {
    tokens: Tokens,
    found: Found,
    /// How many bytes have come.
    read: usize,
    stopped: Option<Stop>,
}

impl Reading {
    pub(super) fn new(extent: Extent) -> Self {
        Self { tokens: Tokens::new(), found: Found::new(extent), read: 0, stopped: None }
    }

    /// Takes the next bytes in. Breaks where no more of them are wanted.
    pub(super) fn take(&mut self, bytes: &[u8]) -> ControlFlow<()> {
        let Self { tokens, found, read, stopped } = self;
        *read = read.saturating_add(bytes.len());
        let fed = tokens.feed(bytes, &mut |token: Token<'_>| found.token(token));
        let limit = if found.has_decided() { MAX_SKIPPED_BYTES } else { MAX_BODY_BYTES };
        *stopped = match fed {
            Err(stop) => Some(stop),
            // What has come so far decides; remarks that are so far behind it are not waited for.
            Ok(()) if *read > limit && found.is_decided_success() => Some(Stop::Enough),
            Ok(()) if *read > limit => Some(Stop::TooLarge { limit }),
            Ok(()) => None,
        };
        if stopped.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// What the answer is, now that it has ended or enough of it has come.
    pub(super) fn finish(self, code: u16) -> Result<Answer, QueryError> {
        if self.read == 0 {
            return Err(QueryError::Failed(format!("the server answered {code} without a result")));
        }
        let more = self.stopped == Some(Stop::Enough);
        let ended = match self.stopped {
            None => self.tokens.end(),
            Some(Stop::Enough) => Ok(()),
            Some(stop) => Err(stop),
        };
        ended.map_err(refused)?;
        self.found.answer(code, more)
    }
}

fn refused(stop: Stop) -> QueryError {
    QueryError::Failed(match stop {
        Stop::TooLarge { limit } => {
            format!("the answer is larger than {} KiB: aggregate in the query", limit / 1024)
        }
        Stop::TooMany => format!("the answer has more than {MAX_SERIES} series: aggregate in the query"),
        Stop::Malformed(why) => format!("the answer is not one of the Prometheus API: {why}"),
        Stop::Enough => "the answer is not one of the Prometheus API".to_owned(),
    })
}

/// Where in the document a container is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    Envelope,
    Warnings,
    Infos,
    Data,
    Result,
    Series,
    /// A time and what was then.
    Pair(Sample),
    Pairs(Sample),
    /// Where nothing is of interest.
    Skipped,
}

/// What a pair holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sample {
    /// The value of a vector's series.
    Instant,
    /// A value of a matrix' series.
    Range,
    /// A histogram of a matrix' series.
    Histogram,
}

/// The fields that are of interest somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Status,
    IsPartial,
    Data,
    ErrorType,
    Error,
    Warnings,
    Infos,
    ResultType,
    Result,
    Value,
    Values,
    Histogram,
    Histograms,
    Other,
}

impl Field {
    fn of(name: &[u8]) -> Self {
        match name {
            b"status" => Self::Status,
            b"isPartial" => Self::IsPartial,
            b"data" => Self::Data,
            b"errorType" => Self::ErrorType,
            b"error" => Self::Error,
            b"warnings" => Self::Warnings,
            b"infos" => Self::Infos,
            b"resultType" => Self::ResultType,
            b"result" => Self::Result,
            b"value" => Self::Value,
            b"values" => Self::Values,
            b"histogram" => Self::Histogram,
            b"histograms" => Self::Histograms,
            _ => Self::Other,
        }
    }

    fn is_of_envelope(self) -> bool {
        use Field::{Data, Error, ErrorType, Infos, IsPartial, Status, Warnings};
        matches!(self, Status | IsPartial | Data | ErrorType | Error | Warnings | Infos)
    }

    fn is_of_series(self) -> bool {
        matches!(self, Self::Value | Self::Values | Self::Histogram | Self::Histograms)
    }
}

/// The kinds of results, as `resultType` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Vector,
    Matrix,
    Scalar,
    String,
}

/// The series under way.
#[derive(Clone, Copy, Debug, Default)]
struct Series {
    value: Option<f64>,
    histogram: bool,
    /// Time and value of the last sample.
    last: Option<(f64, f64)>,
    last_histogram: Option<f64>,
}

/// The pair under way.
#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    length: u8,
    at: f64,
    value: f64,
}

/// How much of an answer there is, from the outside in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Depth {
    Envelope,
    Data,
    Result,
}

/// What was found so far.
#[derive(Debug)]
struct Found {
    extent: Extent,
    sections: Vec<Section>,
    field: Field,
    success: Option<bool>,
    partial: bool,
    warnings: Vec<String>,
    infos: Vec<String>,
    error_type: Option<String>,
    error: Option<String>,
    depth: Depth,
    kind: Option<Kind>,
    /// Elements of a result that is no list of series, and the second of them.
    scalars: u8,
    scalar: String,
    values: Vec<f64>,
    /// Of which kind the series are.
    of: Option<Kind>,
    /// Whether there are series whose values were not kept.
    more: bool,
    series: Series,
    pair: Pair,
}

impl Found {
    fn new(extent: Extent) -> Self {
        Self {
            extent,
            sections: Vec::new(),
            field: Field::Other,
            success: None,
            partial: false,
            warnings: Vec::new(),
            infos: Vec::new(),
            error_type: None,
            error: None,
            depth: Depth::Envelope,
            kind: None,
            scalars: 0,
            scalar: String::new(),
            values: Vec::new(),
            of: None,
            more: false,
            series: Series::default(),
            pair: Pair::default(),
        }
    }

    /// Whether series that are yet to come change nothing.
    fn has_decided(&self) -> bool {
        self.extent != Extent::Values && !self.values.is_empty()
    }

    /// Whether it has decided, in an answer that is known to be a success.
    fn is_decided_success(&self) -> bool {
        self.has_decided() && self.success == Some(true)
    }

    fn token(&mut self, token: Token<'_>) -> Result<(), Stop> {
        match token {
            Token::Key(name) => self.field = Field::of(name.raw()),
            Token::Begin(container) => {
                let section = self.enter(container)?;
                self.sections.push(section);
            }
            Token::End => {
                let section = self.sections.pop();
                self.leave(section)?;
            }
            Token::Atom(atom) => self.atom(atom)?,
        }
        Ok(())
    }

    fn enter(&mut self, container: Container) -> Result<Section, Stop> {
        use Container::{Array, Object};
        let section = match (self.sections.last().copied(), self.field, container) {
            (None, _, Object) => Section::Envelope,
            (Some(Section::Envelope), Field::Data, Object) => {
                self.depth = self.depth.max(Depth::Data);
                Section::Data
            }
            (Some(Section::Envelope), Field::Warnings, Array) => Section::Warnings,
            (Some(Section::Envelope), Field::Infos, Array) => Section::Infos,
            (Some(Section::Envelope), field, _) if !field.is_of_envelope() => Section::Skipped,
            (Some(Section::Data), Field::Result, Array) => {
                self.depth = Depth::Result;
                Section::Result
            }
            (Some(Section::Data), field, _) if !matches!(field, Field::Result | Field::ResultType) => {
                Section::Skipped
            }
            (Some(Section::Result), _, Object) if self.scalars == 0 => {
                self.series = Series::default();
                Section::Series
            }
            (Some(Section::Series), Field::Value, Array) => self.begin_pair(Sample::Instant),
            (Some(Section::Series), Field::Values, Array) => Section::Pairs(Sample::Range),
            (Some(Section::Series), Field::Histograms, Array) => Section::Pairs(Sample::Histogram),
            (Some(Section::Series), Field::Histogram, _) => {
                self.series.histogram = true;
                Section::Skipped
            }
            (Some(Section::Series), field, _) if !field.is_of_series() => Section::Skipped,
            (Some(Section::Pairs(sample)), _, Array) => self.begin_pair(sample),
            (Some(Section::Pair(Sample::Histogram)), _, Object) if self.pair.length == 1 => {
                self.pair.length = 2;
                Section::Skipped
            }
            (Some(Section::Skipped), ..) => Section::Skipped,
            _ => return Err(SHAPE),
        };
        Ok(section)
    }

    fn begin_pair(&mut self, sample: Sample) -> Section {
        self.pair = Pair::default();
        Section::Pair(sample)
    }

    fn leave(&mut self, section: Option<Section>) -> Result<(), Stop> {
        match section {
            Some(Section::Pair(sample)) => self.end_pair(sample),
            Some(Section::Series) => self.end_series(),
            _ => Ok(()),
        }
    }

    fn end_pair(&mut self, sample: Sample) -> Result<(), Stop> {
        let Pair { length, at, value } = self.pair;
        if length != 2 {
            return Err(SHAPE);
        }
        match sample {
            Sample::Instant => self.series.value = Some(value),
            Sample::Range => self.series.last = Some((at, value)),
            Sample::Histogram => self.series.last_histogram = Some(at),
        }
        // A series may be long; that there is one is known by its first sample.
        if self.ends_here() { self.end_series() } else { Ok(()) }
    }

    /// Whether one series is all that is wanted, of an answer that is known to be a success.
    fn ends_here(&self) -> bool {
        self.extent == Extent::First && self.success == Some(true)
    }

    fn end_series(&mut self) -> Result<(), Stop> {
        let (kind, value) = match self.series {
            Series { value: Some(value), last: None, last_histogram: None, .. } => (Kind::Vector, value),
            Series { value: None, histogram: true, last: None, last_histogram: None } => {
                (Kind::Vector, f64::NAN)
            }
            Series { value: None, histogram: false, last: Some((at, _)), last_histogram: Some(later) }
                if later > at =>
            {
                (Kind::Matrix, f64::NAN)
            }
            Series { value: None, histogram: false, last: Some((_, value)), .. } => (Kind::Matrix, value),
            Series { value: None, histogram: false, last: None, last_histogram: Some(_) } => {
                (Kind::Matrix, f64::NAN)
            }
            _ => return Err(Stop::Malformed("it holds a series without a value")),
        };
        if self.of.is_some_and(|before| before != kind) {
            return Err(SHAPE);
        }
        self.of = Some(kind);
        if self.values.len() < MAX_SERIES {
            self.values.push(value);
        } else if self.extent == Extent::Values {
            return Err(Stop::TooMany);
        } else {
            self.more = true;
        }
        if self.ends_here() { Err(Stop::Enough) } else { Ok(()) }
    }

    fn atom(&mut self, atom: Atom<'_>) -> Result<(), Stop> {
        match self.sections.last().copied() {
            Some(Section::Envelope) => self.of_envelope(atom),
            Some(Section::Warnings) => {
                self.warning(&text(atom)?);
                Ok(())
            }
            Some(Section::Infos) => {
                let info = text(atom)?;
                if self.infos.len() < MAX_REMARKS {
                    self.infos.push(info);
                }
                Ok(())
            }
            Some(Section::Data) => match (self.field, atom) {
                (Field::ResultType, Atom::Text(name)) => {
                    self.kind = Some(kind(name)?);
                    Ok(())
                }
                (Field::ResultType | Field::Result, _) => Err(SHAPE),
                _ => Ok(()),
            },
            Some(Section::Result) => self.element(atom),
            Some(Section::Series) => match (self.field.is_of_series(), atom) {
                (false, _) | (true, Atom::Null) => Ok(()),
                (true, _) => Err(SHAPE),
            },
            Some(Section::Pair(sample)) => self.half_of_pair(sample, atom),
            Some(Section::Pairs(_)) | None => Err(SHAPE),
            Some(Section::Skipped) => Ok(()),
        }
    }

    fn of_envelope(&mut self, atom: Atom<'_>) -> Result<(), Stop> {
        match (self.field, atom) {
            (Field::Status, Atom::Text(status)) => {
                let success = match status.raw() {
                    b"success" => true,
                    b"error" => false,
                    _ => return Err(SHAPE),
                };
                self.success = Some(success && self.success != Some(false));
                Ok(())
            }
            (Field::IsPartial, Atom::Bool(partial)) => {
                self.partial |= partial;
                Ok(())
            }
            (Field::ErrorType, Atom::Text(text)) => {
                self.error_type = text.decode();
                Ok(())
            }
            (Field::Error, Atom::Text(text)) => {
                self.error = text.decode();
                Ok(())
            }
            (Field::Status, _) => Err(SHAPE),
            (field, Atom::Null) if field.is_of_envelope() => Ok(()),
            (field, _) if field.is_of_envelope() => Err(SHAPE),
            _ => Ok(()),
        }
    }

    /// Keeps the weightiest: those that matter are never the ones that are dropped.
    fn warning(&mut self, warning: &str) {
        let weight = Weight::of(warning);
        let place = self.warnings.iter().position(|kept| Weight::of(kept) < weight);
        self.warnings.insert(place.unwrap_or(self.warnings.len()), warning.to_owned());
        self.warnings.truncate(MAX_REMARKS);
    }

    /// An element of a result that is a time and a value, or a time and a text.
    fn element(&mut self, atom: Atom<'_>) -> Result<(), Stop> {
        match (self.scalars, atom) {
            _ if self.of.is_some() => return Err(SHAPE),
            (0, _) => {}
            (1, Atom::Text(text)) => self.scalar = text.decode().ok_or(SHAPE)?,
            _ => return Err(SHAPE),
        }
        self.scalars += 1;
        Ok(())
    }

    fn half_of_pair(&mut self, sample: Sample, atom: Atom<'_>) -> Result<(), Stop> {
        match (self.pair.length, sample, atom) {
            (0, _, Atom::Number(at)) => self.pair.at = at,
            (0, Sample::Instant, _) => {}
            (1, Sample::Instant | Sample::Range, Atom::Text(text)) => {
                self.pair.value = text.decode().and_then(|text| text.parse().ok()).ok_or(SHAPE)?;
            }
            _ => return Err(SHAPE),
        }
        self.pair.length += 1;
        Ok(())
    }

    fn answer(self, code: u16, more: bool) -> Result<Answer, QueryError> {
        match self.success {
            None => return Err(refused(SHAPE)),
            Some(false) => {
                let start = format!("the server answered {code} with an error");
                let said = reason([self.error_type, self.error]);
                let message = if said.is_empty() { start } else { format!("{start}: {said}") };
                return Err(QueryError::Failed(message));
            }
            Some(true) if self.depth == Depth::Envelope => {
                return Err(QueryError::Failed("the answer holds no data field".to_owned()));
            }
            Some(true) => {}
        }
        let lists =
            |kind| self.depth == Depth::Result && self.scalars == 0 && self.of.is_none_or(|of| of == kind);
        let data = match self.kind {
            // Enough may have come before the name of its kind.
            None if more => Data::Series(self.values),
            Some(kind @ (Kind::Vector | Kind::Matrix)) if lists(kind) => Data::Series(self.values),
            Some(Kind::Scalar) if self.scalars == 2 => {
                Data::Scalar(self.scalar.parse().map_err(|_| refused(SHAPE))?)
            }
            Some(Kind::String) if self.scalars == 2 => Data::Text(self.scalar),
            _ => return Err(refused(SHAPE)),
        };
        let (partial, warnings, infos) = (self.partial, self.warnings, self.infos);
        Ok(Answer { data, more: more || self.more, partial, warnings, infos })
    }
}

fn kind(name: Text<'_>) -> Result<Kind, Stop> {
    match name.raw() {
        b"vector" => Ok(Kind::Vector),
        b"matrix" => Ok(Kind::Matrix),
        b"scalar" => Ok(Kind::Scalar),
        b"string" => Ok(Kind::String),
        _ => Err(SHAPE),
    }
}

fn text(atom: Atom<'_>) -> Result<String, Stop> {
    match atom {
        Atom::Text(text) => text.decode().ok_or(SHAPE),
        _ => Err(SHAPE),
    }
}

#[cfg(test)]
#[path = "reading_tests.rs"]
mod reading_tests;
