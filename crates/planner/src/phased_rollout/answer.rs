//! What came back from a query, before anybody judges it.

/// A usable answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The result.
    pub data: Data,
    /// What the server warned of.
    pub warnings: Vec<String>,
}

/// The result of an instant query.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// The value of each series; of a range, its last one. A series without a plain value, such as a native
    /// histogram, has NaN.
    Series(Vec<f64>),
    /// One number that belongs to no series.
    Scalar(f64),
    /// A text.
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
