//! What can go wrong, and when it does in one run.
//!
//! A seed switches a part of the faults on, so that each gets runs in which it is not drowned by the others. Some hit
//! single requests by chance, others last for a while: those are windows, drawn before the run begins.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::dice::Dice;
use crate::scaling::cast::Scaled;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The operator dies just before a write leaves it, or just after the server has acted on one.
    Crash,
    /// The server acts, the answer never arrives.
    LostAnswer,
    /// The server answers 500 or 503, or the connection breaks, and nothing has happened.
    Error,
    /// Somebody changes the object just before the write arrives.
    Conflict,
    /// The past that a watch goes on from is gone: 410.
    Gone,
    /// Reads that may be stale are.
    StaleReads,
    /// One kind's watch lags behind the others, and repeats itself.
    LaggingWatch,
    /// A watch is silent and stays open.
    DeadWatch,
    /// Watches break off.
    BrokenWatch,
    /// The server answers 429, or slowly.
    Throttled,
    /// Reads pass and writes do not, or the other way round.
    Partition,
    /// A write leaves the operator long after it was decided, when another one may lead.
    LateWrite,
    /// The operators' clocks are wrong by up to two minutes, and differently after each start.
    SkewedClock,
    /// A quota keeps pods from being created.
    Quota,
    /// Pods crash, hang, flap or do not stop.
    SickPods,
    /// Somebody else deletes pods.
    Evictions,
    /// A node is lost, and comes back.
    LostNode,
    /// The user changes their mind midway.
    Edits,
    /// A third party takes labels, owners and partitions away.
    Meddling,
    /// The user writes nonsense.
    Nonsense,
    /// Prometheus cannot be reached.
    PrometheusDown,
    /// Prometheus takes its time.
    PrometheusSlow,
    /// Prometheus answers what is not true, or what is no answer.
    PrometheusLies,
    /// The StatefulSet controller runs in a process of its own, which is stopped for a while.
    StoppedController,
    /// One kind can be neither listed nor watched, for minutes.
    Blind,
    /// Somebody sets the operators' clocks, forward or back, while they run.
    SteppedClock,
    /// An admission webhook for sets fails, so that nobody can write them.
    RefusingWebhook,
    /// Applications refuse to get ready for their removal.
    HookRefuses,
    /// They never answer.
    HookHangs,
    /// They die while they are called, or before they answer.
    HookDies,
    /// They say that they are ready and are not, or the reverse.
    HookLies,
    /// They answer late.
    HookLate,
    /// They answer when another pod may have their name.
    HookOutdated,
}

/// A fault, its name, its number in the catalogue of faults, and what happens.
pub const FAULTS: [(Fault, &str, u32, &str); 33] = [
    (Fault::Crash, "crash", 1, "the operator dies just before or just after a write"),
    (Fault::LostAnswer, "lost-answer", 2, "the server acts on a write whose answer never arrives"),
    (Fault::Error, "error", 3, "500, 503 or a broken connection, without effect"),
    (Fault::Conflict, "conflict", 4, "somebody else changes the object just before a write to it arrives"),
    (Fault::Gone, "gone", 5, "the past that a watch or a list goes on from is compacted: 410"),
    (Fault::StaleReads, "stale-reads", 6, "reads that the server may answer from an old state are"),
    (
        Fault::LaggingWatch,
        "lagging-watch",
        7,
        "the watch of one kind lags behind the others and repeats itself",
    ),
    (Fault::DeadWatch, "dead-watch", 8, "a watch stays open and says nothing any more"),
    (Fault::BrokenWatch, "broken-watch", 8, "watches break off"),
    (Fault::Throttled, "throttled", 9, "429 with Retry-After, and answers that take seconds"),
    (Fault::Partition, "partition", 10, "writes fail while reads pass, or the other way round"),
    (Fault::LateWrite, "late-write", 11, "a write leaves its operator after the lease has gone to another"),
    (Fault::SkewedClock, "skewed-clock", 12, "the clocks of the operators are up to two minutes wrong"),
    (Fault::Quota, "quota", 14, "a quota refuses new pods"),
    (Fault::SickPods, "sick-pods", 15, "pods crash, never get Ready, flap, do not stop, or have no image"),
    (Fault::Evictions, "evictions", 15, "somebody else deletes or evicts pods"),
    (Fault::LostNode, "lost-node", 16, "a node is lost and comes back"),
    (
        Fault::Edits,
        "edits",
        18,
        "templates flip, sets scale and are recreated, also over their pods with another template, rollouts are paused, frozen and resumed",
    ),
    (Fault::Meddling, "meddling", 19, "a third party writes the partition and takes labels and owners away"),
    (Fault::Nonsense, "nonsense", 20, "annotations and specs that mean nothing"),
    (Fault::PrometheusDown, "prometheus-down", 21, "Prometheus refuses connections"),
    (Fault::PrometheusSlow, "prometheus-slow", 21, "Prometheus answers after seconds, or never"),
    (
        Fault::PrometheusLies,
        "prometheus-lies",
        21,
        "Prometheus says bad for good, NaN, errors under 200, or rubbish",
    ),
    (
        Fault::StoppedController,
        "stopped-controller",
        7,
        "the StatefulSet controller runs in a process of its own and is stopped for a while, mostly as soon as a partition is lowered",
    ),
    (
        Fault::Blind,
        "blind",
        8,
        "pods or sets can be neither listed nor watched for minutes: 403, 500, 410 or no answer; meanwhile a pod falls ill and a new version comes",
    ),
    (
        Fault::SteppedClock,
        "stepped-clock",
        12,
        "the clocks of running operators are set forward or back, by up to 20 minutes, and mostly put right again",
    ),
    (
        Fault::RefusingWebhook,
        "refusing-webhook",
        3,
        "an admission webhook for sets, at times also for revisions, fails at once or hangs",
    ),
    (
        Fault::HookRefuses,
        "hook-refuses",
        22,
        "applications refuse the calls of hooks, or break the connection",
    ),
    (Fault::HookHangs, "hook-hangs", 22, "applications never answer the calls of hooks"),
    (
        Fault::HookDies,
        "hook-dies",
        22,
        "applications do what they are called for, and die before they answer; at times their containers are restarted",
    ),
    (Fault::HookLies, "hook-lies", 22, "applications say that they are ready and are not, or the reverse"),
    (Fault::HookLate, "hook-late", 22, "applications answer within the time limit of a call, or after it"),
    (
        Fault::HookOutdated,
        "hook-outdated",
        22,
        "pods are deleted while they are called, and say that they are ready when others may have their names",
    ),
];

/// A stretch of the run in which a fault may strike.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Which.
    pub fault: Fault,
    /// From the start of the run.
    pub from: Duration,
    /// From the start of the run.
    pub until: Duration,
    /// What tells this window from another of its kind, such as which operator or which direction.
    pub variant: u64,
}

/// What goes wrong in one run.
#[derive(Clone, Debug)]
pub struct Plan {
    on: BTreeSet<Fault>,
    windows: Vec<Window>,
    /// How long things go wrong.
    pub chaos: Duration,
}

/// The shortest and the longest time in which things go wrong: several rollouts fit into it.
const CHAOS: (Duration, Duration) = (Duration::from_mins(3), Duration::from_mins(7));
/// How long a window may be: some are longer than a lease, some than the longest silence that a watch is allowed.
const WINDOW: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(90));
/// How long a node, or a whole kind's watch, may be away.
const LONG_WINDOW: (Duration, Duration) = (Duration::from_secs(20), Duration::from_mins(4));
/// How long a kind may be out of sight: longer than anything that was seen before may be believed.
const BLIND_WINDOW: (Duration, Duration) = (Duration::from_mins(3), Duration::from_mins(6));
/// So many of a thousand faults are on in a run.
const SHARE: u64 = 300;
/// Those that are on in so many of a thousand runs. Each is drawn from numbers of its own, by this name, so that seeds
/// without it stay what they are.
const APART: [(Fault, &str, u64); 10] = [
    (Fault::StoppedController, "stopped", 200),
    (Fault::Blind, "blind", 200),
    (Fault::SteppedClock, "stepped", 200),
    (Fault::RefusingWebhook, "webhook", 150),
    (Fault::HookRefuses, "hook refuses", HOOK_SHARE),
    (Fault::HookHangs, "hook hangs", HOOK_SHARE),
    (Fault::HookDies, "hook dies", HOOK_SHARE),
    (Fault::HookLies, "hook lies", HOOK_SHARE),
    (Fault::HookLate, "hook late", HOOK_SHARE),
    (Fault::HookOutdated, "hook outdated", HOOK_SHARE),
];
/// So many of a thousand runs with ScalingPolicies have each fault of hooks; the others have none.
const HOOK_SHARE: u64 = 350;
/// The faults of hooks.
const OF_HOOKS: [Fault; 6] = [
    Fault::HookRefuses,
    Fault::HookHangs,
    Fault::HookDies,
    Fault::HookLies,
    Fault::HookLate,
    Fault::HookOutdated,
];
/// So many windows of one kind does a run have at most.
const MAX_WINDOWS: u64 = 5;

/// Those that last for a while.
const LASTING: [Fault; 23] = [
    Fault::Error,
    Fault::Gone,
    Fault::StaleReads,
    Fault::LaggingWatch,
    Fault::DeadWatch,
    Fault::BrokenWatch,
    Fault::Throttled,
    Fault::Partition,
    Fault::Quota,
    Fault::LostNode,
    Fault::PrometheusDown,
    Fault::PrometheusSlow,
    Fault::PrometheusLies,
    Fault::StoppedController,
    Fault::Blind,
    Fault::SteppedClock,
    Fault::RefusingWebhook,
    Fault::HookRefuses,
    Fault::HookHangs,
    Fault::HookDies,
    Fault::HookLies,
    Fault::HookLate,
    Fault::HookOutdated,
];

impl Plan {
    /// The plan of a seed.
    pub fn draw(seed: u64) -> Self {
        let dice = Dice::new(seed, "faults");
        let is_apart = |fault: &Fault| APART.iter().any(|(apart, ..)| apart == fault);
        let others = || FAULTS.iter().map(|row| row.0).filter(|fault| !is_apart(fault));
        let mut on: BTreeSet<Fault> = others().filter(|_| dice.happens(SHARE)).collect();
        if on.is_empty() {
            on.extend(dice.pick(&others().collect::<Vec<_>>()));
        }
        let apart = APART.iter().filter(|(_, name, share)| Dice::new(seed, name).happens(*share));
        on.extend(apart.map(|(fault, ..)| *fault));
        if !Scaled::is_drawn(seed) {
            on.retain(|fault| !OF_HOOKS.contains(fault));
        }
        // A write that arrives in another one's term is fenced by what it was decided on. That holds while what was
        // decided stays right, which is the limit that docs/architecture.md draws.
        if on.contains(&Fault::LateWrite) {
            let upsetting = [
                Fault::Edits,
                Fault::SickPods,
                Fault::Evictions,
                Fault::LostNode,
                Fault::Meddling,
                Fault::HookDies,
                Fault::HookOutdated,
            ];
            for upsetting in upsetting {
                on.remove(&upsetting);
            }
        }
        Self::of(seed, on)
    }

    /// The plan of a seed with the faults of these names, as [`Plan::names`] gives them, whatever a draw would say now.
    pub fn named(seed: u64, names: &str) -> Result<Self, String> {
        let named = |name: &str| {
            let known = FAULTS.iter().find(|(_, known, ..)| *known == name.trim());
            known.map(|(fault, ..)| *fault).ok_or_else(|| format!("there is no fault {name}"))
        };
        Ok(Self::of(seed, names.split(',').map(named).collect::<Result<_, _>>()?))
    }

    /// The plan of a seed with these faults.
    pub fn of(seed: u64, on: BTreeSet<Fault>) -> Self {
        let dice = Dice::new(seed, "windows");
        let chaos = dice.time(CHAOS.0, CHAOS.1);
        let mut windows = Vec::new();
        for fault in LASTING {
            let (least, most) = match fault {
                Fault::LostNode | Fault::DeadWatch | Fault::LaggingWatch => LONG_WINDOW,
                Fault::Blind => BLIND_WINDOW,
                _ => WINDOW,
            };
            // What is out of sight early on leaves time for what nobody sees then.
            let latest = if fault == Fault::Blind { chaos / 3 } else { chaos };
            let drawn: Vec<_> = (0..dice.among(1, MAX_WINDOWS))
                .map(|_| {
                    let from = dice.time(Duration::ZERO, latest);
                    let until = (from + dice.time(least, most)).min(chaos);
                    Window { fault, from, until, variant: dice.draw() }
                })
                .collect();
            // Drawn in any case, so that one fault more or less does not move the others.
            if on.contains(&fault) {
                windows.extend(drawn);
            }
        }
        windows.sort_by_key(|window| (window.from, window.fault));
        Self { on, windows, chaos }
    }

    /// The same without the faults of hooks.
    #[must_use]
    pub fn without_hooks(mut self) -> Self {
        self.on.retain(|fault| !OF_HOOKS.contains(fault));
        self.windows.retain(|window| !OF_HOOKS.contains(&window.fault));
        self
    }

    /// Whether a fault is on in this run.
    pub fn has(&self, fault: Fault) -> bool {
        self.on.contains(&fault)
    }

    /// The windows of a fault, by their beginning.
    pub fn windows(&self, fault: Fault) -> impl Iterator<Item = &Window> {
        self.windows.iter().filter(move |window| window.fault == fault)
    }

    /// The window of a fault that is open at a time.
    pub fn open(&self, fault: Fault, at: Duration) -> Option<&Window> {
        self.windows(fault).find(|window| (window.from..window.until).contains(&at))
    }

    /// The names of what is on.
    pub fn names(&self) -> String {
        let names: Vec<_> = FAULTS.iter().filter(|row| self.has(row.0)).map(|row| row.1).collect();
        names.join(", ")
    }
}
