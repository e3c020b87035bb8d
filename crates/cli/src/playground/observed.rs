//! What the playground has observed: the rows of the operator's cache, and what only the playground needs beside them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use sts_plus_api::extended::Group;
use sts_plus_operator::view::{Location, Snapshot, View};
use sts_plus_planner::pod::PodRow;

use super::commands::NAMESPACE;
use super::commands_extended::CONFIG;
use super::ingester::STORAGE;
use super::metrics;
use super::objects::{ConfigMap, Event, Name, Node, Object, Scheduled};
use super::template::Template;

/// Reasons that are kept: more than any screen has lines.
const MAX_REASONS: usize = 200;

/// A reason that was reported, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reason {
    pub(super) at: Timestamp,
    pub(super) text: String,
}

/// The state of the cluster as far as it is shown.
#[derive(Debug, Default)]
pub(super) struct Observed {
    snapshot: Snapshot,
    /// What [`Observed::refresh`] has last made of the rows.
    pub(super) view: View,
    /// The templates of sets.
    pub(super) templates: BTreeMap<Name, Arc<Template>>,
    nodes: BTreeMap<Name, Node>,
    /// The nodes of pods. The rows of the operator do not hold them: every pod of every cluster would pay for a field that
    /// no decision reads. So the playground, whose clusters are small, follows pods once more for this field alone.
    scheduled: BTreeMap<Name, Scheduled>,
    /// The templates of the ExtendedStatefulSets of our own group.
    pub(super) extended: BTreeMap<Name, Template>,
    /// The playground's metrics.
    pub(super) metrics: BTreeMap<String, String>,
    /// The data of the ConfigMap that the keys of the demo change.
    pub(super) config: BTreeMap<String, String>,
    /// The last ones, the latest last.
    pub(super) reasons: VecDeque<Reason>,
    /// How many reasons there have been, those included that are no longer kept.
    pub(super) reason_count: usize,
}

/// What has changed.
#[derive(Debug)]
pub(super) enum Change {
    /// Sets, pods, revisions or PhasedRollouts.
    Rows {
        snapshot: Snapshot,
        templates: BTreeMap<Name, Arc<Template>>,
    },
    Nodes(Seen<Node>),
    Scheduled(Seen<Scheduled>),
    ConfigMaps(Seen<ConfigMap>),
    Events(Seen<Event>),
}

/// What a watch has delivered.
#[derive(Debug)]
pub(super) enum Seen<O> {
    Object(O),
    Deleted(Name),
    /// The end of a list, which had these names and no others.
    Listed(BTreeSet<Name>),
}

impl Observed {
    /// Takes a change in. `now` is the time of a reason that has none of its own.
    pub(super) fn take(&mut self, change: Change, now: Timestamp) {
        match change {
            Change::Rows { snapshot, templates } => {
                (self.snapshot, self.templates) = (snapshot, templates);
                self.extended = self.extended_templates();
                self.refresh(now);
            }
            Change::Nodes(seen) => take(&mut self.nodes, seen),
            Change::Scheduled(seen) => take(&mut self.scheduled, seen),
            Change::ConfigMaps(Seen::Object(map)) if map.name() == metrics::config_map() => {
                self.metrics = map.data;
            }
            Change::ConfigMaps(Seen::Deleted(name)) if name == metrics::config_map() => self.metrics.clear(),
            Change::ConfigMaps(Seen::Object(map)) if is_config(&map.name()) => self.config = map.data,
            Change::ConfigMaps(Seen::Deleted(name)) if is_config(&name) => self.config.clear(),
            Change::Events(Seen::Object(event)) if event.is_reason() && !self.is_repetition(&event) => {
                self.report(event.at().unwrap_or(now), event.text());
            }
            Change::ConfigMaps(_) | Change::Events(_) => {}
        }
    }

    /// Makes the view of what was taken in so far, at this moment.
    pub(super) fn refresh(&mut self, now: Timestamp) {
        self.view = View::of(&self.snapshot, |pod| self.location(pod), now);
    }

    fn extended_templates(&self) -> BTreeMap<Name, Template> {
        let own = self.snapshot.extended().filter(|row| row.group == Group::StsPlus);
        let read = own.filter_map(|row| {
            let template = Template::of(&row.spec.as_ref().ok()?.template());
            Some(((row.namespace.to_string(), row.name.to_string()), template))
        });
        read.collect()
    }

    /// The names of the pods of a namespace whose annotation sets their answers to HTTP requests.
    pub(super) fn pods_with_answers(&self, namespace: &str) -> Vec<String> {
        let told = self.scheduled.iter().filter(|((place, _), pod)| place == namespace && pod.has_answers());
        told.map(|((_, name), _)| name.clone()).collect()
    }

    /// Where a pod runs. A pod of the same name that was there before it may still be the one in `scheduled`.
    fn location(&self, pod: &PodRow) -> Option<Location> {
        let scheduled = self.scheduled.get(&(pod.namespace.to_string(), pod.name.to_string()))?;
        let node = scheduled.node_of(&pod.uid)?;
        let zone = self.nodes.get(&(String::new(), node.to_owned())).and_then(Node::zone);
        Some(Location { node: node.to_owned(), zone: zone.map(str::to_owned) })
    }

    /// Whether an event is about a set with a PhasedRollout, or about one in no group with a ScalingPolicy: those have every
    /// event of their set as well.
    fn is_repetition(&self, event: &Event) -> bool {
        event.set().is_some_and(|(namespace, name)| {
            let (view, set) = (&self.view, (&namespace, &name));
            let is_lone = || view.sets.iter().any(|lone| (&lone.namespace, &lone.set.name) == set);
            view.rollouts.iter().any(|rollout| (&rollout.namespace, &rollout.target) == set)
                || (view.scaling.iter().any(|policy| (&policy.namespace, &policy.target) == set) && is_lone())
        })
    }

    /// Keeps a reason, unless it was reported already.
    pub(super) fn report(&mut self, at: Timestamp, text: String) {
        let reason = Reason { at, text };
        if self.reasons.contains(&reason) {
            return;
        }
        if self.reasons.len() >= MAX_REASONS {
            self.reasons.pop_front();
        }
        self.reasons.push_back(reason);
        self.reason_count += 1;
    }

    /// The zones that nodes are in.
    pub(super) fn zones(&self) -> Vec<&str> {
        let zones: BTreeSet<_> = self.nodes.values().filter_map(Node::zone).collect();
        zones.into_iter().collect()
    }

    pub(super) fn template(&self, namespace: &str, set: &str) -> Option<&Template> {
        self.templates.get(&(namespace.to_owned(), set.to_owned())).map(|template| &**template)
    }
}

fn is_config((namespace, name): &Name) -> bool {
    namespace == NAMESPACE && [CONFIG, STORAGE].contains(&&**name)
}

fn take<O: Object>(objects: &mut BTreeMap<Name, O>, seen: Seen<O>) {
    match seen {
        Seen::Object(object) => {
            objects.insert(object.name(), object);
        }
        Seen::Deleted(name) => {
            objects.remove(&name);
        }
        Seen::Listed(names) => objects.retain(|name, _| names.contains(name)),
    }
}

#[cfg(test)]
#[path = "observed_tests.rs"]
mod tests;
