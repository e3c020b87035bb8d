//! Digests of ConfigMaps and Secrets that plans ask for. Each object is followed by itself, by name, for as long as a key asks
//! for it; of what it holds nothing is kept but a digest.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::{self, Write};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use ring::digest::{Context, SHA256};
use serde::Deserialize;
use sts_plus_api::keys;
use sts_plus_planner::extended::probe::Digest;
use sts_plus_planner::extended::spec::MAX_REFERENCES as MAX_PER_KEY;
use sts_plus_planner::plan::{Kind, Object};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use crate::shell::api::{Api, ApiError, LIST_TIMEOUT, MAX_OBJECT_BYTES, Place, of_code};
use crate::shell::backoff;
use crate::shell::kinds::FIELD_SELECTOR;

/// How long the server keeps a watch open, in seconds: each renewal is a request.
const WATCH_SECONDS: &str = "590";

/// A watch that is silent for longer is dead: the server sends a bookmark every minute.
const IDLE_LIMIT: Duration = Duration::from_secs(150);

/// What has gone well for so long has recovered: longer than the longest wait after a failure, so that no failure that
/// repeats itself is taken for the first one.
const RECOVERED_AFTER: Duration = Duration::from_mins(1);

/// How many times longer than after any other failure to wait after a refusal: a right is granted by a person, within hours,
/// and a namespace without it may have hundreds of Secrets that are referred to.
const REFUSED_WAITS: u32 = 4;

/// An object that has been read is reported as unreadable after so many refusals in succession, some three seconds: an API
/// server that has just started refuses what it grants once it has read the roles.
const REFUSALS_UNTIL_UNREADABLE: u32 = 5;

/// The objects that all keys follow.
pub(super) struct Digests<K> {
    state: Arc<Mutex<State<K>>>,
    /// Dropped with the controller, and the watches with it.
    tasks: Mutex<JoinSet<()>>,
}

struct State<K> {
    objects: HashMap<Object, Followed<K>>,
    keys: HashMap<K, Asked>,
    followers: u64,
}

/// What a key has asked for.
#[derive(Default)]
struct Asked {
    followed: BTreeSet<Object>,
    /// Those beyond [`MAX_PER_KEY`].
    excess: BTreeSet<Object>,
}

struct Followed<K> {
    digest: Digest,
    keys: HashSet<K>,
    /// Which follower it is: one that was aborted may still be about to report.
    follower: u64,
    task: AbortHandle,
}

impl<K> fmt::Debug for Digests<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Digests").finish_non_exhaustive()
    }
}

impl<K> Default for Digests<K> {
    fn default() -> Self {
        let state = State { objects: HashMap::new(), keys: HashMap::new(), followers: 0 };
        Self { state: Arc::new(Mutex::new(state)), tasks: Mutex::default() }
    }
}

impl Asked {
    fn of(objects: &BTreeSet<Object>) -> Self {
        let mut objects = objects.iter().cloned();
        Self { followed: objects.by_ref().take(MAX_PER_KEY).collect(), excess: objects.collect() }
    }

    /// Why an object is not followed.
    fn too_many(&self) -> Digest {
        let asked = self.followed.len().saturating_add(self.excess.len());
        Digest::Unreadable(
            format!("the pod template refers to {asked} ConfigMaps and Secrets, and at most {MAX_PER_KEY} are followed")
                .into(),
        )
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> Digests<K> {
    /// What is known of the objects that a key has asked for.
    pub(super) fn known(&self, key: &K) -> HashMap<Object, Digest> {
        let state = self.state.lock();
        let Some(asked) = state.keys.get(key) else { return HashMap::new() };
        let digest = |object: &Object| state.objects.get(object).map(|followed| followed.digest.clone());
        let followed = asked.followed.iter().filter_map(|object| Some((object.clone(), digest(object)?)));
        followed.chain(asked.excess.iter().map(|object| (object.clone(), asked.too_many()))).collect()
    }

    /// Follows these objects for a key, and no others.
    pub(super) fn follow(
        &self,
        key: &K,
        objects: &BTreeSet<Object>,
        api: &Api,
        wake: &(impl Fn(K) + Clone + Send + Sync + 'static),
    ) {
        let asked = Asked::of(objects);
        let mut has_news = false;
        {
            let mut state = self.state.lock();
            let before = state.keys.remove(key).unwrap_or_default();
            for object in before.followed.difference(&asked.followed) {
                state.leave(object, key);
            }
            for object in asked.followed.difference(&before.followed) {
                if let Some(known) = state.objects.get_mut(object) {
                    known.keys.insert(key.clone());
                    has_news |= known.digest != Digest::Unknown;
                } else {
                    self.begin(&mut state, key, object, api, wake);
                }
            }
            has_news |= asked.excess != before.excess;
            if !objects.is_empty() {
                state.keys.insert(key.clone(), asked);
            }
        }
        if has_news {
            wake(key.clone());
        }
    }

    /// Follows an object that nobody follows yet.
    fn begin(
        &self,
        state: &mut State<K>,
        key: &K,
        object: &Object,
        api: &Api,
        wake: &(impl Fn(K) + Clone + Send + Sync + 'static),
    ) {
        state.followers += 1;
        let follower = Follower {
            api: api.clone(),
            object: object.clone(),
            id: state.followers,
            state: Arc::clone(&self.state),
            wake: wake.clone(),
            refusals: 0,
        };
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        let task = tasks.spawn(follower.run());
        let (digest, keys) = (Digest::Unknown, HashSet::from([key.clone()]));
        state.objects.insert(object.clone(), Followed { digest, keys, follower: state.followers, task });
    }

    /// Follows nothing any more for a key that is gone.
    pub(super) fn forget(&self, key: &K) {
        let mut state = self.state.lock();
        for object in state.keys.remove(key).unwrap_or_default().followed {
            state.leave(&object, key);
        }
    }
}

impl<K: Eq + Hash> State<K> {
    /// Ends to follow an object for a key.
    fn leave(&mut self, object: &Object, key: &K) {
        let Some(followed) = self.objects.get_mut(object) else { return };
        followed.keys.remove(key);
        if followed.keys.is_empty() {
            followed.task.abort();
            self.objects.remove(object);
        }
    }
}

/// Follows one object.
struct Follower<K, W> {
    api: Api,
    object: Object,
    id: u64,
    state: Arc<Mutex<State<K>>>,
    wake: W,
    /// How many lists were refused in succession.
    refusals: u32,
}

impl<K: Clone + Eq + Hash, W: Fn(K)> Follower<K, W> {
    async fn run(mut self) {
        let mut failures = 0_u32;
        loop {
            let began = Instant::now();
            let error = self.round().await;
            if began.elapsed() >= RECOVERED_AFTER {
                failures = 0;
            }
            failures = failures.saturating_add(1);
            let wait = backoff::delay(failures, self.api.chance());
            tokio::time::sleep(match error {
                ApiError::Throttled { retry_after } => wait.max(retry_after),
                ApiError::Forbidden(_) => wait * REFUSED_WAITS,
                _ => wait,
            })
            .await;
        }
    }

    /// One consistent list, and watches from there until one of them fails.
    async fn round(&mut self) -> ApiError {
        let object = self.object.clone();
        let place = Place::collection(object.kind, Some(&object.namespace));
        let selector = format!("metadata.name={}", object.name);
        let mut version = match self.list(place, &selector).await {
            Ok(version) => version,
            Err(error) => {
                self.not_listed(&error);
                return error;
            }
        };
        self.refusals = 0;
        loop {
            let began = Instant::now();
            if let Err(error) = self.watch(place, &selector, &mut version).await {
                return error;
            }
            if began.elapsed() < RECOVERED_AFTER {
                return ApiError::Unanswered("the watch ended early".to_owned());
            }
        }
    }

    /// Lists the object; the version to watch from.
    async fn list(&self, place: Place<'_>, selector: &str) -> Result<String, ApiError> {
        let limits = (LIST_TIMEOUT, MAX_OBJECT_BYTES);
        let listed = self.api.list_within(place, &[(FIELD_SELECTOR, selector)], limits).await?;
        let listed: List = serde_json::from_slice(&listed).map_err(|error| unreadable(&error))?;
        self.found(listed.items.iter().flatten().next().map_or(Digest::Absent, Config::known));
        Ok(listed.metadata.resource_version)
    }

    /// Watches the object from a version, until the server ends the watch.
    async fn watch(&self, place: Place<'_>, selector: &str, version: &mut String) -> Result<(), ApiError> {
        let from = version.clone();
        let query = [
            (FIELD_SELECTOR, selector),
            ("resourceVersion", from.as_str()),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", WATCH_SECONDS),
        ];
        let mut lines = self.api.watch(place, &query).await?;
        while let Some(line) = lines.next(IDLE_LIMIT).await? {
            let event: Event = serde_json::from_slice(&line).map_err(|error| unreadable(&error))?;
            match event.kind.as_str() {
                "ADDED" | "MODIFIED" => self.found(event.object.known()),
                "DELETED" => self.found(Digest::Absent),
                "ERROR" => {
                    let code = http::StatusCode::from_u16(event.object.code.unwrap_or(500));
                    let code = code.unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
                    return Err(of_code(code, "the watch ended".to_owned(), None));
                }
                _ => {}
            }
            if !event.object.metadata.resource_version.is_empty() {
                *version = event.object.metadata.resource_version;
            }
        }
        Ok(())
    }

    /// A list has failed. What passes by itself changes nothing about what is known; nor does a right that is missing for a
    /// moment, or only that to watch: what is listed after each wait is recent enough.
    fn not_listed(&mut self, error: &ApiError) {
        let why = match error {
            ApiError::Forbidden(_) => self.forbidden(),
            ApiError::Refused { code, .. } => format!("the API server refuses to list it with {code}"),
            ApiError::TooLarge { .. } => error.to_string(),
            _ => return,
        };
        self.refusals = self.refusals.saturating_add(1);
        let is_unknown = self.known().is_none_or(|digest| digest == Digest::Unknown);
        if is_unknown || self.refusals >= REFUSALS_UNTIL_UNREADABLE {
            self.found(Digest::Unreadable(why.into()));
        }
    }

    fn forbidden(&self) -> String {
        let Object { kind, namespace, .. } = &self.object;
        match kind {
            Kind::Secret => format!(
                "the operator may not read Secrets of namespace {namespace}: the chart's secrets.namespaces has to name it"
            ),
            kind => format!("the operator may not list and watch {kind} of namespace {namespace}"),
        }
    }

    fn known(&self) -> Option<Digest> {
        let state = self.state.lock();
        let known = state.objects.get(&self.object).filter(|known| known.follower == self.id);
        known.map(|known| known.digest.clone())
    }

    /// Keeps what is known; wakes those who ask for it where that is news.
    fn found(&self, digest: Digest) {
        let keys: Vec<K> = {
            let mut state = self.state.lock();
            let known = state.objects.get_mut(&self.object).filter(|known| known.follower == self.id);
            let Some(known) = known.filter(|known| known.digest != digest) else { return };
            known.digest = digest;
            known.keys.iter().cloned().collect()
        };
        keys.into_iter().for_each(&self.wake);
    }
}

fn unreadable(error: &serde_json::Error) -> ApiError {
    // The text of the error may quote a value of a Secret.
    ApiError::Unanswered(format!("an answer that cannot be read, in line {}", error.line()))
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    metadata: Version,
    /// An empty list may be null.
    #[serde(default)]
    items: Option<Vec<Config>>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: Config,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Version {
    resource_version: String,
    labels: Option<BTreeMap<String, String>>,
}

/// A ConfigMap or a Secret; not shown, since it may hold secrets.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    #[serde(default)]
    metadata: Version,
    #[serde(default)]
    data: Option<BTreeMap<String, String>>,
    #[serde(default)]
    binary_data: Option<BTreeMap<String, String>>,
    #[serde(default)]
    code: Option<u16>,
}

impl Config {
    /// What is known of it.
    fn known(&self) -> Digest {
        let label = |key: &&str| self.metadata.labels.as_ref().and_then(|labels| labels.get(*key));
        let is_versioned = |key: &&str| label(key).is_some_and(|kind| kind == keys::VERSIONED_SECRET);
        let digest = self.digest().into();
        if keys::SECRET_KIND.iter().any(is_versioned) {
            Digest::Versioned(digest)
        } else {
            Digest::Known(digest)
        }
    }

    /// The digest of the data. Lengths are part of it, so that no two data look the same.
    fn digest(&self) -> String {
        let mut context = Context::new(&SHA256);
        for (mark, data) in [(b"d", &self.data), (b"b", &self.binary_data)] {
            for (key, value) in data.iter().flatten() {
                context.update(mark);
                for text in [key, value] {
                    context.update(&u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes());
                    context.update(text.as_bytes());
                }
            }
        }
        context.finish().as_ref().iter().fold(String::new(), |mut hex, byte| {
            // Writing to a String does not fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }
}

#[cfg(test)]
#[path = "digests_following_tests.rs"]
mod following_tests;
#[cfg(test)]
#[path = "digests_tests.rs"]
mod tests;
