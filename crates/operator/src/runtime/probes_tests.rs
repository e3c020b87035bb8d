use std::collections::BTreeSet;
use std::future::{pending, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::Timestamp;
use sts_plus_api::phased_rollout::Verdict;
use sts_plus_planner::phased_rollout::judge::Judgement;
use sts_plus_planner::phased_rollout::query::{GateId, Outcome};
use tokio::sync::Notify;

use super::{MAX_UNCOUNTED, Probes};

fn gate(partition: i32) -> GateId {
    GateId { generation: 1, revision: "new".into(), partition }
}

fn outcome(partition: i32, second: i64) -> Outcome {
    Outcome {
        check: "check".to_owned(),
        gate: gate(partition),
        asked_at: Timestamp::from_second(second).unwrap(),
        judgement: Judgement {
            verdict: Verdict::Pass,
            value: Some("no data".to_owned()),
            error: None,
            warnings: Vec::new(),
        },
    }
}

/// Counts queries that are given up.
struct Guard(Arc<AtomicUsize>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Starts a query that is answered, and waits for that.
async fn answered(probes: &Probes<&'static str>, outcome: Outcome) {
    let told = Arc::new(Notify::new());
    let tell = Arc::clone(&told);
    let about = (outcome.check.clone(), outcome.gate.clone());
    probes.start(&"key", about, ready(outcome), move |_| tell.notify_one());
    told.notified().await;
}

#[tokio::test]
async fn an_answer_waits_until_it_is_counted() {
    let probes = Probes::default();
    answered(&probes, outcome(2, 1)).await;
    let (uncounted, under_way) = probes.look(&"key", Some(&gate(2)));
    assert_eq!((uncounted.len(), under_way), (1, BTreeSet::new()));
    assert_eq!(probes.look(&"key", None).0, uncounted, "a write that failed leaves it there");
    probes.counted(&"key", &uncounted);
    assert!(probes.look(&"key", None).0.is_empty());
    assert!(probes.keys.lock().is_empty(), "nothing is kept of a key at rest");
}

/// Starts a query that is never answered.
fn hangs(probes: &Probes<&'static str>, check: &str, partition: i32, given_up: &Arc<AtomicUsize>) {
    let guard = Guard(Arc::clone(given_up));
    let hangs = async move {
        let _guard = guard;
        pending::<Outcome>().await
    };
    probes.start(&"key", (check.to_owned(), gate(partition)), hangs, |_| {});
}

#[tokio::test]
async fn a_query_under_way_gives_way_to_one_of_its_check_for_another_gate() {
    let probes = Probes::default();
    let given_up = Arc::new(AtomicUsize::new(0));
    hangs(&probes, "check", 3, &given_up);
    assert_eq!(probes.look(&"key", Some(&gate(3))).1.len(), 1);
    answered(&probes, outcome(2, 1)).await;
    tokio::task::yield_now().await;
    assert_eq!(given_up.load(Ordering::SeqCst), 1);
    assert_eq!(probes.look(&"key", Some(&gate(3))).1.len(), 0);
}

#[tokio::test]
async fn queries_for_another_step_are_given_up_also_where_their_check_is_no_more() {
    let probes = Probes::default();
    let given_up = Arc::new(AtomicUsize::new(0));
    hangs(&probes, "former", 3, &given_up);
    hangs(&probes, "check", 2, &given_up);
    let under_way = probes.look(&"key", Some(&gate(2))).1;
    assert_eq!(under_way, BTreeSet::from(["check".to_owned()]));
    tokio::task::yield_now().await;
    assert_eq!(given_up.load(Ordering::SeqCst), 1, "its slot is free for others");
    assert_eq!(probes.look(&"key", None).1.len(), 0);
    tokio::task::yield_now().await;
    assert_eq!(given_up.load(Ordering::SeqCst), 2, "nothing rolls any more");
}

#[tokio::test]
async fn answers_that_nobody_counts_are_bounded() {
    let probes = Probes::default();
    for second in 0..MAX_UNCOUNTED + 5 {
        answered(&probes, outcome(1, i64::try_from(second).unwrap())).await;
    }
    assert_eq!(probes.look(&"key", None).0.len(), MAX_UNCOUNTED);
    probes.forget(&"key");
    assert!(probes.look(&"key", None).0.is_empty());
}
