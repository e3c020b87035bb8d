//! The paths of the admission server, and what decides about the requests that arrive there.

use sts_plus_planner::admission::{Decide, claims};

/// A path and its decision.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// As webhook configurations name it.
    pub path: &'static str,
    pub decide: Decide,
}

/// Every path that is answered.
pub const PATHS: &[Row] = &[Row { path: "/stable-claims", decide: claims::decide }];
