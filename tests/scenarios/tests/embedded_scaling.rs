//! The scenarios of ScalingPolicies on embedded clusters: everything in this process, under a paused clock.

use std::process::ExitCode;

use sts_plus_scenarios::{repertoire, theatre};

fn main() -> ExitCode {
    theatre::play_embedded(&repertoire::scaling(repertoire::Kind::Embedded))
}
