//! Keeps the Secret of the admission server, and the CA bundle in its webhook configurations.
//!
//! Every replica does: it follows the one Secret, shows what it holds, and renews what is due. A write carries the version that it was
//! decided on, so of several replicas one succeeds and the others read what it has written.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use sts_plus_api::keys::MANAGER_WEBHOOK;
use sts_plus_api::kinds::Definition;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::bundle;
use super::follow::{Named, Sight, follow};
use super::keyring::Keyring;
use super::renewal::{Step, Timing, due_in, step};
use super::serving::Serving;
use crate::shell::api::{Api, ApiError, Kind, Place};
use crate::shell::backoff;

/// Where mutating webhooks are configured.
const MUTATING: Kind = Kind::Other(
    &Definition::built_in(
        "admissionregistration.k8s.io/v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
    )
    .cluster_wide(),
);

/// How often the time is looked at: clocks are set, and machines sleep.
const LOOK_INTERVAL: Duration = Duration::from_mins(1);

/// The least time to wait: what is due is found to be so only then.
const LEAST_WAIT: Duration = Duration::from_millis(20);

/// The least time between two renewals that succeed, so that two programs that do not agree about a Secret do not fight over it
/// without a pause.
const RENEWAL_PAUSE: Duration = Duration::from_secs(1);

/// What is kept, and where.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    /// The namespace of the Secret.
    pub(super) namespace: String,
    pub(super) secret: String,
    /// The names of mutating webhook configurations.
    pub(super) configurations: Vec<String>,
    /// The names under which API servers reach this server.
    pub(super) names: Vec<String>,
    pub(super) timing: Timing,
}

/// Keeps it all for as long as it is polled.
pub(super) async fn keep(api: Api, kept: Kept, serving: Arc<Serving>) {
    let mut followers = JoinSet::new();
    let mut begin = |kind, namespace: Option<&str>, name: &str| {
        let named = Named { kind, namespace: namespace.map(str::to_owned), name: name.to_owned() };
        let (sender, sight) = watch::channel(Sight::Unknown(None));
        followers.spawn(follow(api.clone(), named.clone(), sender));
        Followed { named, sight, written: None }
    };
    let secret = begin(Kind::Secret, Some(&kept.namespace), &kept.secret);
    let configurations = kept.configurations.iter().map(|name| begin(MUTATING, None, name)).collect();
    let keeper = Keeper {
        api,
        kept,
        serving,
        secret,
        configurations,
        keyring: Keyring::default(),
        announced: None,
        renewed: None,
        failures: 0,
    };
    keeper.run().await;
}

/// An object that is followed.
struct Followed {
    named: Named,
    sight: watch::Receiver<Sight>,
    /// What a write has made of it, until the watch shows something else.
    written: Option<Arc<Value>>,
}

impl Followed {
    /// The newest that is known of it.
    fn look(&mut self) -> Sight {
        if self.sight.has_changed().unwrap_or(false) {
            self.written = None;
        }
        match &self.written {
            Some(written) => Sight::Found(Arc::clone(written)),
            None => self.sight.borrow_and_update().clone(),
        }
    }
}

struct Keeper {
    api: Api,
    kept: Kept,
    serving: Arc<Serving>,
    secret: Followed,
    configurations: Vec<Followed>,
    /// What is usable of the Secret, or was before it was deleted.
    keyring: Keyring,
    /// The bundle that all configurations have, and since when they have it.
    announced: Option<(String, Instant)>,
    /// When this process has renewed something last.
    renewed: Option<Instant>,
    /// Writes that have failed in succession.
    failures: u32,
}

/// What is next.
enum Next {
    /// Look again at once: something was written.
    Again,
    /// Wait until something changes, so long at most.
    Wait(Duration),
}

impl Keeper {
    async fn run(mut self) {
        loop {
            let next = match self.round().await {
                Ok(next) => {
                    self.failures = 0;
                    self.serving.report(None);
                    next
                }
                Err(Trouble::Unseen(why)) => {
                    self.serving.report(why);
                    Next::Wait(LOOK_INTERVAL)
                }
                // Somebody else was faster: the watch will show it.
                Err(Trouble::Lost) => {
                    self.failures = self.failures.saturating_add(1);
                    Next::Wait(backoff::delay(self.failures, self.api.chance()))
                }
                Err(Trouble::Failed(why)) => {
                    self.failures = self.failures.saturating_add(1);
                    self.serving.report(Some(why));
                    Next::Wait(backoff::delay(self.failures, self.api.chance()))
                }
            };
            if let Next::Wait(limit) = next {
                tokio::select! {
                    () = self.changed() => {}
                    () = tokio::time::sleep(limit.clamp(LEAST_WAIT, LOOK_INTERVAL)) => {}
                }
            }
        }
    }

    /// One look at everything, and at most one write.
    async fn round(&mut self) -> Result<Next, Trouble> {
        let now = self.api.now();
        let secret = match self.secret.look() {
            Sight::Unknown(error) => {
                return Err(Trouble::Unseen(
                    error.map(|error| format!("Secret {} cannot be read: {error}", self.kept.secret)),
                ));
            }
            // Whoever deletes it wants other keys. What is shown stays until the new authority is announced.
            Sight::Absent => {
                self.keyring = self.keyring.without_authority_key();
                None
            }
            Sight::Found(secret) => {
                self.keyring = Keyring::of_secret(&secret, &self.kept.names, now);
                Some(secret)
            }
        };
        if let Some((certified, until)) = self.keyring.shows(now) {
            self.serving.show(certified, until);
        }
        if let Some(until) = self.keyring.authority_until() {
            self.serving.show_authority(until);
        }
        // Nothing is announced that is not in the Secret: it would be lost with this process.
        let announcement = if secret.is_some() && self.keyring.has_authorities() {
            self.announce().await
        } else {
            self.announced = None;
            Ok(())
        };
        let is_announced = self.is_announced();
        let facts = self.keyring.facts(is_announced);
        let next = match step(facts, now, &self.kept.timing) {
            Step::Keep => {
                let due = due_in(facts, now, &self.kept.timing);
                Next::Wait(Duration::try_from(due).unwrap_or(LOOK_INTERVAL))
            }
            Step::Await => Next::Wait(self.announcement_left().min(LOOK_INTERVAL)),
            Step::Make { .. } if !self.pause_left().is_zero() => Next::Wait(self.pause_left()),
            Step::Make { authority, certificate } => {
                self.renew((authority, certificate), secret.as_deref(), now).await?;
                Next::Again
            }
        };
        announcement.map(|()| next)
    }

    /// Makes what is due and writes it.
    async fn renew(
        &mut self,
        (authority, certificate): (bool, bool),
        before: Option<&Value>,
        now: Timestamp,
    ) -> Result<(), Trouble> {
        let Kept { namespace, secret: name, names, timing, .. } = &self.kept;
        let made = self.keyring.renewed((authority, certificate), names, now, timing);
        let made = made.map_err(|error| Trouble::Failed(error.to_string()))?;
        let secret = made.secret((namespace, name), before);
        let place = Place::object(Kind::Secret, namespace, name);
        let written = match before {
            None => self.api.create(Place { name: None, ..place }, MANAGER_WEBHOOK, &secret).await,
            Some(_) => self.api.replace(place, MANAGER_WEBHOOK, &secret).await,
        };
        let written = written.map_err(|error| Trouble::of(&error, &format!("Secret {name}")))?;
        tracing::info!(
            secret = name,
            authority,
            certificate,
            "renewed the certificates of the admission server"
        );
        self.secret.written = Some(Arc::new(written));
        self.renewed = Some(Instant::now());
        Ok(())
    }

    /// Puts the bundle into the configurations that lack it.
    async fn announce(&mut self) -> Result<(), Trouble> {
        let mut outcome = Ok(());
        let mut is_everywhere = true;
        for configuration in &mut self.configurations {
            let name = &configuration.named.name.clone();
            let found = match configuration.look() {
                Sight::Found(found) => found,
                // Nobody asks this server then.
                Sight::Absent => continue,
                Sight::Unknown(error) => {
                    is_everywhere = false;
                    let why =
                        error.map(|error| format!("webhook configuration {name} cannot be read: {error}"));
                    outcome = outcome.and(Err(Trouble::Unseen(why)));
                    continue;
                }
            };
            if bundle::is_complete(&found, &self.keyring) {
                continue;
            }
            is_everywhere = false;
            let patch = bundle::patch(&found, &self.keyring);
            let place = configuration.named.place();
            match self.api.strategic_merge(place, MANAGER_WEBHOOK, &patch).await {
                Ok(written) => {
                    tracing::info!(configuration = name, "wrote the CA bundle");
                    is_everywhere = true;
                    configuration.written = Some(Arc::new(written));
                }
                Err(error) => {
                    outcome = outcome.and(Err(Trouble::of(&error, &format!("webhook configuration {name}"))));
                }
            }
        }
        let bundle = self.keyring.bundle();
        match &self.announced {
            Some((announced, _)) if is_everywhere && *announced == bundle => {}
            _ => self.announced = is_everywhere.then(|| (bundle, Instant::now())),
        }
        outcome
    }

    /// How long no renewal may be made.
    fn pause_left(&self) -> Duration {
        self.renewed.map_or(Duration::ZERO, |at| RENEWAL_PAUSE.saturating_sub(at.elapsed()))
    }

    fn is_announced(&self) -> bool {
        self.announced.is_some() && self.announcement_left().is_zero()
    }

    /// How long it takes until the bundle is announced.
    fn announcement_left(&self) -> Duration {
        let takes = Duration::try_from(self.kept.timing.announcement).unwrap_or_default();
        self.announced.as_ref().map_or(takes, |(_, since)| takes.saturating_sub(since.elapsed()))
    }

    /// Waits until something is seen of what is followed.
    async fn changed(&mut self) {
        let all = self.configurations.iter_mut().chain([&mut self.secret]);
        let changes: Vec<_> = all
            .map(|followed| {
                Box::pin(async {
                    let mut sight = followed.sight.clone();
                    // A follower that has ended sees nothing any more.
                    if sight.changed().await.is_err() {
                        std::future::pending::<()>().await;
                    }
                })
            })
            .collect();
        futures::future::select_all(changes).await;
    }
}

/// Why a round has come to no end.
enum Trouble {
    /// What it needs is not seen yet, because of this.
    Unseen(Option<String>),
    /// Somebody else has written in between.
    Lost,
    Failed(String),
}

impl Trouble {
    fn of(error: &ApiError, what: &str) -> Self {
        match error {
            ApiError::Conflict(_) | ApiError::AlreadyExists(_) | ApiError::NotFound(_) => Self::Lost,
            ApiError::Forbidden(_) => Self::Failed(format!(
                "{what} may not be written ({error}): the chart grants that where webhooks are served"
            )),
            error => Self::Failed(format!("{what} cannot be written: {error}")),
        }
    }
}
