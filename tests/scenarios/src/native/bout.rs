//! Both contestants, one after the other.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream;
use sts_plus_harness::wait::{NotYet, until};
use sts_plus_planner::statefulset::world::Features;

use super::act::{Act, Record};
use super::compare::Rival;
use super::events::Events;
use super::manifest::Set;
use crate::cluster::Cluster;
use crate::observer::DEADLINE;
use crate::scenarios::{Place, Scenario};
use crate::theatre;

/// Scripts at once: each waits most of its time, but all share one API server and two cores.
pub const AT_ONCE: usize = 16;

/// Says who the second contestant is, if not ours.
const RIVAL: &str = "STS_PLUS_RIVAL";

/// What theirs has done, by script.
static THEIRS: OnceLock<BTreeMap<&'static str, Result<Arc<Record>, String>>> = OnceLock::new();

/// What is played twice.
#[derive(Clone, Copy)]
pub struct Script {
    /// What it shows.
    pub name: &'static str,
    pub play: for<'a> fn(&'a Act) -> BoxFuture<'a, ()>,
}

/// Who plays in the second half.
pub fn rival() -> Rival {
    if std::env::var(RIVAL).is_ok_and(|name| name == "theirs") { Rival::Theirs } else { Rival::Ours }
}

/// The first half of the scripts of these names.
pub fn prelude(cluster: Arc<dyn Cluster>, names: Vec<&'static str>) -> BoxFuture<'static, ()> {
    let scripts = super::scripts::all().into_iter().filter(move |script| names.contains(&script.name));
    Box::pin(play_theirs(cluster, scripts.collect()))
}

/// Plays scripts under theirs, and stops theirs.
async fn play_theirs(cluster: Arc<dyn Cluster>, scripts: Vec<Script>) {
    if scripts.is_empty() {
        return;
    }
    cluster.start_native().await.unwrap();
    let played = scripts.into_iter().map(|script| {
        let cluster = Arc::clone(&cluster);
        // As a task of its own, since a panic is an outcome too.
        let play = tokio::spawn(async move {
            let act = Act::new(&cluster, "t", script.name, None).await;
            (script.play)(&act).await;
            let namespace = act.namespace.clone();
            (act.into_record(), namespace)
        });
        async move { (script.name, play.await.map_err(|error| error.to_string())) }
    });
    let played: Vec<_> = stream::iter(played).buffer_unordered(AT_ONCE).collect().await;
    everything_is_told(&cluster).await;
    let mut records = BTreeMap::new();
    for (name, outcome) in played {
        let record = match outcome {
            Ok((mut record, namespace)) => {
                let listened = record.listen(&cluster.user(), &namespace).await;
                listened.map(|()| Arc::new(record)).map_err(|error| error.to_string())
            }
            Err(error) => Err(error),
        };
        records.insert(name, record);
    }
    assert!(THEIRS.set(records).is_ok(), "theirs plays once");
    if rival() == Rival::Ours {
        cluster.stop_native().await.unwrap();
    }
}

/// Theirs tells one thing after the other: once it has told of a set that is made now, it has told everything.
async fn everything_is_told(cluster: &Arc<dyn Cluster>) {
    let act = Act::new(cluster, "t", "marker", None).await;
    act.create_set(&Set::new("marker", 1)).await;
    until(DEADLINE, "an event", || async {
        let told = Events::read(&cluster.user(), &act.namespace).await?;
        if told == Events::default() { Err(NotYet::saw("nothing")) } else { Ok(()) }
    })
    .await;
}

/// The second half of a script, as a scenario.
pub fn scenario(script: Script) -> Scenario {
    Scenario {
        name: script.name,
        place: Place::Shared,
        needs_binary: false,
        play: |cluster, name| Box::pin(play_ours(cluster, name)),
    }
}

/// A script under ours, where there is nobody to compare it with: it has to come out as the script expects.
pub fn alone(script: Script) -> Scenario {
    Scenario { play: |cluster, name| Box::pin(play_alone(cluster, name)), ..scenario(script) }
}

async fn play_alone(cluster: Arc<dyn Cluster>, name: &'static str) {
    under_ours(&cluster, "o", name, None).await;
}

/// Plays a script under ours.
async fn under_ours(
    cluster: &Arc<dyn Cluster>,
    player: &str,
    name: &'static str,
    theirs: Option<(Arc<Record>, Rival)>,
) -> Act {
    let act = Act::new(cluster, player, name, theirs).await;
    let (operator, account) = super::ours::start(cluster, &act.namespace, Features::default()).await;
    (named(name).play)(&act).await;
    act.conclude().await;
    act.each_deletion_is_told_once().await;
    act.pods_come_from(&account).await;
    act.all_is_told().await;
    operator.stop().await;
    act
}

fn named(name: &str) -> Script {
    super::scripts::all().into_iter().find(|script| script.name == name).unwrap()
}

/// Plays a script under ours once more, on an embedded cluster: what differs from the real one is a fault of the cluster.
async fn play_embedded(name: &'static str, on_real: Record) {
    let played = tokio::task::spawn_blocking(move || {
        theatre::on_embedded(theatre::shape(Place::Shared, false), |cluster| {
            Box::pin(async move {
                under_ours(&cluster, "e", name, Some((Arc::new(on_real), Rival::Itself))).await;
            })
        });
    });
    assert!(played.await.is_ok(), "on the embedded cluster it is not as on the real one, see above");
}

async fn play_ours(cluster: Arc<dyn Cluster>, name: &'static str) {
    let theirs = match THEIRS.get().and_then(|records| records.get(name)) {
        Some(Ok(record)) => Arc::clone(record),
        Some(Err(error)) => panic!("under theirs: {error}"),
        None => panic!("theirs has not played it"),
    };
    match rival() {
        Rival::Ours => {
            let act = under_ours(&cluster, "o", name, Some((theirs, Rival::Ours))).await;
            let namespace = act.namespace.clone();
            let mut record = act.into_record();
            record.listen(&cluster.user(), &namespace).await.unwrap();
            play_embedded(name, record).await;
        }
        Rival::Theirs | Rival::Itself => {
            let act = Act::new(&cluster, "o", name, Some((theirs, Rival::Theirs))).await;
            (named(name).play)(&act).await;
            act.conclude().await;
        }
    }
}
