//! The annotations by which a pod chooses how its life goes, and what they mean once parsed.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;

use super::network::Answers;
use super::probes::Purpose;
use crate::chance;

/// What every annotation here begins with.
pub const PREFIX: &str = "hollow.sts.plus/";
/// Time from bound to Running: a [`Delay`].
pub const START_DELAY: &str = "hollow.sts.plus/start-delay";
/// Time from Running to Ready: a [`Delay`].
pub const READY_DELAY: &str = "hollow.sts.plus/ready-delay";
/// Time from the deletion request to the pod being gone: a [`Delay`].
pub const STOP_DELAY: &str = "hollow.sts.plus/stop-delay";
/// Time that each init container takes: a [`Delay`].
pub const INIT_DELAY: &str = "hollow.sts.plus/init-delay";
/// How often each init container runs, each time to a good end, before the next one has its turn: a number from 1 to 20. A
/// pod whose sandbox is made anew runs its init containers once more.
pub const INIT_RUNS: &str = "hollow.sts.plus/init-runs";
/// The name of an init container that runs until the ConfigMap that it mounts has a key that is the ordinal of the pod. Only
/// where ConfigMaps are followed; a pod without such a container is not concerned.
pub const INIT_KEY: &str = "hollow.sts.plus/init-key";
/// How exec probes end: `pass` or `fail`, or one of them by kind such as `readiness=fail,liveness=pass`.
pub const EXEC: &str = "hollow.sts.plus/exec";
/// What is answered to HTTP requests, a line per path: `<path> <status>|hang|reset [after <duration>] [body <text>]`.
pub const HTTP: &str = "hollow.sts.plus/http";
/// On a pod, written by its node: ports that it listens on elsewhere, such as `8080=127.0.0.1:41234`.
pub const PORTS: &str = "hollow.sts.plus/ports";
/// On a node, `true`: it is lost, until that is taken back.
pub const LOST: &str = "hollow.sts.plus/lost";
/// What goes wrong: `never-ready`, `crash-loop`, `init-crash-loop`, `image-pull`, `stuck-terminating`,
/// `unready-after=<delay>`, `exit-after=<delay>` or `fail-after=<delay>`; empty means nothing.
pub const FAULT: &str = "hollow.sts.plus/fault";
/// Which ordinals the fault hits, such as `0,2`; without it, all.
pub const FAULT_ORDINALS: &str = "hollow.sts.plus/fault-ordinals";

/// The longest delay that is accepted; more is a typing error, and no test or demonstration waits for it.
const MAX_DELAY: Duration = Duration::from_hours(24);
/// More runs of an init container are not accepted: no test or demonstration looks at them.
const MAX_INIT_RUNS: u32 = 20;
/// How many ordinals one annotation may name; an annotation holds 256 KiB and this bounds the work per event.
const MAX_FAULT_ORDINALS: usize = 1024;

/// How long a step takes: always the same, or drawn from a range once per pod.
///
/// Written as `50ms`, `2s`, `1m30s` or, as a range with both ends included, `2s..5s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    least: Duration,
    most: Duration,
}

impl Delay {
    /// No delay at all.
    pub const NONE: Delay = Delay::fixed(Duration::ZERO);

    /// Always the same delay.
    pub const fn fixed(delay: Duration) -> Self {
        Delay { least: delay, most: delay }
    }

    /// Anything between two delays, whichever comes first.
    pub fn between(one: Duration, other: Duration) -> Self {
        Delay { least: one.min(other), most: one.max(other) }
    }

    /// The delay for one pod: the same for the same seed and text, wherever it is asked.
    pub(super) fn draw(self, seed: u64, text: &str) -> Duration {
        let span = u64::try_from((self.most.saturating_sub(self.least)).as_nanos()).unwrap_or(u64::MAX);
        let offset = span.checked_add(1).map_or(0, |choices| chance::draw(seed, text) % choices);
        self.least + Duration::from_nanos(offset)
    }
}

/// Why a text is not a delay.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DelayError {
    /// Not a duration such as `50ms` or `2s`.
    #[error("`{0}` is not a duration such as 50ms, 2s or 2s..5s")]
    NotADuration(String),
    /// Before zero or beyond what is accepted.
    #[error("`{0}` is not between 0s and 24h")]
    OutOfBounds(String),
    /// A range whose end comes before its start.
    #[error("the range `{0}` ends before it starts")]
    Backwards(String),
}

impl FromStr for Delay {
    type Err = DelayError;

    fn from_str(text: &str) -> Result<Self, DelayError> {
        let Some((least, most)) = text.split_once("..") else {
            return duration(text).map(Delay::fixed);
        };
        let delay = Delay { least: duration(least)?, most: duration(most)? };
        if delay.least > delay.most { Err(DelayError::Backwards(text.to_owned())) } else { Ok(delay) }
    }
}

pub(super) fn duration(text: &str) -> Result<Duration, DelayError> {
    let signed: SignedDuration = text.parse().map_err(|_| DelayError::NotADuration(text.to_owned()))?;
    let delay = Duration::try_from(signed).map_err(|_| DelayError::OutOfBounds(text.to_owned()))?;
    if delay > MAX_DELAY { Err(DelayError::OutOfBounds(text.to_owned())) } else { Ok(delay) }
}

/// What goes wrong with a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    NeverReady,
    CrashLoop,
    ImagePull,
    StuckTerminating,
    InitCrashLoop,
    UnreadyAfter(Delay),
    /// The containers end by themselves, with this exit code.
    EndAfter(Delay, u8),
}

/// Why a text is not a fault.
#[derive(Debug, thiserror::Error)]
pub(super) enum FaultError {
    #[error(
        "`{0}` is not never-ready, crash-loop, init-crash-loop, image-pull, stuck-terminating, \
         unready-after=<duration>, exit-after=<duration> or fail-after=<duration>"
    )]
    Unknown(String),
    #[error("{0}: {1}")]
    After(String, DelayError),
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        match text {
            "never-ready" => Ok(Fault::NeverReady),
            "crash-loop" => Ok(Fault::CrashLoop),
            "image-pull" => Ok(Fault::ImagePull),
            "stuck-terminating" => Ok(Fault::StuckTerminating),
            "init-crash-loop" => Ok(Fault::InitCrashLoop),
            _ => {
                let (what, delay) = text.split_once('=').unwrap_or_default();
                let fault = match what {
                    "unready-after" => Fault::UnreadyAfter,
                    "exit-after" => |delay| Fault::EndAfter(delay, 0),
                    "fail-after" => |delay| Fault::EndAfter(delay, 1),
                    _ => return Err(FaultError::Unknown(text.to_owned())),
                };
                delay.parse().map(fault).map_err(|error| FaultError::After(what.to_owned(), error))
            }
        }
    }
}

/// How exec probes end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exec {
    startup: bool,
    readiness: bool,
    liveness: bool,
}

impl Default for Exec {
    fn default() -> Self {
        Exec { startup: true, readiness: true, liveness: true }
    }
}

impl Exec {
    pub(super) fn passes(self, purpose: Purpose) -> bool {
        match purpose {
            Purpose::Startup => self.startup,
            Purpose::Readiness => self.readiness,
            Purpose::Liveness => self.liveness,
        }
    }
}

/// Why a text does not say how exec probes end.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is neither pass or fail nor such as readiness=fail,liveness=pass")]
pub(super) struct ExecError(String);

impl FromStr for Exec {
    type Err = ExecError;

    fn from_str(text: &str) -> Result<Self, ExecError> {
        let mut exec = Exec::default();
        for part in text.split(',').map(str::trim) {
            let (purpose, end) =
                part.split_once('=').map_or(("", part), |(purpose, end)| (purpose.trim(), end.trim()));
            let passes = match end {
                "pass" => true,
                "fail" => false,
                _ => return Err(ExecError(text.to_owned())),
            };
            match purpose {
                "" => exec = Exec { startup: passes, readiness: passes, liveness: passes },
                "startup" => exec.startup = passes,
                "readiness" => exec.readiness = passes,
                "liveness" => exec.liveness = passes,
                _ => return Err(ExecError(text.to_owned())),
            }
        }
        Ok(exec)
    }
}

/// What a pod's annotations ask for. What is absent or cannot be read is `None` and means the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Behaviour {
    pub(super) start: Option<Delay>,
    pub(super) ready: Option<Delay>,
    pub(super) stop: Option<Delay>,
    pub(super) init: Option<Delay>,
    pub(super) init_runs: Option<u32>,
    pub(super) init_key: Option<String>,
    pub(super) fault: Option<Fault>,
    pub(super) exec: Option<Exec>,
    pub(super) answers: Option<Answers>,
    /// What could not be read and why, for the pod's owner to see.
    pub(super) complaint: Option<String>,
}

impl Behaviour {
    /// Reads the annotations of the pod with this ordinal; those without our prefix are none of our business.
    pub(super) fn read<'a>(
        annotations: impl IntoIterator<Item = (&'a str, &'a str)>,
        ordinal: Option<u32>,
    ) -> Self {
        let mut behaviour = Behaviour::default();
        let mut complaints: Vec<String> = Vec::new();
        let mut hit = true;
        for (key, value) in annotations.into_iter().filter(|(key, _)| key.starts_with(PREFIX)) {
            let value = value.trim();
            let mut complain =
                |error: &dyn fmt::Display| complaints.push(format!("{key} is ignored: {error}"));
            match key {
                START_DELAY => behaviour.start = value.parse().map_err(|error| complain(&error)).ok(),
                READY_DELAY => behaviour.ready = value.parse().map_err(|error| complain(&error)).ok(),
                STOP_DELAY => behaviour.stop = value.parse().map_err(|error| complain(&error)).ok(),
                INIT_DELAY => behaviour.init = value.parse().map_err(|error| complain(&error)).ok(),
                INIT_RUNS => {
                    let runs = value.parse().ok().filter(|runs| (1..=MAX_INIT_RUNS).contains(runs));
                    if runs.is_none() {
                        complain(&format_args!("`{value}` is not a number from 1 to {MAX_INIT_RUNS}"));
                    }
                    behaviour.init_runs = runs;
                }
                INIT_KEY => behaviour.init_key = Some(value.to_owned()).filter(|name| !name.is_empty()),
                EXEC => behaviour.exec = value.parse().map_err(|error| complain(&error)).ok(),
                HTTP => behaviour.answers = value.parse().map_err(|error| complain(&error)).ok(),
                FAULT if value.is_empty() => {}
                FAULT => behaviour.fault = value.parse().map_err(|error| complain(&error)).ok(),
                FAULT_ORDINALS => match ordinals(value) {
                    Some(chosen) => hit = ordinal.is_some_and(|ordinal| chosen.contains(&ordinal)),
                    None => complain(&format_args!("`{value}` is not a list of ordinals such as 0,2")),
                },
                _ => complain(&"no such setting"),
            }
        }
        behaviour.fault = behaviour.fault.filter(|_| hit);
        behaviour.complaint = (!complaints.is_empty()).then(|| complaints.join("; "));
        behaviour
    }
}

fn ordinals(text: &str) -> Option<Vec<u32>> {
    let chosen: Vec<u32> = text
        .split(',')
        .take(MAX_FAULT_ORDINALS + 1)
        .map(|ordinal| ordinal.trim().parse().ok())
        .collect::<Option<_>>()?;
    (chosen.len() <= MAX_FAULT_ORDINALS).then_some(chosen)
}

#[cfg(test)]
#[path = "behaviour_tests.rs"]
mod tests;
