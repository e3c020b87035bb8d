//! What is to be seen, as plain data: drawn by [`super::draw`], told line by line by [`super::lines`].

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::rows::{Name, Pod, Rollout, Row, Set, State};
use super::sight::{Said, Sight};

/// Characters of a revision that are shown: enough to tell one from the next.
const REVISION_CHARACTERS: usize = 4;

/// A moment of the playground.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Picture {
    /// The API server.
    pub(super) address: String,
    /// The zones, a column each.
    pub(super) zones: Vec<String>,
    /// Groups, gated sets, others.
    pub(super) workloads: Vec<Workload>,
    /// Why things go on or wait, the latest last.
    pub(super) reasons: Vec<Said>,
    /// How many reasons there have been, those included that are forgotten.
    pub(super) told: usize,
    /// The playground's metrics: `errors_per_second 0`.
    pub(super) metrics: Vec<String>,
    /// What to try in another terminal, the setting of the environment first.
    pub(super) tries: Vec<String>,
    /// The command that does the same as the last key, or why the key did nothing.
    pub(super) last: Option<String>,
}

/// What is rolled together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Workload {
    /// What it is: `GROUP store`.
    pub(super) title: String,
    /// How it is, in one word for each set, and what is awaited.
    pub(super) says: Vec<String>,
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
    /// How the set is, in one word.
    pub(super) state: String,
    pub(super) cells: Vec<Cell>,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) pod: String,
    pub(super) ordinal: String,
    pub(super) revision: String,
    /// Whether it is of the revision that it shall be of.
    pub(super) is_new: bool,
    pub(super) state: State,
}

impl State {
    /// Tells states apart without colour.
    pub(super) fn mark(&self) -> &'static str {
        match self {
            Self::Ready => "●",
            Self::NotReady | Self::Starting | Self::NotPlaced => "○",
            Self::Stopping => "◌",
            Self::Broken(_) => "✗",
        }
    }

    /// How the pod is, or what is awaited of it.
    pub(super) fn word(&self) -> &str {
        match self {
            Self::Ready => "ready",
            Self::NotReady => "not ready",
            Self::Starting => "starting",
            Self::NotPlaced => "not placed",
            Self::Stopping => "stopping",
            Self::Broken(reason) => reason,
        }
    }
}

impl Cell {
    fn new(pod: &Pod, target: Option<&str>) -> Self {
        let revision = pod.revision().unwrap_or_default();
        let hash = revision.rsplit('-').next().unwrap_or_default();
        Self {
            pod: full_name(pod),
            ordinal: match pod.ordinal() {
                u64::MAX => pod.called().to_owned(),
                ordinal => ordinal.to_string(),
            },
            revision: hash.chars().take(REVISION_CHARACTERS).collect(),
            is_new: pod.revision().is_some() && pod.revision() == target,
            state: pod.state(),
        }
    }

    /// `new`, or `old`.
    pub(super) fn age(&self) -> &'static str {
        if self.is_new { "new" } else { "old" }
    }
}

impl Picture {
    /// What is seen now.
    pub(super) fn new(sight: &Sight) -> Self {
        let zones = sight.zones();
        let mut workloads = Vec::new();
        let mut groups: BTreeMap<(&str, &str), Vec<&Set>> = BTreeMap::new();
        let mut gated: BTreeMap<Name, &Rollout> = BTreeMap::new();
        let mut others = Vec::new();
        for rollout in sight.rollouts.values() {
            gated.entry(rollout.target()).or_insert(rollout);
        }
        for ((namespace, name), set) in &sight.sets {
            match set.group() {
                Some(group) => groups.entry((namespace, group)).or_default().push(set),
                None => others.push((gated.get(&(namespace.clone(), name.clone())).copied(), set)),
            }
        }
        for ((namespace, group), sets) in groups {
            let says = sets.iter().filter_map(|set| awaited(set)).collect();
            let title = format!("GROUP {group}{}", place(namespace));
            workloads.push(workload(sight, &zones, title, says, &sets));
        }
        others.sort_by_key(|(rollout, _)| rollout.is_none());
        for (rollout, set) in others {
            let (namespace, name) = set.name();
            let (title, says) = match rollout {
                Some(rollout) => gate(rollout, &namespace, &name),
                None => (format!("STATEFULSET {name}{}", place(&namespace)), Vec::new()),
            };
            workloads.push(workload(sight, &zones, title, says, &[set]));
        }
        Self {
            zones: zones.into_iter().map(str::to_owned).collect(),
            workloads,
            reasons: sight.reasons.iter().cloned().collect(),
            told: sight.told,
            metrics: sight.metrics.iter().map(|(name, value)| format!("{name} {value}")).collect(),
            ..Self::default()
        }
    }
}

fn full_name(pod: &Pod) -> String {
    match pod.name() {
        (namespace, name) if namespace == "default" => name,
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

/// Where something is, unless it is where everybody looks first.
fn place(namespace: &str) -> String {
    if namespace == "default" { String::new() } else { format!(" in namespace {namespace}") }
}

/// What a set of a group waits for. One that waits for its turn is told of by whoever's turn it is.
fn awaited(set: &Set) -> Option<String> {
    let status = set.rollout_status()?;
    let is_told = !["UpToDate", "WaitingForTurn"].contains(&status.state.as_str());
    is_told.then(|| format!("{}: {}", set.called(), status.message))
}

fn gate(rollout: &Rollout, namespace: &str, set: &str) -> (String, Vec<String>) {
    let phase = rollout.says("phase").unwrap_or("not looked at yet");
    let waiting = rollout.says("waitingFor").map(|waiting| format!(" {waiting}")).unwrap_or_default();
    let title = format!("PHASED ROLLOUT {} of {set}{}: {phase}{waiting}", rollout.called(), place(namespace));
    (title, rollout.says("message").map(str::to_owned).into_iter().collect())
}

fn workload(sight: &Sight, zones: &[&str], title: String, says: Vec<String>, sets: &[&Set]) -> Workload {
    let mut columns = vec![Column::default(); zones.len()];
    let mut unplaced = Vec::new();
    let mut sets = sets.to_vec();
    sets.sort_by_key(|set| set.called());
    for set in sets {
        let own = set.name();
        let target = sight.target(set);
        let mut pods: Vec<&Pod> =
            sight.pods.values().filter(|pod| pod.set().as_ref() == Some(&own)).collect();
        pods.sort_by_key(|pod| (pod.ordinal(), pod.called()));
        let mut by_zone: BTreeMap<usize, Vec<Cell>> = BTreeMap::new();
        let position = |zone: &str| zones.iter().position(|known| *known == zone);
        // A set that is pinned stands in its zone also without pods.
        if let Some(column) = set.zone().and_then(position) {
            by_zone.insert(column, Vec::new());
        }
        for pod in pods {
            let node = pod.node().and_then(|node| sight.nodes.get(&(String::new(), node.to_owned())));
            let zone = node.and_then(|node| node.zone()).or_else(|| set.zone());
            match zone.and_then(position) {
                Some(column) => by_zone.entry(column).or_default().push(Cell::new(pod, target)),
                None => unplaced.push(Cell::new(pod, target)),
            }
        }
        let state = set.rollout_status().map(|status| status.state).unwrap_or_default();
        for (column, cells) in by_zone {
            if let Some(column) = columns.get_mut(column) {
                column.strips.push(Strip { set: set.called().to_owned(), state: state.clone(), cells });
            }
        }
    }
    Workload { title, says, columns, unplaced }
}

/// A moment as the screen shows it: the time of day in UTC.
pub(super) fn clock(at: Timestamp) -> String {
    at.strftime("%H:%M:%S").to_string()
}
