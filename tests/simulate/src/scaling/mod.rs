//! ScalingPolicies in a run: the sets and their policies, the applications in the pods, their users, what must never happen,
//! and where they must end.

pub mod apps;
pub mod cast;
pub mod goal;
pub mod locks;
pub mod people;
pub mod records;
pub mod state;
mod watch;
