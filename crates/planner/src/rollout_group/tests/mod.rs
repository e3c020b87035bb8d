//! Scenarios of rollout groups. Names that begin with `e_r` carry the id of the behaviour catalogue they come
//! from, and names that begin with `e_g` that of a hole in the behaviour we took over.

mod bad_input;
mod broken;
mod cluster;
mod denied;
mod holes;
mod invariants;
mod random;
mod scenarios;
mod simulator;
mod telling;
mod unconfirmed;
