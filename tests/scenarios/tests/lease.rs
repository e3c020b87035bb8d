//! The election on a real API server, with the permissions that the chart ships.

#![expect(
    clippy::unwrap_used,
    reason = "a test, which clippy recognises by an attribute that this kind does not have"
)]

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use serde_json::json;
use sts_plus_api::keys;
use sts_plus_harness::wait::{NotYet, until};
use sts_plus_harness::{Assets, ControlPlane, Identity, Options, Scope};
use sts_plus_operator::shell::api;
use sts_plus_operator::shell::lease::{Config, Epoch, Leadership, start};
use sts_plus_operator::shell::metrics::Metrics;
use sts_plus_scenarios::rules;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A lease runs out in 15 s.
const DEADLINE: Duration = Duration::from_mins(2);

type Story = fn(&'static str, Arc<ControlPlane>) -> BoxFuture<'static, ()>;

const STORIES: [(&str, Story); 6] = [
    ("a_lease_is_renewed_and_handed_over", |name, server| Box::pin(handed_over(name, server))),
    ("a_silent_leader_is_succeeded", |name, server| Box::pin(succeeded(name, server))),
    ("a_deleted_lease_comes_back", |name, server| Box::pin(deleted(name, server))),
    ("without_permission_it_waits_for_it", |name, server| Box::pin(forbidden(name, server))),
    ("without_its_namespace_it_waits_for_it", |name, server| Box::pin(homeless(name, server))),
    ("a_server_that_went_and_came_back_is_led_anew", |name, server| Box::pin(restarted(name, server))),
];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // The last one takes the server away from the others.
    arguments.test_threads = Some(1);
    rustls::crypto::ring::default_provider().install_default().ok();
    let runtime = Arc::new(Runtime::new().unwrap());
    let options = Options { controllers: Vec::new(), ..Options::default() };
    let server = Assets::find()
        .map(|assets| Arc::new(runtime.block_on(ControlPlane::start(&assets, options)).unwrap()));
    let server = Arc::new(server);
    let trials = STORIES.map(|(name, story)| {
        let (server, runtime) = (Arc::clone(&server), Arc::clone(&runtime));
        Trial::ignorable_test(name, move || -> Result<Completion, Failed> {
            match &*server {
                Ok(server) => runtime.block_on(story(name, Arc::clone(server))),
                Err(missing) => return missing.verdict(),
            }
            Ok(Completion::Completed)
        })
    });
    let conclusion = libtest_mimic::run(&arguments, trials.into());
    drop(server);
    conclusion.exit_code()
}

/// The namespace of a story.
fn namespace(story: &str) -> String {
    story.replace('_', "-")
}

struct Replica {
    identity: Identity,
    leadership: Leadership,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Replica {
    /// One that may do what the chart says.
    async fn permitted(story: &str, server: &ControlPlane, name: &str) -> Self {
        let identity = server.identity(name).unwrap();
        server.grant(&identity, Scope::Namespace(&namespace(story)), rules::home()).await.unwrap();
        Self::start(story, server, identity)
    }

    fn start(story: &str, server: &ControlPlane, identity: Identity) -> Self {
        let (stop, stopped) = watch::channel(false);
        let api = api::Api::new(server.client(&identity).unwrap(), Metrics::new());
        let config = Config::new(namespace(story), identity.name());
        let (leadership, work) = start(api, config, stopped);
        Self { identity, leadership, stop, task: tokio::spawn(work) }
    }

    async fn elected(&self) -> Epoch {
        until(DEADLINE, format!("{} to lead", self.identity.name()), || async {
            self.leadership.current().ok_or_else(|| NotYet::saw("it does not"))
        })
        .await
    }

    async fn leave(self) -> Identity {
        self.stop.send_replace(true);
        self.leadership.resign();
        self.task.await.unwrap();
        self.identity
    }
}

fn leases(story: &str, server: &ControlPlane) -> Api<Lease> {
    Api::namespaced(server.admin(), &namespace(story))
}

/// A leader and a standby that watches it.
async fn pair(story: &str, server: &ControlPlane) -> (Replica, Replica) {
    server.create_namespace(&namespace(story)).await.unwrap();
    let leader = Replica::permitted(story, server, "first").await;
    leader.elected().await;
    let standby = Replica::permitted(story, server, "second").await;
    standby.leadership.clone().decided().await;
    (leader, standby)
}

async fn handed_over(story: &str, server: Arc<ControlPlane>) {
    let (leader, standby) = pair(story, &server).await;
    let epoch = leader.leadership.current().unwrap();
    let leases = leases(story, &server);
    let labels = json!({ "metadata": { "labels": { "team": "x" } } });
    let edited = leases.patch(keys::LEASE, &PatchParams::default(), &Patch::Merge(labels)).await.unwrap();
    let edited = edited.spec.unwrap().renew_time;
    until(DEADLINE, "two renewals", || async {
        let renewed = leases.get(keys::LEASE).await?.spec.and_then(|spec| spec.renew_time);
        let enough = renewed.clone().map(|at| at.0) > edited.clone().map(|at| at.0 + Duration::from_secs(6));
        enough.then_some(()).ok_or_else(|| NotYet::saw(renewed))
    })
    .await;
    assert!(leader.leadership.permits(epoch), "an edit cost the lease");

    let first = leader.leave().await;
    assert!(standby.elected().await > epoch);
    let lease = leases.get(keys::LEASE).await.unwrap();
    assert_eq!(lease.labels().get("team").map(String::as_str), Some("x"));
    let managers: BTreeSet<_> =
        lease.managed_fields().iter().filter_map(|entry| entry.manager.clone()).collect();
    assert!(managers.contains(keys::MANAGER_LEASE), "{managers:?}");
    let spec = lease.spec.unwrap();
    assert!(spec.holder_identity.unwrap().starts_with("second_"));
    assert_eq!((spec.lease_duration_seconds, spec.lease_transitions), (Some(15), Some(2)));

    let second = standby.leave().await;
    let lease = leases.get(keys::LEASE).await.unwrap().spec.unwrap();
    assert_eq!((lease.holder_identity.as_deref(), lease.lease_duration_seconds), (Some(""), Some(1)));
    let mut verbs = BTreeSet::new();
    for identity in [first, second] {
        for request in server.settled_requests(&identity).await.unwrap() {
            assert_ne!(request.code, 403, "{request:?}");
            verbs.insert(request.verb);
        }
    }
    assert_eq!(verbs, ["create", "get", "update", "watch"].map(str::to_owned).into());
}

async fn succeeded(story: &str, server: Arc<ControlPlane>) {
    let (leader, standby) = pair(story, &server).await;
    let epoch = leader.leadership.current().unwrap();
    leader.task.abort();
    until(DEADLINE, "the standby to lead", || async {
        assert!(leader.leadership.current().is_none() || standby.leadership.current().is_none(), "two lead");
        standby.leadership.current().filter(|now| *now > epoch).ok_or_else(|| NotYet::saw("nobody"))
    })
    .await;
    standby.leave().await;
}

async fn deleted(story: &str, server: Arc<ControlPlane>) {
    let (leader, standby) = pair(story, &server).await;
    leases(story, &server).delete(keys::LEASE, &DeleteParams::default()).await.unwrap();
    let current = || [&leader, &standby].map(|replica| replica.leadership.current());
    until(DEADLINE, "the leader to notice", || async {
        if current()[0].is_none() { Ok(()) } else { Err(NotYet::saw(current())) }
    })
    .await;
    until(DEADLINE, "one to lead again", || async {
        let current = current();
        assert!(current.contains(&None), "two lead");
        if current == [None, None] { Err(NotYet::saw(current)) } else { Ok(()) }
    })
    .await;
    tokio::join!(leader.leave(), standby.leave());
}

/// What a replica asks for until it has been refused like this.
async fn refused(server: &ControlPlane, replica: &Replica, verb: &str, code: u16) {
    until(DEADLINE, format!("{verb} to be refused with {code}"), || async {
        let requests = server.requests(&replica.identity)?;
        let refused = requests.iter().any(|request| request.verb == verb && request.code == code);
        refused.then_some(()).ok_or_else(|| NotYet::saw(requests.len()))
    })
    .await;
    assert_eq!(replica.leadership.current(), None);
}

async fn forbidden(story: &str, server: Arc<ControlPlane>) {
    server.create_namespace(&namespace(story)).await.unwrap();
    let replica = Replica::start(story, &server, server.identity("nobody").unwrap());
    refused(&server, &replica, "get", 403).await;
    server.grant(&replica.identity, Scope::Namespace(&namespace(story)), rules::home()).await.unwrap();
    replica.elected().await;
    replica.leave().await;
}

async fn homeless(story: &str, server: Arc<ControlPlane>) {
    let identity = server.identity("homeless").unwrap();
    server.grant(&identity, Scope::Cluster, rules::home()).await.unwrap();
    let replica = Replica::start(story, &server, identity);
    refused(&server, &replica, "create", 404).await;
    server.create_namespace(&namespace(story)).await.unwrap();
    replica.elected().await;
    replica.leave().await;
}

async fn restarted(story: &str, server: Arc<ControlPlane>) {
    let (leader, standby) = pair(story, &server).await;
    let epoch = leader.leadership.current().unwrap();
    server.stop_api_server().await;
    until(DEADLINE, "the leader to give up", || async {
        leader.leadership.current().map_or(Ok(()), |epoch| Err(NotYet::saw(epoch)))
    })
    .await;
    server.start_api_server().await.unwrap();
    until(DEADLINE, "one to lead again", || async {
        let current = [&leader, &standby].map(|replica| replica.leadership.current());
        assert!(current.contains(&None), "two lead");
        current.into_iter().flatten().find(|now| *now > epoch).ok_or_else(|| NotYet::saw(current))
    })
    .await;
    tokio::join!(leader.leave(), standby.leave());
}
