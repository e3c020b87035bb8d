//! Kubernetes' own controller hands over to ours in the middle of a rolling update, and ours hands back: everything is as
//! if one of them had done it alone, so no pod is replaced for it.

use std::sync::Arc;

use futures::future::{BoxFuture, join_all};
use serde_json::json;
use sts_plus_planner::statefulset::world::Features;

use crate::cluster::Cluster;
use crate::native::act::{Act, Kind};
use crate::native::compare::Rival;
use crate::native::expect::pods;
use crate::native::manifest::{Set, faulty, version};
use crate::native::ours;
use crate::operator::Operator;
use crate::scenarios::{Place, Scenario};

/// The set of each act.
const SET: &str = "web";

/// Its pods, all of them replaced in each rollout.
const PODS: [&str; 3] = ["web-0", "web-1", "web-2"];

/// How often the template changes.
const ROLLOUTS: usize = 3;

/// Keeps a pod that was deleted from going.
const HOLD: &str = "example.com/hold";

pub(super) fn all() -> Vec<Scenario> {
    vec![Scenario {
        name: "a_hand_over_in_the_middle_of_a_rolling_update_replaces_no_pod",
        place: Place::OwnWithoutNative,
        needs_binary: false,
        play: |cluster, _| Box::pin(play(cluster)),
    }]
}

/// Who controls sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Controller {
    Theirs,
    Ours,
}

/// A part of the story that one controller does alone.
struct Part {
    by: Controller,
    play: for<'a> fn(&'a Act) -> BoxFuture<'a, ()>,
}

/// The story; between two parts of different controllers one hands over to the other.
const STORY: [Part; 6] = [
    Part { by: Controller::Theirs, play: |act| Box::pin(half_rolled(act)) },
    Part { by: Controller::Ours, play: |act| Box::pin(rolled_to_the_end(act)) },
    Part { by: Controller::Ours, play: |act| Box::pin(half_rolled_again(act)) },
    Part { by: Controller::Theirs, play: |act| Box::pin(rolled_to_the_end_again(act)) },
    Part { by: Controller::Theirs, play: |act| Box::pin(a_pod_on_its_way_out(act)) },
    Part { by: Controller::Ours, play: |act| Box::pin(come_back_and_scaled(act)) },
];

/// A set whose pods come one after the other, with claims, and one whose pods come together.
fn sets() -> [(&'static str, Set); 2] {
    let ordered = Set::new(SET, 3).claims(&["data"]).retention("Delete", "Retain");
    [("handover-ordered", ordered), ("handover-parallel", Set::new(SET, 3).parallel())]
}

async fn play(cluster: Arc<dyn Cluster>) {
    cluster.start_native().await.unwrap();
    let alone = join_all(sets().map(|(name, set)| {
        let cluster = Arc::clone(&cluster);
        async move {
            let act = Act::new(&cluster, "t", name, None).await;
            act.create_set(&set).await;
            for part in STORY {
                (part.play)(&act).await;
            }
            Arc::new(act.into_record())
        }
    }))
    .await;

    let acts = join_all(sets().into_iter().zip(alone).map(|((name, set), record)| {
        let cluster = Arc::clone(&cluster);
        async move {
            let act = Act::new(&cluster, "o", name, Some((record, Rival::Ours))).await;
            act.create_set(&set).await;
            act
        }
    }))
    .await;
    let mut reign = Reign { cluster, ours: Vec::new() };
    for part in STORY {
        reign.pass_to(part.by, &acts).await;
        join_all(acts.iter().map(part.play)).await;
    }
    for act in &acts {
        // Events of a controller that is killed may be lost with it: what was told is not compared.
        act.agreed();
        for pod in PODS {
            assert_eq!(act.trace().lives_of(pod), 1 + ROLLOUTS, "{pod} in {}", act.namespace);
        }
    }
    reign.end().await;
}

/// Whoever controls sets at the moment: ours where one of them runs, else theirs.
struct Reign {
    cluster: Arc<dyn Cluster>,
    ours: Vec<Operator>,
}

impl Reign {
    /// Hands over: the one has ended before the other begins.
    async fn pass_to(&mut self, heir: Controller, acts: &[Act]) {
        match heir {
            Controller::Theirs if !self.ours.is_empty() => {
                self.end().await;
                self.cluster.start_native().await.unwrap();
            }
            Controller::Ours if self.ours.is_empty() => {
                self.cluster.stop_native().await.unwrap();
                for act in acts {
                    let (operator, _) = ours::start(&self.cluster, &act.namespace, Features::default()).await;
                    self.ours.push(operator);
                }
            }
            Controller::Theirs | Controller::Ours => {}
        }
    }

    async fn end(&mut self) {
        for operator in self.ours.drain(..) {
            operator.stop().await;
        }
    }
}

/// The last pod is of the new version, and the next one too but not ready, so that the first has to wait.
async fn half_rolled(act: &Act) {
    act.in_any_order("one of the sets has its pods created together");
    act.settled("created", pods("web-0:v1 web-1:v1 web-2:v1").revisions(1)).await;
    act.in_order_again();
    roll_and_hold(act, "v2").await;
    act.settled("halfway", pods("web-0:v1 web-1:v2! web-2:v2").revisions(2)).await;
}

async fn rolled_to_the_end(act: &Act) {
    act.afflict("web-1", "").await;
    act.settled("rolled", pods("web-0:v2 web-1:v2 web-2:v2").revisions(2)).await;
}

async fn half_rolled_again(act: &Act) {
    roll_and_hold(act, "v3").await;
    act.settled("halfway again", pods("web-0:v2 web-1:v3! web-2:v3").revisions(3)).await;
}

async fn rolled_to_the_end_again(act: &Act) {
    act.afflict("web-1", "").await;
    act.settled("rolled again", pods("web-0:v3 web-1:v3 web-2:v3").revisions(3)).await;
}

/// The last pod is deleted for an update, but not gone: who comes next has to make its successor.
async fn a_pod_on_its_way_out(act: &Act) {
    act.merge(Kind::Pod, "web-2", json!({ "metadata": { "finalizers": [HOLD] } })).await;
    let mut template = version("v4");
    template["metadata"] = faulty("", "")["metadata"].take();
    act.retemplate(SET, template).await;
    act.settled("one on its way out", pods("web-0:v3 web-1:v3 web-2:v3~").revisions(4)).await;
}

async fn come_back_and_scaled(act: &Act) {
    act.merge(Kind::Pod, "web-2", json!({ "metadata": { "finalizers": null } })).await;
    act.settled("rolled a third time", pods("web-0:v4 web-1:v4 web-2:v4").revisions(4)).await;
    act.scale(SET, 2).await;
    act.settled("scaled down", pods("web-0:v4 web-1:v4").revisions(4)).await;
}

async fn roll_and_hold(act: &Act, to: &str) {
    let mut template = version(to);
    template["metadata"] = faulty("never-ready", "1")["metadata"].take();
    act.retemplate(SET, template).await;
}
