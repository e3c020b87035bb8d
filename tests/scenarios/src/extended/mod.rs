//! The stage of ExtendedStatefulSets, and their scenarios: both groups, each strategy, zones, configuration, the active pod.
//!
//! ```text
//!   scenario ──> Extended ──> dyn Cluster
//!                  ├─ manifest: what the user writes
//!                  ├─ Operator: the one under test, with the chart's permissions and no more
//!                  └─ Observer<Seen>: objects, sets, pods, endpoints; `judge`: the guarantees over all that happened
//! ```

mod active;
mod claims;
mod config;
mod crash;
mod editors;
mod examples;
mod judge;
mod leaving;
mod manifest;
mod names;
mod promotion;
mod refusals;
mod scaling;
pub mod seen;
mod stage;
mod versions;
mod zones;

pub use stage::{Extended, NAME, object, objects};

use crate::repertoire::ONLY_REAL;
use crate::scenarios::Scenario;

/// Scenarios from functions of the same name.
macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        vec![$(crate::scenarios::Scenario {
            name: stringify!($name),
            place: crate::scenarios::Place::Shared,
            needs_binary: false,
            play: |cluster, name| Box::pin($name(cluster, name)),
        }),*]
    };
}
use scenarios;

/// The scenarios.
pub fn all() -> Vec<Scenario> {
    [
        active::all(),
        config::all(),
        examples::all(),
        refusals::all(),
        versions::all(),
        promotion::all(),
        zones::all(),
        scaling::all(),
        claims::all(),
        leaving::all(),
        editors::all(),
        names::all(),
    ]
    .concat()
}

/// The scenarios that are played on the embedded cluster only, as there are hundreds of runs in each or as they need its clock.
pub fn enumerations() -> Vec<Scenario> {
    [crash::all(), restarted(), config::within_a_moment()].concat()
}

/// The scenarios about creation, versions and volumes once more, with a restart of the operator between their steps.
fn restarted() -> Vec<Scenario> {
    let is_about = |topics: &[char], scenario: &Scenario| {
        let id = scenario.name.strip_prefix("d_").unwrap_or_default();
        id.starts_with(topics) && id.chars().nth(1).is_some_and(|digit| digit.is_ascii_digit())
    };
    let is_only_real = |scenario: &Scenario| ONLY_REAL.iter().any(|(name, _)| *name == scenario.name);
    let named = all().into_iter().filter(|scenario| is_about(&['c', 'v', 's'], scenario));
    named
        .filter(|scenario| !is_only_real(scenario))
        .map(|scenario| Scenario {
            // There is one of each for as long as the tests run.
            name: format!("{}{}", scenario.name, stage::RESTARTED).leak(),
            ..scenario
        })
        .collect()
}
