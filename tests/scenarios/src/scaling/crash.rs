//! The operator dies at every write of a drain, before it and after it, and starts again.

use std::sync::Arc;

use futures::future::join_all;
use kube::Client;
use serde_json::json;
use sts_plus_api::scaling_policy::RecordPhase;

use super::app::{App, Says};
use super::manifest::{JOIN, PORT, SHUTDOWN, down, polled, with};
use super::stage::{NAME, Scaled};
use crate::cluster::{Account, Cluster};
use crate::crash::{self, Life};
use crate::operator::Operator;
use crate::scenarios::{Place, Scenario};

/// Sets that are scaled at once, each in a namespace of its own.
const LANES: usize = 2;

/// What is done in each run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Story {
    /// 4 to 2 and back to 4, two at once, with a hook at either end.
    DownAndUp,
    /// 3 to 2, and to 3 again while the pod drains.
    CalledBack,
}

pub(super) fn all() -> Vec<Scenario> {
    let scenario = |name, play| Scenario { name, place: Place::Shared, needs_binary: false, play };
    vec![
        scenario("a_b9_6_a_crash_at_any_write_of_scaling_down_and_up_changes_nothing", |cluster, _| {
            Box::pin(enumerate(cluster, Story::DownAndUp))
        }),
        scenario("a_b9_6_a_crash_at_any_write_of_calling_a_pod_back_changes_nothing", |cluster, _| {
            Box::pin(enumerate(cluster, Story::CalledBack))
        }),
    ]
}

async fn enumerate(cluster: Arc<dyn Cluster>, story: Story) {
    let lanes = join_all((0..LANES).map(|_| Lane::new(&cluster, story))).await;
    for lane in crash::enumerate(lanes, &format!("scaling, {story:?}")).await {
        lane.stage.finish(&[&lane.app]).await;
    }
}

/// A set that is scaled down and up again and again. The judgement of its stage is over all runs.
struct Lane {
    stage: Scaled,
    app: App,
    account: Account,
    story: Story,
}

impl Lane {
    async fn new(cluster: &Arc<dyn Cluster>, story: Story) -> Self {
        let mut stage = Scaled::new(cluster, "a-crash").await;
        let join = json!({ "scaleUp": { "hook": { "http": { "path": JOIN, "port": PORT } } } });
        let spec = match story {
            Story::DownAndUp => {
                with(with(down(NAME, &polled()), &join), &json!({ "scaleDown": { "maxConcurrent": 2 } }))
            }
            Story::CalledBack => down(NAME, &polled()),
        };
        let app = stage.given_scaled(story.most(), &spec).await;
        app.say("POST", JOIN, &[Says::Code(200)]);
        stage.stop().await;
        let account = stage.account().clone();
        Self { stage, app, account, story }
    }
}

impl Story {
    fn most(self) -> u32 {
        match self {
            Self::DownAndUp => 4,
            Self::CalledBack => 3,
        }
    }
}

impl Life for Lane {
    type Run = Vec<usize>;

    async fn prepare(&mut self, what: &str) -> Vec<usize> {
        self.stage.view().note(what.to_owned());
        if self.story == Story::CalledBack {
            self.app.hold();
        }
        self.stage.lives(0..4)
    }

    fn client(&self, _: &Vec<usize>) -> Client {
        self.account.client.clone()
    }

    fn start(&self, _: &Vec<usize>, client: &Client) -> Operator {
        self.stage.operator_through(client)
    }

    async fn live(&self, _: &Vec<usize>) {
        self.stage.scale(2).await;
        match self.story {
            Story::DownAndUp => drop(self.stage.settled(2).await),
            Story::CalledBack => drop(self.stage.leaves(2, RecordPhase::Draining).await),
        }
        self.stage.scale(self.story.most()).await;
        self.stage.settled(self.story.most()).await;
        self.stage.requests().await;
    }

    /// Wherever the crash was: each pod that was to leave has left once and come back once, and no other has.
    fn compare(&mut self, before: Vec<usize>, what: &str) {
        let lives: Vec<usize> =
            self.stage.lives(0..4).iter().zip(&before).map(|(now, before)| now - before).collect();
        let expected = match self.story {
            Story::DownAndUp => [0, 0, 1, 1],
            Story::CalledBack => [0; 4],
        };
        assert_eq!(lives, expected, "{what}");
        let present = self.stage.present();
        assert!(present.status.removed_without_drain.is_empty(), "{what}: {present:?}");
        if self.story == Story::CalledBack {
            assert!(!self.app.asked("DELETE", SHUTDOWN).is_empty(), "{what}");
        }
    }
}
