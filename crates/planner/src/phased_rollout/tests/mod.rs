//! Scenarios of phased rollouts. Names that begin with `b_a` carry the section and the row of the behaviour catalogue
//! that they come from.

mod approvals;
mod asking;
mod catalogue;
mod cluster;
mod deadlines;
mod denied;
mod edges;
mod failing;
mod frozen;
mod gates;
mod invariants;
mod listed;
mod marks;
mod more_edges;
mod native;
mod operate;
mod orphans;
mod peer;
mod random;
mod states;
mod two_zones;
mod unconfirmed;
