//! What is shown, arranged by workload and zone: drawn by [`super::draw`], reported line by line by [`super::lines`].

use std::collections::BTreeMap;

use jiff::Timestamp;
use sts_plus_operator::view::{Phase, Pod, PodState, Rollout, Set};

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
    /// Groups, gated sets, others.
    pub(super) workloads: Vec<Workload>,
    /// Why rollouts go on or wait, the latest last.
    pub(super) reasons: Vec<Reason>,
    /// How many reasons there have been, those included that are no longer kept.
    pub(super) reason_count: usize,
    /// The playground's metrics: `errors_per_second 0`.
    pub(super) metrics: Vec<String>,
    /// Commands to try in another terminal, the setting of the environment first.
    pub(super) tries: Vec<String>,
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
            PodState::Broken => "✗",
        }
    }

    /// `new`, or `old`.
    pub(super) fn age(&self) -> &'static str {
        if self.outdated { "old" } else { "new" }
    }
}

fn word(pod: &Pod) -> &str {
    match pod.state {
        PodState::Ready => "ready",
        PodState::Settling => "settling",
        PodState::Terminating => "terminating",
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
        let arrange = |title, messages, namespace: &str, sets: &[&Set]| {
            workload(observed, &zones, (title, messages), namespace, sets)
        };
        let groups = view.groups.iter().map(|group| {
            let messages = group.sets.iter().filter_map(awaited).collect();
            let title = format!("GROUP {}{}", group.name, place(&group.namespace));
            arrange(title, messages, &group.namespace, &group.sets.iter().collect::<Vec<_>>())
        });
        let rollout_of = |namespace: &str, name: Option<&str>| {
            view.rollouts
                .iter()
                .find(|rollout| rollout.namespace == namespace && Some(&*rollout.name) == name)
        };
        let mut lone: Vec<_> = view
            .sets
            .iter()
            .map(|lone| (rollout_of(&lone.namespace, lone.phased_rollout.as_deref()), lone))
            .collect();
        lone.sort_by_key(|(rollout, _)| rollout.is_none());
        let lone = lone.into_iter().map(|(rollout, lone)| {
            let (title, messages) = match rollout {
                Some(rollout) => gate(rollout),
                None => (format!("STATEFULSET {}{}", lone.set.name, place(&lone.namespace)), Vec::new()),
            };
            arrange(title, messages, &lone.namespace, &[&lone.set])
        });
        Self {
            workloads: groups.chain(lone).collect(),
            reasons: observed.reasons.iter().cloned().collect(),
            reason_count: observed.reason_count,
            metrics: observed.metrics.iter().map(|(name, value)| format!("{name} {value}")).collect(),
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

fn workload(
    observed: &Observed,
    zones: &[&str],
    (title, messages): (String, Vec<String>),
    namespace: &str,
    sets: &[&Set],
) -> Workload {
    let mut columns = vec![Column::default(); zones.len()];
    let mut unplaced = Vec::new();
    let position = |zone: &str| zones.iter().position(|known| *known == zone);
    for set in sets {
        let pinned = observed.template(namespace, &set.name).and_then(|template| template.zone());
        let mut by_zone: BTreeMap<usize, Vec<Cell>> = BTreeMap::new();
        // A set that is pinned to a zone has its place there also without pods.
        if let Some(column) = pinned.and_then(position) {
            by_zone.insert(column, Vec::new());
        }
        for pod in &set.pod_states {
            let zone = pod.location.as_ref().and_then(|location| location.zone.as_deref()).or(pinned);
            let cell = Cell::new(pod, namespace);
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
