//! Scenarios of the catalogue by number, the edges of each step, and random histories.

mod catalogue;
mod cluster;
mod edges;
mod foreign;
mod joins;
mod lock;
mod operate;
mod random;
mod releases;
mod sizes;
mod spec;
