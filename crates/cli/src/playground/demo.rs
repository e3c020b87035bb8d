//! The workloads of `examples/playground/`, and what a demo does by itself when it starts.

use std::collections::VecDeque;

use anyhow::{Context, Result};
use clap::ValueEnum;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use serde_json::Value;
use sts_plus_api::conditions::Truth;
use sts_plus_operator::view::PodState;

use super::cluster::apply;
use super::commands::Key;
use super::observed::Observed;

/// Which workloads to start with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Demo {
    /// A rollout group of three zones and a set with a PhasedRollout
    #[default]
    Rollouts,
    /// Two ExtendedStatefulSets: in place with an active pod, and blue/green
    Extended,
    /// A set whose pods flush before they are removed, with a ScalingPolicy
    Scaling,
}

/// As `kubectl apply -f examples/playground/` would read them.
const ROLLOUTS: [(&str, &str); 2] = [
    ("gated.yaml", include_str!("../../../../examples/playground/gated.yaml")),
    ("store.yaml", include_str!("../../../../examples/playground/store.yaml")),
];

/// As `kubectl apply -f examples/playground/extended/` would read them.
const EXTENDED: [(&str, &str); 2] = [
    ("extended/db.yaml", include_str!("../../../../examples/playground/extended/db.yaml")),
    ("extended/web.yaml", include_str!("../../../../examples/playground/extended/web.yaml")),
];

/// As `kubectl apply -f examples/playground/scaling/` would read it.
const SCALING: [(&str, &str); 1] =
    [("scaling/ingester.yaml", include_str!("../../../../examples/playground/scaling/ingester.yaml"))];

impl Demo {
    fn manifests(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Rollouts => &ROLLOUTS,
            Self::Extended => &EXTENDED,
            Self::Scaling => &SCALING,
        }
    }

    /// The ConfigMap that records that the workloads were applied: those that were deleted since are not applied again.
    fn record(self) -> (&'static str, &'static str) {
        match self {
            Self::Rollouts => ("kube-system", "playground-demo"),
            Self::Extended => ("kube-system", "playground-demo-extended"),
            Self::Scaling => ("kube-system", "playground-demo-scaling"),
        }
    }

    /// How many pods the workloads have, those with a ScalingPolicy at first.
    fn pods(self) -> usize {
        match self {
            Self::Rollouts => 12,
            Self::Extended => 8,
            Self::Scaling => 3,
        }
    }

    /// How many of the workloads have an active pod.
    fn active_pods(self) -> usize {
        match self {
            Self::Rollouts | Self::Scaling => 0,
            Self::Extended => 1,
        }
    }

    /// Applies the workloads, unless they were applied before. Returns whether it has applied them.
    pub(super) async fn apply_once(self, client: &kube::Client) -> Result<bool> {
        let (namespace, name) = self.record();
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
        let records = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &resource);
        if records.get_opt(name).await.context("cannot read whether the workloads were applied")?.is_some() {
            return Ok(false);
        }
        for object in self.objects()? {
            apply(client, &object).await?;
        }
        let created = records.create(&PostParams::default(), &DynamicObject::new(name, &resource)).await;
        created.context("cannot record that the workloads were applied")?;
        Ok(true)
    }

    fn objects(self) -> Result<Vec<Value>> {
        let mut objects = Vec::new();
        for (file, text) in self.manifests() {
            let documents: Vec<Value> = serde_saphyr::from_multiple(text)
                .with_context(|| format!("examples/playground/{file} is not valid YAML"))?;
            objects.extend(documents);
        }
        Ok(objects)
    }

    /// Whether all pods of the workloads are Ready, every version is promoted, and the active pods are known.
    fn is_ready(self, observed: &Observed) -> bool {
        let pods: Vec<_> = observed.view.all_sets().flat_map(|(_, set)| &set.pod_states).collect();
        let extended = &observed.view.extended;
        let is_settled = extended.iter().all(|extended| {
            let ready = extended.ready().is_some_and(|ready| ready.status == Truth::True);
            ready && extended.observed && extended.status.current_version == extended.status.update_version
        });
        // A policy that has a status says itself how many pods there are to be.
        let scaling = &observed.view.scaling;
        let is_scaled = scaling.iter().all(|policy| {
            let ready = policy.ready().is_some_and(|ready| ready.status == Truth::True);
            let wanted = policy.status.desired_replicas.and_then(|wanted| usize::try_from(wanted).ok());
            ready && policy.observed && wanted.is_some_and(|wanted| pods.len() == wanted)
        });
        let is_there = if self == Self::Scaling { !scaling.is_empty() } else { pods.len() >= self.pods() };
        is_there
            && is_scaled
            && pods.iter().all(|pod| pod.state == PodState::Ready)
            && is_settled
            && extended.iter().filter(|extended| extended.status.active_pod.is_some()).count()
                >= self.active_pods()
    }
}

/// The keys that a demo presses by itself when it starts, each after the effect of the one before is complete.
#[derive(Debug)]
pub(super) struct Opening {
    demo: Demo,
    keys: VecDeque<Key>,
    /// The milestone at which the last of them was pressed.
    pressed_at: Option<Milestone>,
}

/// What the effect of a key changes: the version of each object, and the active pods; of a policy, how many pods there are.
type Milestone = Vec<(Option<u32>, Option<String>)>;

impl Opening {
    pub(super) fn of(demo: Demo) -> Self {
        let keys: &[Key] = match demo {
            Demo::Rollouts => &[Key::NextRollout],
            Demo::Extended => {
                &[Key::NextVersion, Key::ChangeConfig, Key::FailOrRestoreActive, Key::FailOrRestoreActive]
            }
            Demo::Scaling => &[Key::ScaleDown, Key::ScaleUp],
        };
        Self { demo, keys: keys.iter().copied().collect(), pressed_at: None }
    }

    /// Nothing is pressed: the workloads were there before.
    pub(super) fn none() -> Self {
        Self { demo: Demo::default(), keys: VecDeque::new(), pressed_at: None }
    }

    /// The key whose time has come.
    pub(super) fn next(&mut self, observed: &Observed) -> Option<Key> {
        if self.keys.is_empty() || !self.demo.is_ready(observed) {
            return None;
        }
        let reached = observed.view.extended.iter().map(|extended| {
            let active = extended.status.active_pod.as_ref().map(|pod| pod.uid.clone());
            (extended.status.current_version, active)
        });
        let scaled = observed.view.scaling.iter().map(|policy| (policy.status.replicas, None));
        let reached: Milestone = reached.chain(scaled).collect();
        if self.pressed_at.as_ref() == Some(&reached) {
            return None;
        }
        self.pressed_at = Some(reached);
        self.keys.pop_front()
    }

    /// Leaves the rest to the user, who has pressed a key.
    pub(super) fn end(&mut self) {
        if self.pressed_at.is_some() {
            self.keys.clear();
        }
    }
}

#[cfg(test)]
#[path = "demo_tests.rs"]
mod tests;
