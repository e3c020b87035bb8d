//! What only ours has to show.

use crate::scenarios::Scenario;

mod bad_input;
mod crash;
mod handover;

/// Every trial, the long ones first, so that none is left alone at the end.
pub fn all() -> Vec<Scenario> {
    [crash::all(), handover::all(), bad_input::all()].concat()
}
