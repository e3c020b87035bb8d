//! The stage of the StatefulSet controller: the same script under Kubernetes' own one and under ours.
//!
//! ```text
//!   script ──> Act ──> dyn Cluster ──> one API server, hollow nodes, all other controllers
//!               │  the user's hands      t-<script>: kube-controller-manager    o-<script>: ours
//!               ├─ Trace: one watch; which pods came and went, in which order, and how often
//!               └─ Picture: everything there is, once it has settled, without what is never the same twice
//!                     └─ compare: theirs against ours, step by step; what may differ is one table
//! ```
//!
//! A script is a list of named steps: edits of a user or faults of pods, and then what it looks like when nothing moves
//! any more. First all scripts are played under theirs, then theirs is stopped and each is played under ours, held
//! against what theirs has done. `STS_PLUS_RIVAL=theirs` plays theirs twice instead: what differs then is a fault
//! of the comparison.
//!
//! Scenarios of the behaviour catalogue that need a real API server are played under ours alone, in [`ids`].
//!
//! Beside the scripts there are trials of ours alone ([`trials`]): it takes over from theirs and hands back in the middle of
//! rollouts, and is killed at every write.

pub mod act;
pub mod bout;
pub mod compare;
pub mod events;
pub mod expect;
pub mod ids;
pub mod manifest;
pub mod ours;
pub mod picture;
pub mod scripts;
pub mod trace;
pub mod trials;

pub use act::Act;
pub use expect::pods;
pub use manifest::Set;
