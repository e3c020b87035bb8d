//! What came back from a query, before anybody judges it.

/// An answer in the form of the API. Whether it can be believed is for [`judge`](super::judge::judge) to say.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The result.
    pub data: Data,
    /// Whether there may be more series than these: what has decided is not read to its end.
    pub more: bool,
    /// Whether the server says that it could not read all of the data (`isPartial`).
    pub partial: bool,
    /// What the server warned of, the weightiest first.
    pub warnings: Vec<String>,
    /// What the server remarked.
    pub infos: Vec<String>,
}

impl Answer {
    /// An answer without remarks of the server.
    pub fn new(data: Data) -> Self {
        Self { data, more: false, partial: false, warnings: Vec::new(), infos: Vec::new() }
    }
}

/// How much of an answer a verdict needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Whether there is a series at all: reading stops at the first.
    First,
    /// Whether there is a series at all, and what the server remarks about the answer, which comes at its end.
    Presence,
    /// All values: an answer that has too many is an error.
    Values,
}

/// How much a warning bears on the answer that carries it, ascending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// A remark about the expression: Prometheus before 3.0 sends them among the warnings.
    Info,
    /// The evaluation left something out, such as a histogram among floats.
    Evaluation,
    /// Anything else: a store that was not reached, a result that was cut.
    Incomplete,
}

impl Weight {
    /// The weight of a warning. Prometheus begins the texts of its own evaluation with these words; nobody promises
    /// anything about other texts.
    pub fn of(warning: &str) -> Self {
        if warning.starts_with("PromQL info:") {
            Self::Info
        } else if warning.starts_with("PromQL warning:") {
            Self::Evaluation
        } else {
            Self::Incomplete
        }
    }
}

/// The result of an instant query.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// The value of each series; of a range, its last one. A series without a plain value, such as a native
    /// histogram, has NaN.
    Series(Vec<f64>),
    /// One number that belongs to no series.
    Scalar(f64),
    Text(String),
}

/// Why there is no usable answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryError {
    /// What the user wrote, or a Secret it names, has to change first.
    Config(String),
    /// The server has read the query and refuses it: asking again will not help.
    Rejected {
        /// The HTTP status, 400 or 422.
        code: u16,
        /// What the server said.
        message: String,
    },
    /// It may work the next time.
    Failed(String),
}
