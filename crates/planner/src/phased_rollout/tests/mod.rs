//! Scenarios of phased rollouts. Names that begin with `b_a` carry the section and the row of the behaviour catalogue
//! that they come from.

mod cluster;
mod invariants;
mod native;
mod operate;
mod random;
mod smoke;
