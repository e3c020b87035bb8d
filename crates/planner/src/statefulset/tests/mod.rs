//! Scenarios of the StatefulSet controller. Names that begin with `c_` carry the id of the behaviour catalogue they come
//! from.

mod budget;
mod claiming_rows;
mod cluster;
mod decode;
mod drive;
mod history_rows;
mod invariants;
mod limits;
mod operate;
mod pod_rows;
mod scaling;
mod server;
mod updating;
mod utility_rows;
