//! Scenarios of the StatefulSet controller. Names that begin with `c_` carry the id of the behaviour catalogue they come
//! from.

mod cluster;
mod decode;
mod drive;
mod history_rows;
mod invariants;
mod operate;
mod scaling;
mod server;
