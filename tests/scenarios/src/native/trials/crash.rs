//! Ours dies at every write of a set's life, before it and after it, and starts again: nobody can tell afterwards.

use std::sync::{Arc, Mutex};

use futures::future::join_all;
use sts_plus_harness::faults::{Fault, Faults, Side, crash_at};
use sts_plus_planner::statefulset::world::Features;

use crate::cluster::{Account, Cluster};
use crate::native::act::{Act, Record};
use crate::native::compare::Rival;
use crate::native::expect::pods;
use crate::native::manifest::Set;
use crate::native::ours;
use crate::scenarios::{Scenario, Stage};

/// Lives that are led at once, each in a namespace of its own.
const LANES: usize = 6;

const SET: &str = "web";

/// Deletions in a life: both pods for the rollout, and one for the scale-down.
const DELETIONS: usize = 3;

pub(super) fn all() -> Vec<Scenario> {
    vec![Scenario {
        name: "a_crash_at_any_write_of_a_sets_life_leaves_no_trace",
        stage: Stage::Shared,
        needs_binary: false,
        play: |cluster, _| Box::pin(enumerate(cluster)),
    }]
}

async fn enumerate(cluster: Arc<dyn Cluster>) {
    let (writes, untroubled) = without_a_crash(&cluster).await;
    println!("crash enumeration: {writes} writes in the life of a set, {} runs", 2 * writes);
    let points = (0..writes).flat_map(|write| [(write, Side::Before), (write, Side::After)]);
    let points = Mutex::new(points.collect::<Vec<_>>().into_iter());
    let reached = join_all((0..LANES).map(|_| async {
        let mut reached = 0;
        while let Some((write, side)) = { points.lock().unwrap().next() } {
            reached += usize::from(crash(&cluster, write, side, &untroubled).await);
        }
        reached
    }))
    .await;
    // Two changes that are seen together are one status and one event, so a run may have a few writes less than another.
    let reached: usize = reached.into_iter().sum();
    println!("crash enumeration: {reached} of {} crashes happened before the end", 2 * writes);
    assert!(4 * reached >= 3 * 2 * writes, "only {reached} of {} crashes happened", 2 * writes);
}

/// How many writes a life takes, and what it looks like.
async fn without_a_crash(cluster: &Arc<dyn Cluster>) -> (usize, Arc<Record>) {
    let act = Act::new(cluster, "o", "no-crash", None).await;
    let account = ours::account(cluster, &act.namespace).await;
    let counted = Faults::new(|_| Fault::None);
    let operator = ours::start_as(cluster, &through(&counted, &account), &act.namespace, Features::default());
    live(&act).await;
    // Events come last.
    cluster.settled_requests(&account).await.unwrap();
    operator.crash().await;
    assert_gentle(&act, "without a crash");
    let writes = counted.calls().iter().filter(|call| call.write.is_some()).count();
    (writes, Arc::new(act.into_record()))
}

/// A life with a crash; whether it came to the crash.
async fn crash(cluster: &Arc<dyn Cluster>, write: usize, side: Side, untroubled: &Arc<Record>) -> bool {
    let what = format!("crash-{write}-{}", format!("{side:?}").to_lowercase());
    let act = Act::new(cluster, "o", &what, Some((Arc::clone(untroubled), Rival::Ours))).await;
    let account = ours::account(cluster, &act.namespace).await;
    let faults = Faults::new(crash_at(write, side));
    let operator = ours::start_as(cluster, &through(&faults, &account), &act.namespace, Features::default());
    let life = async {
        live(&act).await;
        cluster.settled_requests(&account).await.unwrap();
    };
    tokio::pin!(life);
    let reached = tokio::select! {
        () = faults.blocked() => true,
        () = &mut life => false,
    };
    operator.crash().await;
    if reached {
        let operator = ours::start_as(cluster, &account, &act.namespace, Features::default());
        life.await;
        operator.crash().await;
    }
    assert_gentle(&act, &what);
    // An event may be lost with whoever was about to tell it: what was told is not compared.
    act.agreed();
    reached
}

fn through(faults: &Faults, account: &Account) -> Account {
    Account { user: account.user.clone(), client: faults.client(&account.client) }
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
