//! Carries out what [`decide`] decides.

use std::future::pending;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use sts_plus_api::keys;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, info, warn};

use super::Config;
use super::decide::{Claim, Decision, Loss, Moment, View, decide};
use super::leadership::{Leading, LeaseState};
use super::record::Lease;
use super::trouble::Trouble;
use crate::shell::api::{Api, ApiError, CALL_TIMEOUT, Kind, Lines, Place};

/// Two attempts fit between the moment a renewal is due and the end of the term, so that one connection that
/// has died silently does not cost the lease.
const RENEW_TIMEOUT: Duration = Duration::from_millis(2_500);

/// A release that takes longer than this makes the shutdown slow; the lease then runs out by itself.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// Attempts to release: a conflict or a lost answer is followed by one more look.
const RELEASE_ATTEMPTS: u32 = 3;

/// How long the server is asked to keep a watch: under the ten minutes after which intermediaries tend to cut.
const WATCH_SECONDS: &str = "590";

/// A watch that is silent for longer than it was asked to last is dead.
const WATCH_IDLE_LIMIT: Duration = Duration::from_mins(10);

/// The first pause after a failure; each further one doubles it.
const RETRY_FIRST: Duration = Duration::from_millis(250);

/// The longest pause after failures: no more requests than renewals would make, and a lease that is free again
/// is found in time.
const RETRY_CAP: Duration = Duration::from_secs(5);

/// How often a trouble that lasts is logged.
const REMIND_EVERY: Duration = Duration::from_mins(1);

/// The loop of a candidate.
pub(super) struct Elector {
    api: Api,
    config: Config,
    me: String,
    started: Instant,
    view: View,
    watch: Option<Watch>,
    state: watch::Sender<LeaseState>,
    signals: Signals,
    /// Whether the server may have got a write of ours.
    has_written: bool,
    failures: u32,
    /// The last trouble logged, and when.
    logged: Option<(String, Instant)>,
    /// The holder that we said we follow.
    following: Option<String>,
}

struct Watch {
    lines: Lines,
    /// Whether it has delivered anything; one that has not is a failure when it ends.
    fruitful: bool,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: Value,
}

/// What the rest of the process tells the loop.
pub(super) struct Signals {
    /// No new writes.
    pub(super) stop: watch::Receiver<bool>,
    /// No writes in flight either.
    pub(super) resigned: watch::Receiver<bool>,
}

impl Signals {
    fn stopping(&self) -> bool {
        *self.stop.borrow() || *self.resigned.borrow()
    }

    async fn stopped(&mut self) {
        tokio::select! {
            biased;
            () = told(&mut self.stop) => {}
            () = told(&mut self.resigned) => {}
        }
    }
}

async fn told(signal: &mut watch::Receiver<bool>) {
    // A signal whose sender is gone will not come.
    if signal.wait_for(|told| *told).await.is_err() {
        pending::<()>().await;
    }
}

impl Elector {
    pub(super) fn new(api: Api, config: Config, signals: Signals) -> (Self, watch::Receiver<LeaseState>) {
        let (sender, receiver) = watch::channel(LeaseState::default());
        let elector = Self {
            me: format!("{}_{:016x}", config.identity, api.chance().draw()),
            api,
            config,
            started: Instant::now(),
            view: View::default(),
            watch: None,
            state: sender,
            signals,
            has_written: false,
            failures: 0,
            logged: None,
            following: None,
        };
        (elector, receiver)
    }

    /// Takes part in the election until told to stop, then releases the lease.
    pub(super) async fn run(mut self) {
        while !self.signals.stopping() {
            let decision = decide(&self.view, &self.me, self.now(), &self.config.timing);
            let done = self.carry_out(decision).await;
            self.publish();
            if let Err(trouble) = done {
                self.failures = self.failures.saturating_add(1);
                self.log(&trouble);
                self.wait(self.now() + self.pause(&trouble)).await;
            }
        }
        self.retire().await;
    }

    async fn carry_out(&mut self, decision: Decision) -> Result<(), Trouble> {
        match decision {
            Decision::Read => {
                let api = self.api.with_call_limit(self.call_limit());
                let read = tokio::select! {
                    biased;
                    read = api.get(place(&self.config)) => read,
                    () = self.signals.stopped() => return Ok(()),
                };
                self.note_read(read)
            }
            Decision::Create => {
                let lease = Lease::unheld(&self.config.namespace, &self.config.name);
                self.write("create", lease.taken(&self.me, self.lease_seconds(), self.api.now())).await
            }
            Decision::Acquire(claim) => {
                let Some(lease) = self.view.lease() else { return Ok(()) };
                let lease = lease.taken(&self.me, self.lease_seconds(), self.api.now());
                let holder = self.view.holder();
                match claim {
                    Claim::Released => debug!("the lease is free"),
                    Claim::Expired => debug!(holder, "the holder of the lease has been silent for too long"),
                    Claim::Own => debug!("the lease is still our own"),
                }
                self.write("update", lease).await
            }
            Decision::Renew => {
                let Some(lease) = self.view.lease() else { return Ok(()) };
                self.write("update", lease.renewed(self.lease_seconds(), self.api.now())).await
            }
            Decision::Lead { until } => {
                self.wait(until).await;
                Ok(())
            }
            Decision::Follow { until } => self.follow(until).await,
            Decision::StepDown(loss) => {
                self.lose(loss);
                Ok(())
            }
        }
    }

    fn note_read(&mut self, read: Result<Value, ApiError>) -> Result<(), Trouble> {
        match read {
            Ok(object) => {
                let lease = Lease::read(object)?;
                self.view.found(lease, self.now());
            }
            Err(ApiError::NotFound(_)) => self.view.found_none(self.now()),
            Err(error) => return Err(Trouble::of("get", error)),
        }
        Ok(())
    }

    /// Creates or replaces the lease; its success is what begins and prolongs a term.
    async fn write(&mut self, verb: &'static str, lease: Lease) -> Result<(), Trouble> {
        // A watch from before may still bring what is older than the answer.
        self.watch = None;
        self.has_written = true;
        let object = lease.to_object()?;
        let api = self.api.with_call_limit(self.call_limit());
        let sent_at = self.now();
        let answer = if verb == "create" {
            api.create(collection(&self.config), keys::MANAGER_LEASE, &object).await
        } else {
            api.replace(place(&self.config), keys::MANAGER_LEASE, &object).await
        };
        let trouble = match answer.map(Lease::read) {
            Ok(Ok(lease)) => {
                self.view.wrote(lease, &self.me, sent_at, self.now(), &self.config.timing);
                self.failures = 0;
                self.logged = None;
                return Ok(());
            }
            Ok(Err(malformed)) => malformed.into(),
            Err(error) => Trouble::of(verb, error),
        };
        self.view.failed(trouble.failure(), self.now());
        Err(trouble)
    }

    /// Waits for a change of the lease, but not beyond `until`.
    async fn follow(&mut self, until: Moment) -> Result<(), Trouble> {
        self.announce_following();
        let opened = match self.watch.take() {
            Some(watch) => Some(watch),
            None => self.open_watch(until).await?,
        };
        let Some(mut watch) = opened else { return Ok(()) };
        // A watch that was silent for so long that the lease seems free is not used again: it may be dead.
        let line = tokio::select! {
            // After a pause of the process both may be ready: what was said counts before the silence.
            biased;
            () = self.signals.stopped() => return Ok(()),
            line = watch.lines.next(WATCH_IDLE_LIMIT) => line.map_err(Trouble::Watch)?,
            () = sleep_until(self.started + until) => return Ok(()),
        };
        match line {
            Some(line) => {
                if let Err(trouble) = self.note_event(&line) {
                    self.view.doubt();
                    return Err(trouble);
                }
                self.failures = 0;
                self.watch = Some(Watch { fruitful: true, ..watch });
                Ok(())
            }
            None if watch.fruitful => Ok(()),
            None => Err(Trouble::WatchEnded),
        }
    }

    /// Opens a watch at the version last seen; `None` when the time is up before.
    async fn open_watch(&mut self, until: Moment) -> Result<Option<Watch>, Trouble> {
        let Some(lease) = self.view.lease() else {
            // The lease was deleted, so there is no version to watch from. Whether another has created it
            // meanwhile is found out by the attempt to do so.
            self.wait(until).await;
            return Ok(None);
        };
        let selector = format!("metadata.name={}", self.config.name);
        let query = [
            // A permission that names the object covers a watch only with this selector.
            ("fieldSelector", selector.as_str()),
            ("resourceVersion", lease.resource_version()),
            ("timeoutSeconds", WATCH_SECONDS),
        ];
        let opened = tokio::select! {
            biased;
            opened = self.api.watch(collection(&self.config), &query) => opened,
            () = sleep_until(self.started + until) => return Ok(None),
            () = self.signals.stopped() => return Ok(None),
        };
        match opened {
            Ok(lines) => Ok(Some(Watch { lines, fruitful: false })),
            Err(error) => {
                self.view.doubt();
                Err(Trouble::of("watch", error))
            }
        }
    }

    fn note_event(&mut self, line: &[u8]) -> Result<(), Trouble> {
        let event: Event = serde_json::from_slice(line).map_err(Trouble::Event)?;
        match event.kind.as_str() {
            "ADDED" | "MODIFIED" => {
                let lease = Lease::read(event.object)?;
                self.view.found(lease, self.now());
                Ok(())
            }
            "DELETED" => {
                self.view.found_none(self.now());
                Ok(())
            }
            "ERROR" => Err(Trouble::of_watch(&event.object)),
            _ => Ok(()),
        }
    }

    /// Ends the term and, once nothing is in flight any more, releases the lease.
    async fn retire(mut self) {
        self.view.step_down();
        self.publish();
        let holds = self.view.lease().is_some() && self.view.holder() == Some(&self.me);
        let perhaps_holds = self.view.in_doubt() && self.has_written;
        if !holds && !perhaps_holds {
            return;
        }
        // After so long without a renewal there is nothing left to release.
        if timeout(self.config.timing.lease, told(&mut self.signals.resigned)).await.is_err() {
            warn!("the lease was not released: work is still in flight; it runs out by itself");
            return;
        }
        if timeout(RELEASE_TIMEOUT, self.release()).await.is_err() {
            warn!("the lease was not released: the server did not answer; it runs out by itself");
        }
    }

    async fn release(&mut self) {
        for _ in 0..RELEASE_ATTEMPTS {
            if self.view.in_doubt() {
                let read = self.api.get(place(&self.config)).await;
                if let Err(trouble) = self.note_read(read) {
                    self.log(&trouble);
                    continue;
                }
            }
            let Some(lease) = self.view.lease().filter(|lease| lease.record().holder() == Some(&self.me))
            else {
                return;
            };
            match self.write("update", lease.released(self.api.now())).await {
                Ok(()) => {
                    info!("released the lease");
                    return;
                }
                Err(trouble) => self.log(&trouble),
            }
        }
    }

    fn lose(&mut self, loss: Loss) {
        match loss {
            Loss::NotRenewed => warn!("no longer leading: the lease was not renewed in time"),
            Loss::Taken => {
                warn!(holder = self.view.holder(), "no longer leading: another replica has the lease");
            }
            Loss::Deleted => warn!("no longer leading: the lease was deleted"),
        }
        self.view.step_down();
    }

    /// Tells the rest of the process where we stand.
    fn publish(&mut self) {
        let leading = self.view.term().map(|term| Leading {
            epoch: term.epoch,
            ends_at: Some(self.started + term.sent_at + self.config.timing.give_up),
        });
        let epoch = leading.map(|leading| leading.epoch);
        let mut before = None;
        // A mere renewal wakes nobody.
        self.state.send_if_modified(|state| {
            before = state.leading.map(|leading| leading.epoch);
            *state = LeaseState { decided: state.decided || leading.is_some(), leading };
            before != epoch
        });
        self.api.metrics().leader.set(i64::from(epoch.is_some()));
        if let Some(epoch) = epoch.filter(|_| before != epoch) {
            self.following = None;
            info!(identity = self.me, epoch = epoch.number(), "leading");
        }
    }

    fn announce_following(&mut self) {
        self.state.send_if_modified(|state| !std::mem::replace(&mut state.decided, true));
        if self.following.as_deref() != self.view.holder() {
            self.following = self.view.holder().map(ToOwned::to_owned);
            self.logged = None;
            info!(identity = self.me, holder = self.following, "standing by: another replica has the lease");
        }
    }

    /// Logs a trouble when it is new, and now and then while it lasts.
    fn log(&mut self, trouble: &Trouble) {
        if let Trouble::Raced(message) = trouble {
            debug!(message, "another replica wrote the lease first");
            return;
        }
        let words = trouble.to_string();
        let known =
            self.logged.as_ref().is_some_and(|(last, at)| *last == words && at.elapsed() < REMIND_EVERY);
        if !known {
            let Config { namespace, name, .. } = &self.config;
            warn!(namespace, lease = name, "leader election failed and is retried: {words}");
            self.logged = Some((words, Instant::now()));
        }
    }

    /// How long to wait after a failure.
    fn pause(&self, trouble: &Trouble) -> Duration {
        let doubled = RETRY_FIRST
            .saturating_mul(1_u32.checked_shl(self.failures.saturating_sub(1)).unwrap_or(u32::MAX));
        // Candidates that failed together must not come back together.
        let jittered = doubled.min(RETRY_CAP).mul_f64(self.api.chance().upper_half());
        jittered.max(trouble.retry_after())
    }

    /// Waits until then, or until the term ends, or until told to stop.
    async fn wait(&mut self, until: Moment) {
        let end = self.term_end().unwrap_or(Moment::MAX);
        tokio::select! {
            biased;
            () = sleep_until(self.started + until.min(end)) => {}
            () = self.signals.stopped() => {}
        }
    }

    fn term_end(&self) -> Option<Moment> {
        self.view.term().map(|term| term.sent_at + self.config.timing.give_up)
    }

    /// A holder needs the verdict on a renewal while it can still retry.
    fn call_limit(&self) -> Duration {
        self.term_end().map_or(CALL_TIMEOUT, |end| end.saturating_sub(self.now()).min(RENEW_TIMEOUT))
    }

    fn lease_seconds(&self) -> u64 {
        self.config.timing.lease.as_secs()
    }

    fn now(&self) -> Moment {
        self.started.elapsed()
    }
}

fn place(config: &Config) -> Place<'_> {
    Place::object(Kind::Lease, &config.namespace, &config.name)
}

fn collection(config: &Config) -> Place<'_> {
    Place::collection(Kind::Lease, Some(&config.namespace))
}

#[cfg(test)]
#[path = "elector_tests.rs"]
mod tests;
