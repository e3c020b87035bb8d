//! Commands to try in another terminal.

use std::path::Path;

use super::demo::Demo;

/// With a rollout group and a PhasedRollout.
const ROLLOUTS: [&str; 3] = [
    "kubectl get pods -o wide",
    "kubectl describe phasedrollout gated",
    "kubectl scale statefulset store-zone-b --replicas=4",
];

/// With ExtendedStatefulSets.
const EXTENDED: [&str; 3] =
    ["kubectl get ests,statefulsets,pods", "kubectl describe ests web", "kubectl scale ests db --replicas=3"];

/// With a ScalingPolicy.
const SCALING: [&str; 3] = [
    "kubectl get scp,statefulsets,pods",
    "kubectl describe scp ingester",
    "kubectl scale scp ingester --replicas=4",
];

/// Without workloads, in the root of a checkout.
const WITHOUT: [&str; 3] =
    ["kubectl get nodes", "kubectl api-resources", "kubectl apply --server-side -f examples/playground"];

/// Three commands and the kubeconfig for them.
pub(super) struct Guide {
    setting: String,
    commands: [&'static str; 3],
}

impl Guide {
    pub(super) fn new(kubeconfig: &Path, demo: Option<Demo>) -> Self {
        let setting = format!("KUBECONFIG={}", quoted(&kubeconfig.to_string_lossy()));
        let commands = match demo {
            Some(Demo::Rollouts) => ROLLOUTS,
            Some(Demo::Extended) => EXTENDED,
            Some(Demo::Scaling) => SCALING,
            None => WITHOUT,
        };
        Self { setting, commands }
    }

    /// For a screen: the setting, then the commands.
    pub(super) fn short(&self) -> Vec<String> {
        let setting = format!("export {}", self.setting);
        std::iter::once(setting).chain(self.commands.map(str::to_owned)).collect()
    }

    /// Each command with the setting in front of it.
    pub(super) fn long(&self) -> impl Iterator<Item = String> {
        self.commands.iter().map(|command| format!("{} {command}", self.setting))
    }
}

/// A word quoted for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+,:@%".contains(letter);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
#[path = "guide_tests.rs"]
mod tests;
