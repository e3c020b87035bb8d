//! Init containers of the workloads of a run. All of them end well, and some have to run again: a pod that has got over
//! them is none the worse for it.

use serde_json::{Value, json};
use sts_plus_cluster::nodes::behaviour;

use crate::cast::{GATED, PLAIN, TWIN};
use crate::dice::Dice;

/// So many of a thousand seeds have init containers.
const SHARE: u64 = 300;
/// How often they run.
const RUNS: [u64; 4] = [1, 4, 4, 6];
/// How long each run takes.
const TAKES: &str = "50ms..700ms";
/// What a template says about them.
const ANNOTATIONS: [&str; 2] = [behaviour::INIT_RUNS, behaviour::INIT_DELAY];

/// Gives init containers to the pods of some workloads of a seed. They are drawn from numbers of their own, so that the
/// seeds without them stay what they are.
pub fn add_to(sets: &mut [Value], seed: u64) {
    let dice = Dice::new(seed, "init containers");
    if !dice.happens(SHARE) {
        return;
    }
    let (which, runs) = (dice.among(1, 7), dice.pick(&RUNS).copied().unwrap_or(1));
    for set in sets {
        let workload = match set["metadata"]["name"].as_str() {
            Some(GATED | TWIN) => 2,
            Some(PLAIN) => 4,
            _ => 1,
        };
        if which & workload != 0 {
            let template = &mut set["spec"]["template"];
            template["spec"]["initContainers"] = json!([{ "name": "prepare", "image": "prepare:1" }]);
            template["metadata"]["annotations"][behaviour::INIT_RUNS] = runs.to_string().into();
            template["metadata"]["annotations"][behaviour::INIT_DELAY] = TAKES.into();
        }
    }
}

/// Whether any set has them.
pub fn is_in(sets: &[Value]) -> bool {
    sets.iter().any(|set| !set["spec"]["template"]["spec"]["initContainers"].is_null())
}

/// Takes them away again.
pub fn remove_from(sets: &mut [Value]) {
    for set in sets {
        let template = &mut set["spec"]["template"];
        if let Some(spec) = template["spec"].as_object_mut() {
            spec.remove("initContainers");
        }
        if let Some(annotations) = template["metadata"]["annotations"].as_object_mut() {
            annotations.retain(|key, _| !ANNOTATIONS.contains(&key.as_str()));
        }
    }
}

/// Gives a template the init containers of another one.
pub fn copy(from: &Value, to: &mut Value) {
    let init = &from["spec"]["initContainers"];
    if !init.is_null() {
        to["spec"]["initContainers"] = init.clone();
        for key in ANNOTATIONS {
            to["metadata"]["annotations"][key] = from["metadata"]["annotations"][key].clone();
        }
    }
}
