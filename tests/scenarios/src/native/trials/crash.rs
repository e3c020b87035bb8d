//! Ours dies at every write of a set's life, before it and after it, and starts again: nobody can tell afterwards.

use std::sync::{Arc, OnceLock};

use kube::Client;
use sts_plus_planner::statefulset::world::Features;

use crate::cluster::{Account, Cluster};
use crate::crash::{self, Life};
use crate::native::act::{Act, Record};
use crate::native::compare::Rival;
use crate::native::expect::pods;
use crate::native::manifest::Set;
use crate::native::ours;
use crate::operator::Operator;
use crate::scenarios::{Place, Scenario};

/// Lives that are led at once, each in a namespace of its own.
const LANES: usize = 6;

const SET: &str = "web";

/// Deletions in a life: both pods for the rollout, and one for the scale-down.
const DELETIONS: usize = 3;

pub(super) fn all() -> Vec<Scenario> {
    vec![Scenario {
        name: "a_crash_at_any_write_of_a_sets_life_leaves_no_trace",
        place: Place::Shared,
        needs_binary: false,
        play: |cluster, _| Box::pin(enumerate(cluster)),
    }]
}

async fn enumerate(cluster: Arc<dyn Cluster>) {
    let untroubled = Arc::default();
    let lane = || Lane { cluster: Arc::clone(&cluster), untroubled: Arc::clone(&untroubled) };
    crash::enumerate((0..LANES).map(|_| lane()).collect(), "the life of a set").await;
}

/// Leads one life after the other, each in a namespace of its own.
struct Lane {
    cluster: Arc<dyn Cluster>,
    /// What a life without a crash looks like, once one was led.
    untroubled: Arc<OnceLock<Arc<Record>>>,
}

impl Life for Lane {
    type Run = (Act, Account);

    async fn prepare(&mut self, what: &str) -> (Act, Account) {
        let theirs = self.untroubled.get().map(|record| (Arc::clone(record), Rival::Ours));
        let act = Act::new(&self.cluster, "o", what, theirs).await;
        let account = ours::account(&self.cluster, &act.namespace).await;
        (act, account)
    }

    fn client(&self, (_, account): &(Act, Account)) -> Client {
        account.client.clone()
    }

    fn start(&self, (act, account): &(Act, Account), client: &Client) -> Operator {
        let through = Account { user: account.user.clone(), client: client.clone() };
        ours::start_as(&self.cluster, &through, &act.namespace, Features::default())
    }

    async fn live(&self, (act, account): &(Act, Account)) {
        live(act).await;
        self.cluster.settled_requests(account).await.unwrap();
    }

    fn compare(&mut self, (act, _): (Act, Account), what: &str) {
        assert_gentle(&act, what);
        // An event may be lost with whoever was about to tell it: what was told is not compared.
        act.agreed();
        self.untroubled.get_or_init(|| Arc::new(act.into_record()));
    }
}

/// A set is created, rolled and scaled down.
async fn live(act: &Act) {
    act.create_set(&Set::new(SET, 2).claims(&["data"])).await;
    act.settled("created", pods("web-0:v1 web-1:v1").claims("data-web-0 data-web-1").revisions(1)).await;
    act.update(SET, "v2").await;
    act.settled("rolled", pods("web-0:v2 web-1:v2").claims("data-web-0 data-web-1").revisions(2)).await;
    act.scale(SET, 1).await;
    act.settled("scaled down", pods("web-0:v2").claims("data-web-0 data-web-1").revisions(2)).await;
}

/// Nothing is deleted while something else is down, and nothing without need.
fn assert_gentle(act: &Act, what: &str) {
    let trace = act.trace();
    assert_eq!(trace.down_at_deletions, [0; DELETIONS], "{what}");
    assert_eq!((trace.lives_of("web-0"), trace.lives_of("web-1")), (2, 2), "{what}");
}
