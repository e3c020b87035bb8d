//! The stage of phased rollouts: sets whose rolling update waits at gates, and those who wait for them.
//!
//! ```text
//!   scenario ──> Gated ──> dyn Cluster
//!                  ├─ Set, Rollout: what the user writes (`manifest`)
//!                  ├─ Answers: a Prometheus that says what the scenario wants
//!                  ├─ Operator: the one under test, with the chart's permissions and no more
//!                  └─ Observer<Seen>: sets, pods and PhasedRollouts, the guarantees checked after every event
//! ```

pub mod answers;
pub mod manifest;
pub mod scenarios;
pub mod seen;
pub(crate) mod stage;
pub mod trials;

pub use answers::{Answers, Says};
pub use manifest::{Rollout, Set};
pub use seen::Seen;
pub use stage::Gated;
