//! One run: a cluster, two operators, people, and whatever goes wrong.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use serde_json::Value;
use sts_plus_cluster::machinery::service::{Server, Settings as ServerSettings};
use sts_plus_cluster::nodes::network::Network;
use sts_plus_cluster::nodes::{Config, Delay, HollowNodes, Node, Placement};
use sts_plus_cluster::{Clock as ClusterClock, controllers};
use sts_plus_operator::hooks::Hooks;
use sts_plus_operator::operator::{self, Controllers, Settings};
use sts_plus_operator::outbound::Reach;
use sts_plus_operator::shell::cache::Scope;
use sts_plus_operator::shell::lease;
use sts_plus_operator::shell::metrics::Metrics;
use sts_plus_operator::shell::surroundings::{Chance, Clock, ClockStep, Surroundings};
use sts_plus_planner::statefulset::world::Features;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::cast::{Cast, NAMESPACE};
use crate::dice::Dice;
use crate::endings::Frozen;
use crate::extended::people::ExtendedPeople;
use crate::faults::{Fault, Plan};
use crate::goal;
use crate::hand::Hand;
use crate::init;
use crate::link::{Link, Net};
use crate::monitor::Monitor;
use crate::people::People;
use crate::planted::Planted;
use crate::prometheus::Way;
use crate::scaling::apps::Apps;
use crate::scaling::cast::Scaled;
use crate::scaling::people::ScalingPeople;
use crate::sight::Sight;
use crate::trace::Trace;
use crate::truth::Truth;

/// What the operators run where the StatefulSet controller is a process of its own.
const GATED: [&str; 3] = ["rollout-group", "phased-rollout", "extended-statefulset"];
/// The same with that controller.
const CONTROLLED: [&str; 4] = ["rollout-group", "phased-rollout", "extended-statefulset", "statefulset"];

/// What they run besides where there are ScalingPolicies: its watches would take draws of the seeds without.
const SCALING: &str = "scaling";

/// The image of the operators, and so of the init container of a lock.
const IMAGE: &str = "sts-plus:1";

/// When every run begins.
const DAWN: &str = "2026-01-02T03:04:05Z";
/// What the chart installs.
static KINDS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let documents = include_str!("../../../charts/sts-plus/files/crds.yaml").split("\n---\n");
    documents.map(|document| serde_saphyr::from_str(document).unwrap_or_default()).collect()
});
/// How many operators compete for the lease.
const OPERATORS: u64 = 2;
/// How long a dead operator stays dead.
const DEAD: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(20));
/// How wrong a clock may be, in seconds either way.
const SKEW: u64 = 120;
/// By how much a clock is set, in seconds: from less than a gate's answers stay fresh to more than any deadline. Whoever has
/// a clock that is set back waits that much longer for what has to be so many seconds old, so this stays well below
/// [`CONVERGES`].
const STEPS: [i64; 4] = [30, 2 * 60, 6 * 60, 20 * 60];
/// How long it may take to reach the goal after the last trouble, in virtual time.
const CONVERGES: Duration = Duration::from_hours(1);
/// How long nobody may write anything at the goal, in virtual time.
const SILENCE: Duration = Duration::from_mins(10);
/// How long it may take, once nothing goes wrong, until the StatefulSet controller has observed a change of a set, ...
const OBSERVED: Duration = Duration::from_mins(2);
/// ... and where a watch or a request of it may have been silent until then, which is noticed after 150 s.
const OBSERVED_AFTER_SILENCE: Duration = Duration::from_mins(5);
/// How often the goal is looked for.
const LOOK: Duration = Duration::from_secs(5);
/// Changes of a kind that are kept: more than a run makes, since the monitor and stale reads look back.
const HISTORY: usize = 200_000;

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Report {
    pub seed: u64,
    /// What went wrong by plan.
    pub faults: String,
    /// What must not have been; empty for a good run.
    pub failures: Vec<String>,
    /// The hash of everything that happened.
    pub hash: u64,
    /// What happened, where it was asked for.
    pub lines: Vec<String>,
    /// Pods that operators deleted.
    pub deletions: u64,
    /// How long it took, in virtual time.
    pub took: Duration,
}

/// The command that runs a seed again and tells everything that happens.
pub fn replay(seed: u64, faults: Option<&str>, bug: Option<&str>) -> String {
    let faults = faults.map(|names| format!(" --faults '{names}'")).unwrap_or_default();
    let bug = bug.map(|name| format!(" --bug {name}")).unwrap_or_default();
    format!("cargo run -p sts-plus-simulate -- --first {seed} --trace{faults}{bug}")
}

/// A part of the workloads that only some seeds draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// ExtendedStatefulSets.
    Extended,
    /// ScalingPolicies, and the faults of their hooks.
    Scaling,
    /// Init containers.
    Init,
    /// The locks of ScalingPolicies, and the claims that they delete.
    Locks,
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Script {
    /// Decides everything.
    pub seed: u64,
    /// What goes wrong.
    pub plan: Plan,
    /// What there is.
    pub cast: Cast,
    /// Whether the lines of the trace are kept.
    pub keep: bool,
    /// The fault that is planted.
    pub bug: Option<&'static Planted>,
}

impl Script {
    /// What a seed says.
    pub fn of(seed: u64) -> Self {
        Self { seed, plan: Plan::draw(seed), cast: Cast::draw(seed), keep: false, bug: None }
    }

    /// Whether it has a part.
    pub fn has(&self, part: Part) -> bool {
        match part {
            Part::Extended => !self.cast.extended.is_empty(),
            Part::Scaling => !self.cast.scaled.is_empty(),
            Part::Init => init::is_in(&self.cast.sets),
            Part::Locks => self.cast.scaled.iter().any(Scaled::is_locked),
        }
    }

    /// The same without a part: what a seed was before there was any of it in the runs.
    #[must_use]
    pub fn without(self, part: Part) -> Self {
        match part {
            Part::Extended => Self { cast: self.cast.without_extended(), ..self },
            Part::Scaling => {
                Self { cast: self.cast.without_scaling(), plan: self.plan.without_hooks(), ..self }
            }
            Part::Init => Self { cast: self.cast.without_init(), ..self },
            Part::Locks => Self { cast: self.cast.without_locks(), ..self },
        }
    }

    /// Runs it on a runtime of its own, with a clock that stands still while somebody works.
    pub fn run(self) -> Report {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        match runtime {
            Ok(runtime) => runtime.block_on(self.play()),
            Err(error) => Report {
                seed: self.seed,
                faults: self.plan.names(),
                failures: vec![format!("no runtime: {error}")],
                hash: 0,
                lines: Vec::new(),
                deletions: 0,
                took: Duration::ZERO,
            },
        }
    }

    async fn play(self) -> Report {
        let Script { seed, plan, cast, keep, bug } = self;
        let dawn: Timestamp = DAWN.parse().unwrap_or_default();
        let clock = ClusterClock::at(dawn);
        let settings = ServerSettings { seed, history: HISTORY, ..ServerSettings::new(clock) };
        let trace = Trace::new(keep);
        let faults = plan.names();
        trace.line(&format!("seed {seed}: {faults}"));
        let failures = match Server::new(settings) {
            Ok(server) => {
                let began = Instant::now();
                let sight = Sight::until(began + plan.chaos, &plan);
                let monitor = Monitor::new(server.clone(), trace.clone(), &plan, &sight);
                let streams = Dice::new(seed, "streams").happens(700);
                let net = Net {
                    server,
                    plan: Arc::new(plan),
                    began,
                    trace: trace.clone(),
                    monitor: monitor.clone(),
                    streams,
                    sight,
                    planted: bug,
                };
                let mut failures = on_stage(&net, &cast, seed, (dawn, clock)).await;
                failures.splice(0..0, monitor.violations());
                let (deletions, took) = (monitor.deletions(), began.elapsed());
                return Report {
                    seed,
                    faults,
                    failures,
                    hash: trace.hash(),
                    lines: trace.lines(),
                    deletions,
                    took,
                };
            }
            Err(error) => vec![format!("no server: {error}")],
        };
        Report {
            seed,
            faults,
            failures,
            hash: trace.hash(),
            lines: trace.lines(),
            deletions: 0,
            took: Duration::ZERO,
        }
    }
}

/// The run itself; what is wrong at its end.
async fn on_stage(
    net: &Net,
    cast: &Cast,
    seed: u64,
    (dawn, clock): (Timestamp, ClusterClock),
) -> Vec<String> {
    let dice = Dice::new(seed, "stage");
    let mut tasks = JoinSet::new();
    tasks.spawn(controllers::run(net.server.clone()));
    tasks.spawn(follow(net.clone()));
    let installer = Hand::new(&net.server, &net.trace, "installer");
    for kind in &*KINDS {
        installer.create("customresourcedefinitions", kind).await;
    }
    let delay = |most: u64| {
        Delay::between(Duration::from_millis(200), Duration::from_millis(200 + dice.below(most * 1000)))
    };
    // Nobody asks pods for anything where nothing is probed.
    let is_asked = !cast.extended.is_empty() || !cast.scaled.is_empty();
    let pods = is_asked.then(Network::new);
    if let Some(pods) = &pods {
        Apps::open(net, &cast.scaled, pods, seed);
    }
    let nodes = Config {
        nodes: (0..3).map(|number| Node::new(format!("node-{number}"), format!("zone-{number}"))).collect(),
        start_delay: delay(4),
        ready_delay: delay(10),
        stop_delay: delay(6),
        seed,
        clock: Some(clock),
        placement: Placement::Clusters,
        network: pods.clone(),
        config_maps: cast.scaled.iter().any(Scaled::is_locked),
        ..Config::default()
    };
    let nodes = HollowNodes::new(Client::new(net.server.clone(), NAMESPACE), nodes).start();
    let apart = net.plan.has(Fault::StoppedController);
    let plant = |controllers| match net.planted {
        Some(planted) => planted.plant(controllers),
        None => controllers,
    };
    for number in 0..OPERATORS {
        let mut controllers = if apart { GATED.to_vec() } else { CONTROLLED.to_vec() };
        controllers.extend((!cast.scaled.is_empty()).then_some(SCALING));
        let controllers = plant(Controllers::named(&controllers).unwrap_or_default());
        tasks.spawn(lives(net.clone(), Who::Operator(number), (controllers, pods.clone()), seed, dawn));
    }
    if apart {
        let controllers = plant(Controllers::named(&["statefulset"]).unwrap_or_default());
        tasks.spawn(lives(net.clone(), Who::StatefulSets, (controllers, None), seed, dawn));
    }
    let mut people = People::new(net, cast, seed);
    let mut extended = ExtendedPeople::new(net, &cast.extended, seed);
    let mut scaling = ScalingPeople::new(net, &cast.scaled, seed);
    people.begin().await;
    extended.begin().await;
    scaling.begin().await;
    tokio::join!(people.act(&nodes), extended.act(), scaling.act());
    people.heal().await;
    extended.heal().await;
    scaling.heal().await;
    sleep(net.plan.chaos.saturating_sub(net.now())).await;
    net.trace.line("nothing goes wrong any more");
    people.finish().await;
    let healers = Healers { people: Some(&people), extended: &extended, scaling: &scaling };
    let mut failures = settle(net, healers, |truth| goal::missing(truth, cast)).await;
    let is_good = |failures: &[String]| failures.is_empty() && net.monitor.violations().is_empty();
    if cast.errs && is_good(&failures) {
        people.err().await;
        let healers = Healers { people: Some(&people), extended: &extended, scaling: &scaling };
        failures = settle(net, healers, |truth| goal::not_taken_back(truth, cast)).await;
    }
    if cast.freezes && is_good(&failures) {
        failures = held(net, &mut people, (&extended, &scaling)).await;
    }
    let nobody = Healers { people: None, extended: &extended, scaling: &scaling };
    if cast.reverts && !cast.revertible().is_empty() && is_good(&failures) {
        failures = match people.revert().await {
            Ok(()) => {
                let wanted = cast.only(&cast.revertible());
                settle(net, nobody, |truth| goal::missing(truth, &wanted)).await
            }
            Err(words) => vec![words],
        };
    }
    if cast.adopts && is_good(&failures) {
        failures = match people.adopt().await {
            Ok(()) => settle(net, nobody, |truth| goal::missing(truth, cast)).await,
            Err(words) => vec![words],
        };
    }
    if cast.halts && is_good(&failures) {
        failures = match people.halt().await {
            Ok(()) => settle(net, nobody, |truth| goal::missing(truth, cast)).await,
            Err(words) => vec![words],
        };
    }
    if cast.leaves && is_good(&failures) {
        let left = people.leave().await;
        failures = settle(net, nobody, |truth| goal::not_left(truth, cast, &left)).await;
    }
    nodes.stop().await;
    tasks.shutdown().await;
    failures
}

/// A suspended rollout with `Freeze` holds its set against a third party; what is wrong if it does not.
async fn held(
    net: &Net,
    people: &mut People,
    (extended, scaling): (&ExtendedPeople, &ScalingPeople),
) -> Vec<String> {
    let frozen = match people.freeze().await {
        Ok(frozen) => frozen,
        Err(words) => return vec![words],
    };
    let mut failures = settle(net, Healers { people: Some(people), extended, scaling }, |truth| {
        goal::not_held(truth, &frozen)
    })
    .await;
    let deleted = net.monitor.deletions_of(&frozen.kept) - frozen.deleted_before;
    // The set's own controller may be faster than whoever puts the partition back, by one pod.
    if failures.is_empty() && deleted > frozen.writes {
        let Frozen { name, writes, .. } = &frozen;
        failures.push(format!(
            "goal: {deleted} pods of {name}, which is frozen, went for {writes} foreign writes"
        ));
    }
    failures
}

/// Looks at every change as it comes.
async fn follow(net: Net) {
    let mut changed = net.server.changed();
    loop {
        changed.forget();
        net.monitor.catch_up();
        if changed.hear().await.is_err() {
            return;
        }
    }
}

/// A process of the run.
#[derive(Clone, Copy, Debug)]
enum Who {
    /// One of the operators, which compete for the lease.
    Operator(u64),
    /// The StatefulSet controller, where it is on its own. There is one, and it needs no lease.
    StatefulSets,
}

impl Who {
    fn number(self) -> u64 {
        match self {
            Self::Operator(number) => number,
            Self::StatefulSets => OPERATORS,
        }
    }

    fn name(self) -> String {
        match self {
            Self::Operator(number) => format!("operator-{number}"),
            Self::StatefulSets => "controller".to_owned(),
        }
    }

    /// Returns when it is to be stopped.
    async fn is_stopped(self, net: &Net) {
        if matches!(self, Self::Operator(_)) {
            return std::future::pending().await;
        }
        loop {
            let now = net.now();
            let next = net.plan.windows(Fault::StoppedController).find(|window| window.from > now);
            let Some(window) = next.copied() else { return std::future::pending().await };
            sleep(window.from.saturating_sub(now)).await;
            if window.variant.is_multiple_of(4) {
                return;
            }
            // Mostly it is stopped when it is needed: a partition is lowered, and its pod stays.
            let rest = window.until.saturating_sub(net.now());
            if timeout(rest, net.monitor.lowered()).await.is_ok() {
                return;
            }
        }
    }

    /// Returns when it may run again.
    async fn may_start(self, net: &Net) {
        while let (Self::StatefulSets, Some(window)) =
            (self, net.plan.open(Fault::StoppedController, net.now()))
        {
            sleep(window.until.saturating_sub(net.now())).await;
        }
    }
}

/// How the clock of one process is set in the course of a run: it is put right again, except after every fourth step forward.
fn steps(net: &Net, number: u64) -> Vec<ClockStep> {
    let windows = net.plan.windows(Fault::SteppedClock).filter(|window| window.variant % 3 != number);
    let steps = windows.flat_map(|window| {
        let by = STEPS.get(usize::try_from(window.variant / 3 % 4).unwrap_or_default()).copied();
        let by = SignedDuration::from_secs(by.unwrap_or_default());
        let forward = (window.variant / 12).is_multiple_of(2);
        let by = if forward { by } else { -by };
        let back = !forward || !(window.variant / 24).is_multiple_of(4);
        let at = |time: Duration| net.began + time;
        let first = ClockStep { at: at(window.from), by };
        std::iter::once(first).chain(back.then(|| ClockStep { at: at(window.until), by: -by }))
    });
    steps.collect()
}

/// The lives of one process, one after the other.
async fn lives(
    net: Net,
    who: Who,
    (controllers, pods): (Controllers, Option<Network>),
    seed: u64,
    dawn: Timestamp,
) {
    let number = who.number();
    let dice = Dice::new(seed, &format!("lives of {number}"));
    for life in 0_u64.. {
        who.may_start(&net).await;
        let name = format!("{}.{life}", who.name());
        let link = Link::new(&net, number, name.clone(), seed);
        let skew = SignedDuration::from_secs(
            i64::try_from(dice.below(2 * SKEW)).unwrap_or_default() - SKEW.cast_signed(),
        );
        let skew = if net.plan.has(Fault::SkewedClock) { skew } else { SignedDuration::ZERO };
        let since = SignedDuration::try_from(net.now()).unwrap_or_default();
        // What was done to the machine's clock before this life holds in it.
        let (past, to_come): (Vec<_>, Vec<_>) =
            steps(&net, number).into_iter().partition(|step| step.at <= Instant::now());
        let stepped: SignedDuration = past.iter().map(|step| step.by).sum();
        let clock = Clock::at(dawn + since + skew + stepped).with_steps(to_come);
        let surroundings = Surroundings { clock, chance: Chance::seeded(dice.draw()) };
        let settings = Settings {
            scope: Scope::Cluster,
            controllers: controllers.clone(),
            features: Features::default(),
            image: Some(IMAGE.into()),
            reach: Reach::default(),
            hooks: Hooks::default(),
            dial: Arc::new(Way::new(&net, &link.name, pods.clone(), seed)),
            surroundings,
            lease: matches!(who, Who::Operator(_)).then(|| lease::Config::new(NAMESPACE, name.clone())),
            listener: None,
            instance: name.clone(),
        };
        net.trace.line(&format!("{name} begins"));
        let (_stop, stopped) = watch::channel(false);
        let crash = Arc::clone(&link.crash);
        tokio::select! {
            biased;
            () = crash.notified() => {}
            () = who.is_stopped(&net) => {}
            () = operator::run(link.client(), settings, Metrics::new(), stopped) => {}
        }
        link.kill();
        net.trace.line(&format!("{name} is dead"));
        sleep(dice.time(DEAD.0, DEAD.1)).await;
    }
}

/// Who sees to it that everything stays as it shall be at the end.
#[derive(Clone, Copy)]
struct Healers<'h> {
    people: Option<&'h People>,
    extended: &'h ExtendedPeople,
    scaling: &'h ScalingPeople,
}

/// Waits for the goal, then for silence; what is wrong if they do not come. Somebody may heal pods meanwhile.
async fn settle(net: &Net, healers: Healers<'_>, missing: impl Fn(&Truth) -> Vec<String>) -> Vec<String> {
    let within = if net.plan.has(Fault::DeadWatch) || net.plan.has(Fault::Blind) {
        OBSERVED_AFTER_SILENCE
    } else {
        OBSERVED
    };
    let end = net.now() + CONVERGES;
    loop {
        if !net.monitor.violations().is_empty() || net.trace.is_overlong() {
            return Vec::new();
        }
        if let Some(people) = healers.people {
            people.mend().await;
        }
        healers.extended.mend().await;
        healers.scaling.mend().await;
        let late = net.monitor.look_at(|truth| goal::unobserved(truth, net.now(), net.plan.chaos, within));
        if !late.is_empty() {
            return late;
        }
        let missing = net.monitor.look_at(&missing);
        let (changed, what) = net.monitor.last_change();
        if missing.is_empty() && changed + SILENCE <= net.now() {
            return Vec::new();
        }
        if net.now() >= end {
            let mut failures: Vec<_> = missing.iter().map(|words| format!("goal: {words}")).collect();
            if failures.is_empty() {
                failures.push(format!("I11: nobody needs anything, and still: {what}"));
            }
            return failures;
        }
        sleep(LOOK).await;
    }
}
