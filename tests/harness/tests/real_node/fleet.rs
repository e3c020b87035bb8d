//! The pods of a group as the API server tells of them, one change after the other.

use std::collections::BTreeMap;

use futures::{StreamExt, stream::BoxStream};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    api::{ListParams, WatchEvent, WatchParams},
};
use tokio::time::timeout;

use crate::{DEADLINE, workload::image_name};

pub(crate) const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];
pub(crate) const REPLICAS: usize = 2;

/// Watches the pods and holds every moment against the guarantees.
pub(crate) struct Fleet {
    pods: BTreeMap<String, Member>,
    changes: BoxStream<'static, kube::Result<WatchEvent<Pod>>>,
}

struct Member {
    uid: String,
    image: String,
    ready: bool,
    terminating: bool,
    /// One that was Ready and is no longer has not been taken down by a rollout: that deletes it.
    was_ready: bool,
}

impl Fleet {
    /// Begins to watch; what happens from now on is seen by [`Fleet::roll_to`].
    pub(crate) async fn watch(pods: &Api<Pod>) -> Self {
        let now = pods.list(&ListParams::default()).await.unwrap();
        let version = now.metadata.resource_version.unwrap();
        let changes = pods.watch(&WatchParams::default(), &version).await.unwrap().boxed();
        let mut fleet = Self { pods: BTreeMap::new(), changes };
        for pod in now.items {
            fleet.see(&pod);
        }
        fleet
    }

    /// Follows the changes until every pod runs this version and is Ready.
    ///
    /// # Panics
    /// When at any moment the rollout has taken down pods of two zones, or two of one.
    pub(crate) async fn roll_to(&mut self, version: &str) {
        let image = image_name(version);
        while !self.all_ready_on(&image) {
            let change = timeout(DEADLINE, self.changes.next()).await;
            let change = change.unwrap_or_else(|_| panic!("nothing changes any more: {}", self.describe()));
            match change.unwrap().unwrap() {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) => self.see(&pod),
                WatchEvent::Deleted(pod) => drop(self.pods.remove(&pod.name_any())),
                // One comes every minute, whatever changes.
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(status) => panic!("{status:?}"),
            }
            let down: Vec<_> =
                ZONES.iter().map(|zone| (zone, self.down(zone))).filter(|(_, down)| *down > 0).collect();
            assert!(matches!(&*down, [] | [(_, 1)]), "down at once: {down:?}; {}", self.describe());
        }
    }

    fn see(&mut self, pod: &Pod) {
        let uid = pod.uid().unwrap();
        let ready = is_ready(pod);
        let was_ready =
            self.pods.get(&pod.name_any()).is_some_and(|before| before.uid == uid && before.was_ready);
        let member = Member {
            uid,
            image: pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap(),
            ready,
            terminating: pod.metadata.deletion_timestamp.is_some(),
            was_ready: was_ready || ready,
        };
        self.pods.insert(pod.name_any(), member);
    }

    /// How many pods of a zone the rollout has taken down: missing, on their way out, or not Ready yet.
    fn down(&self, zone: &str) -> usize {
        (0..REPLICAS)
            .filter(|ordinal| match self.pods.get(&format!("{zone}-{ordinal}")) {
                None => true,
                Some(pod) => pod.terminating || !pod.was_ready,
            })
            .count()
    }

    fn all_ready_on(&self, image: &str) -> bool {
        self.pods.len() == ZONES.len() * REPLICAS
            && self.pods.values().all(|pod| pod.image == image && pod.ready && !pod.terminating)
    }

    fn describe(&self) -> String {
        let pods = self.pods.iter().map(|(name, pod)| {
            let Member { image, ready, terminating, .. } = pod;
            format!("{name} on {image}, ready {ready}, terminating {terminating}")
        });
        pods.collect::<Vec<_>>().join("; ")
    }
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
