//! What is shown, arranged by workload and zone: drawn by [`super::draw`], reported line by line by [`super::lines`].

use std::collections::BTreeMap;

use jiff::Timestamp;
use sts_plus_api::scaling_policy::PodRecord;
use sts_plus_operator::view::{ChildSet, Extended, Phase, Pod, PodState, Rollout, Scaling, Set};

use crate::{table_extended, table_scaling};

use super::demo::Demo;
use super::observed::{Observed, Reason};

/// Characters of a revision that are shown: enough to tell one from the next.
const REVISION_CHARACTERS: usize = 4;

/// All that is shown at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// The address of the API server.
    pub(super) address: String,
    /// The zones, a column each.
    pub(super) zones: Vec<String>,
    /// Groups, ExtendedStatefulSets, gated sets, others.
    pub(super) workloads: Vec<Workload>,
    /// Why rollouts go on or wait, the latest last.
    pub(super) reasons: Vec<Reason>,
    /// How many reasons there have been, those included that are no longer kept.
    pub(super) reason_count: usize,
    /// The playground's metrics and configuration: `errors_per_second 0`.
    pub(super) metrics: Vec<String>,
    /// Commands to try in another terminal, the setting of the environment first.
    pub(super) tries: Vec<String>,
    /// Whose keys there are.
    pub(super) demo: Demo,
    /// The command that does the same as the last key, or why the key did nothing.
    pub(super) last: Option<String>,
}

/// Sets that are rolled together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Workload {
    /// Its kind and name: `GROUP store`.
    pub(super) title: String,
    /// What its sets wait for.
    pub(super) messages: Vec<String>,
    /// Its pods in each zone.
    pub(super) columns: Vec<Column>,
    /// Pods that are in no zone yet.
    pub(super) unplaced: Vec<Cell>,
}

/// The pods of a workload in a zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) strips: Vec<Strip>,
}

/// The pods of a set in a zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Strip {
    /// The set's name.
    pub(super) set: String,
    /// The state of its rollout; empty for a set in no group.
    pub(super) state: String,
    pub(super) cells: Vec<Cell>,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) pod: String,
    pub(super) ordinal: String,
    pub(super) revision: String,
    pub(super) outdated: bool,
    pub(super) state: PodState,
    /// The state in one word or two.
    pub(super) word: String,
}

impl Cell {
    fn new(pod: &Pod, namespace: &str) -> Self {
        let revision = pod.revision.as_deref().unwrap_or_default();
        let hash = revision.rsplit('-').next().unwrap_or_default();
        Self {
            pod: match namespace {
                "default" => pod.name.clone(),
                namespace => format!("{namespace}/{}", pod.name),
            },
            ordinal: pod.ordinal.map_or_else(|| pod.name.clone(), |ordinal| ordinal.to_string()),
            revision: hash.chars().take(REVISION_CHARACTERS).collect(),
            outdated: pod.outdated,
            state: pod.state,
            word: word(pod).to_owned(),
        }
    }

    /// Tells states apart without colour.
    pub(super) fn mark(&self) -> &'static str {
        match self.state {
            PodState::Ready => "●",
            PodState::NotReady | PodState::Settling => "○",
            PodState::Terminating => "◌",
            PodState::Leaving => "◐",
            PodState::Broken => "✗",
        }
    }

    /// Which of the revisions of its set it has.
    pub(super) fn age(&self) -> &'static str {
        if self.outdated { "outdated" } else { "update" }
    }
}

fn word(pod: &Pod) -> &str {
    match pod.state {
        PodState::Ready => "ready",
        PodState::Settling => "settling",
        PodState::Terminating => "terminating",
        PodState::Leaving => "leaving",
        PodState::Broken => pod.reason.as_deref().unwrap_or("broken"),
        PodState::NotReady if pod.phase != Phase::Pending => "not ready",
        PodState::NotReady if pod.location.is_some() => "starting",
        PodState::NotReady => "not scheduled",
    }
}

impl Layout {
    /// Arranges what is observed.
    pub(super) fn new(observed: &Observed) -> Self {
        let (view, zones) = (&observed.view, observed.zones());
        let arrange = |title, messages, namespace: &str, sets: &[Shown<'_>]| {
            workload(observed, &zones, (title, messages), namespace, sets)
        };
        let policy_of = |namespace: &str, set: &str| {
            view.scaling.iter().find(|policy| policy.namespace == namespace && policy.target == set)
        };
        let groups = view.groups.iter().map(|group| {
            let policies = group.sets.iter().filter_map(|set| policy_of(&group.namespace, &set.name));
            let messages = group.sets.iter().filter_map(awaited).chain(policies.flat_map(scaling)).collect();
            let title = format!("GROUP {}{}", group.name, place(&group.namespace));
            arrange(
                title,
                messages,
                &group.namespace,
                &group
                    .sets
                    .iter()
                    .map(|set| Shown::from(set).scaled(policy_of(&group.namespace, &set.name)))
                    .collect::<Vec<_>>(),
            )
        });
        let rollout_of = |namespace: &str, name: Option<&str>| {
            view.rollouts
                .iter()
                .find(|rollout| rollout.namespace == namespace && Some(&*rollout.name) == name)
        };
        let extended = view.extended.iter().map(|extended| {
            let rollouts = extended
                .sets
                .iter()
                .filter_map(|child| rollout_of(&extended.namespace, child.phased_rollout.as_deref()));
            let (title, mut messages) = versions(extended);
            messages.extend(rollouts.filter_map(|rollout| rollout.status.message.clone()));
            let sets: Vec<_> = extended.sets.iter().map(|child| Shown::child(extended, child)).collect();
            arrange(title, messages, &extended.namespace, &sets)
        });
        let mut lone: Vec<_> = view
            .sets
            .iter()
            .map(|lone| (rollout_of(&lone.namespace, lone.phased_rollout.as_deref()), lone))
            .collect();
        lone.sort_by_key(|(rollout, _)| rollout.is_none());
        let lone = lone.into_iter().map(|(rollout, lone)| {
            let policy = policy_of(&lone.namespace, &lone.set.name);
            let (title, mut messages) = match (rollout, policy) {
                (Some(rollout), _) => gate(rollout),
                (None, Some(policy)) => (scaled(policy), Vec::new()),
                (None, None) => {
                    (format!("STATEFULSET {}{}", lone.set.name, place(&lone.namespace)), Vec::new())
                }
            };
            messages.extend(policy.into_iter().flat_map(scaling));
            arrange(title, messages, &lone.namespace, &[Shown::from(&lone.set).scaled(policy)])
        });
        Self {
            workloads: groups.chain(extended).chain(lone).collect(),
            reasons: observed.reasons.iter().cloned().collect(),
            reason_count: observed.reason_count,
            metrics: observed
                .metrics
                .iter()
                .chain(&observed.config)
                .map(|(name, value)| format!("{name} {value}"))
                .collect(),
            zones: zones.iter().copied().map(str::to_owned).collect(),
            ..Self::default()
        }
    }
}

/// The namespace in words, unless it is the default one.
fn place(namespace: &str) -> String {
    if namespace == "default" { String::new() } else { format!(" in namespace {namespace}") }
}

/// What a set of a group waits for. The message of the set whose turn it is says enough about those that wait for theirs.
fn awaited(set: &Set) -> Option<String> {
    let state = set.state.as_ref()?;
    let is_shown = !["UpToDate", "WaitingForTurn"].contains(&state.state);
    is_shown.then(|| format!("{}: {}", set.name, state.message))
}

fn gate(Rollout { namespace, name, target, status }: &Rollout) -> (String, Vec<String>) {
    let phase = status.phase.map_or("no status yet", |phase| phase.word());
    let waiting = status.waiting_for.as_ref().map(|waiting| format!(" {waiting}")).unwrap_or_default();
    let title = format!("PHASED ROLLOUT {name} of {target}{}: {phase}{waiting}", place(namespace));
    (title, status.message.clone().into_iter().collect())
}

/// A ScalingPolicy, and how many pods there are.
fn scaled(policy: &Scaling) -> String {
    let Scaling { namespace, name, target, .. } = policy;
    let state = match policy.ready() {
        None => "no status yet".to_owned(),
        Some(ready) => {
            let state = if ready.reason == table_extended::AS_REQUESTED { "Ready" } else { &*ready.reason };
            format!("{}, {state}", table_scaling::pods(policy))
        }
    };
    // As a rule both have one name, and the line of a small terminal is short.
    let of = if name == target { String::new() } else { format!(" of {target}") };
    format!("SCALING POLICY {name}{of}{}: {state}", place(namespace))
}

/// What a ScalingPolicy waits for, and what the pods say that leave beside the one that this names.
fn scaling(policy: &Scaling) -> Vec<String> {
    let ready = policy.ready().filter(|ready| ready.reason != table_extended::AS_REQUESTED);
    let message = ready.map(|ready| ready.message.clone());
    let is_named =
        |record: &&PodRecord| message.as_ref().is_some_and(|message| message.contains(&record.pod_name));
    let others = policy.status.leaving.iter().filter(|record| !is_named(record)).map(|record| {
        let said = if record.last_error.is_empty() { &record.message } else { &record.last_error };
        let said = if said.is_empty() { String::new() } else { format!(": {said}") };
        format!("{} leaves, {}{said}", record.pod_name, record.phase.word())
    });
    let others: Vec<_> = others.collect();
    message.into_iter().chain(others).collect()
}

/// What an ExtendedStatefulSet waits for, and what else there is to know.
fn versions(extended: &Extended) -> (String, Vec<String>) {
    let title =
        format!("EXTENDED STATEFULSET {}{}: ", table_extended::name(extended), place(&extended.namespace));
    let Some(ready) = extended.ready() else { return (title + "no status yet", Vec::new()) };
    let is_done = ready.reason == table_extended::AS_REQUESTED;
    let state = if is_done { "Ready" } else { &*ready.reason };
    let message = (!is_done).then(|| ready.message.clone());
    let findings = extended.findings().map(|finding| finding.message.clone());
    let title = format!("{title}{}, {state}", table_extended::versions(extended));
    (title, message.into_iter().chain(findings).collect())
}

/// A set, and what is known of it beside its pods.
#[derive(Clone, Copy)]
struct Shown<'a> {
    set: &'a Set,
    /// The zone that its pods are pinned to by something other than their template's selector of nodes.
    zone: Option<&'a str>,
    /// Whether it is of a version that is not the update version.
    is_old: bool,
    /// The name of the active pod.
    active: Option<&'a str>,
    /// The pods that a ScalingPolicy prepares for their removal.
    leaving: &'a [PodRecord],
}

impl<'a> From<&'a Set> for Shown<'a> {
    fn from(set: &'a Set) -> Self {
        Self { set, zone: None, is_old: false, active: None, leaving: &[] }
    }
}

impl<'a> Shown<'a> {
    fn child(extended: &'a Extended, child: &'a ChildSet) -> Self {
        Self {
            zone: child.zone.as_deref(),
            is_old: child.version != extended.status.update_version,
            active: extended.status.active_pod.as_ref().map(|pod| &*pod.name),
            ..Self::from(&child.set)
        }
    }

    fn scaled(self, policy: Option<&'a Scaling>) -> Self {
        let leaving = policy.map_or(&[][..], |policy| &policy.status.leaving);
        Self { leaving, ..self }
    }

    fn cell(self, pod: &Pod, namespace: &str) -> Cell {
        let mut cell = Cell::new(pod, namespace);
        cell.outdated |= self.is_old;
        // Before the status names another one, a pod that is replaced keeps its name in it.
        if self.active == Some(&*pod.name) && pod.state == PodState::Ready {
            cell.word += " active";
        }
        let record = self.leaving.iter().find(|record| *record.pod_name == *pod.name);
        if let Some(record) = record.filter(|_| pod.state == PodState::Leaving) {
            cell.word = record.phase.word().to_lowercase();
        }
        cell
    }
}

fn workload(
    observed: &Observed,
    zones: &[&str],
    (title, messages): (String, Vec<String>),
    namespace: &str,
    sets: &[Shown<'_>],
) -> Workload {
    let mut columns = vec![Column::default(); zones.len()];
    let mut unplaced = Vec::new();
    let position = |zone: &str| zones.iter().position(|known| *known == zone);
    for shown in sets {
        let set = shown.set;
        let selected = observed.template(namespace, &set.name).and_then(|template| template.zone());
        let pinned = selected.or(shown.zone);
        let mut by_zone: BTreeMap<usize, Vec<Cell>> = BTreeMap::new();
        // A set that is pinned to a zone has its place there also without pods.
        if let Some(column) = pinned.and_then(position) {
            by_zone.insert(column, Vec::new());
        }
        for pod in &set.pod_states {
            let zone = pod.location.as_ref().and_then(|location| location.zone.as_deref()).or(pinned);
            let cell = shown.cell(pod, namespace);
            match zone.and_then(position) {
                Some(column) => by_zone.entry(column).or_default().push(cell),
                None => unplaced.push(cell),
            }
        }
        let state = set.state.as_ref().map(|state| state.state).unwrap_or_default();
        for (column, cells) in by_zone {
            if let Some(column) = columns.get_mut(column) {
                column.strips.push(Strip { set: set.name.clone(), state: state.to_owned(), cells });
            }
        }
    }
    Workload { title, messages, columns, unplaced }
}

/// The time of day in UTC.
pub(super) fn clock(at: Timestamp) -> String {
    at.strftime("%H:%M:%S").to_string()
}
