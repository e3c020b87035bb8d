//! ExtendedStatefulSets in a run: the objects, their users, what must never happen to them, and where they must end.

pub mod cast;
pub mod goal;
pub mod people;
pub mod rules;
pub mod state;
mod watch;
