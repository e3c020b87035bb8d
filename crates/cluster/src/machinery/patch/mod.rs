//! The three patches: JSON patch (RFC 6902), merge patch (RFC 7396) and Kubernetes' strategic merge patch.

mod json;
mod merge;
mod strategic;

pub use json::{MAX_OPERATIONS, json, unknown_fields};
pub use merge::merge;
pub use strategic::strategic;

#[cfg(test)]
#[path = "laws_tests.rs"]
mod laws;

/// Why a patch did not come about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// It is no patch of its kind; Kubernetes answers 400.
    #[error("{0}")]
    Malformed(String),
    /// It has so many operations; Kubernetes answers 413.
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}")]
    TooLarge(usize),
    /// It does not fit the object; Kubernetes answers 422.
    #[error("{0}")]
    Inapplicable(String),
    /// It contradicts itself or the kind; Kubernetes answers 500.
    #[error("{0}")]
    Unsupported(String),
}
