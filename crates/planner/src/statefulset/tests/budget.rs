//! How many pods may be down while a set rolls, with the feature `MaxUnavailableStatefulSet`: C20 to C45, C65, U26.

use serde_json::{Value, json};

use super::super::history::History;
use super::super::scale::SetPass;
use super::super::slots::Slots;
use super::cluster::{Cluster, FOO, given};
use super::drive::complete;
use super::operate::Op;
use crate::amount::Amount;
use crate::plan::Kind;

/// A set with an image that its pods do not have yet.
struct Case {
    parallel: bool,
    replicas: u32,
    budget: u32,
    partition: u32,
    unready: &'static [u32],
    terminating: &'static [u32],
    /// Ready, but for less than minReadySeconds.
    fresh: &'static [u32],
}

const PARALLEL: Case =
    Case { parallel: true, replicas: 3, budget: 1, partition: 0, unready: &[], terminating: &[], fresh: &[] };
const ORDERED: Case = Case { parallel: false, ..PARALLEL };

/// minReadySeconds of all cases.
const MIN_READY: i64 = 60;

impl Case {
    fn cluster(&self) -> Cluster {
        let mut cluster = complete(|spec| {
            spec["replicas"] = json!(self.replicas);
            spec["podManagementPolicy"] = json!(if self.parallel { "Parallel" } else { "OrderedReady" });
            spec["minReadySeconds"] = json!(MIN_READY);
            spec["updateStrategy"]["rollingUpdate"] =
                json!({ "partition": self.partition, "maxUnavailable": self.budget });
        });
        cluster.features.max_unavailable = true;
        cluster.pass_time(2 * MIN_READY);
        cluster.image("two");
        let name = |ordinal: &u32| format!("{FOO}-{ordinal}");
        self.unready.iter().for_each(|pod| cluster.make_unready(&name(pod)));
        self.fresh.iter().for_each(|pod| cluster.make_ready(&name(pod)));
        self.terminating.iter().for_each(|pod| cluster.terminate(&name(pod)));
        cluster
    }

    /// The update step deletes exactly these pods, and so does a whole pass of a parallel set. A whole pass of an orderly
    /// set does not come that far with a pod that is not healthy.
    #[track_caller]
    fn deletes(&self, expected: &[u32]) {
        let mut cluster = self.cluster();
        assert_eq!(rolled(&cluster), expected, "the update step");
        cluster.sync_well();
        let mut written = cluster.written_to(Kind::Pod);
        written.sort_by(|left, right| crate::ordinal::natural(right, left));
        let unhealthy = self.unready.len() + self.terminating.len() + self.fresh.len();
        let expected = if self.parallel || unhealthy == 0 { expected } else { &[] };
        let mut lines: Vec<_> = expected.iter().map(|pod| format!("delete {FOO}-{pod}")).collect();
        lines.sort_by(|left, right| crate::ordinal::natural(right, left));
        assert_eq!(written, lines, "a whole pass");
    }
}

/// The ordinals that the update step alone deletes, in its order.
fn rolled(cluster: &Cluster) -> Vec<u32> {
    let world = cluster.world(FOO).unwrap();
    let now = cluster.server.now;
    let (history, slots) = (History::of(&world).unwrap(), Slots::of(&world, now));
    let mut pass = SetPass { world: &world, now, history, slots, work: Vec::new(), notes: Vec::new() };
    pass.roll();
    let tasks = pass.work.iter().flatten();
    tasks.map(|task| crate::ordinal::of_pod(&task.action.object().name, FOO).unwrap()).collect()
}

fn six(management: &str) -> Cluster {
    let mut cluster = complete(|spec| {
        spec["replicas"] = json!(6);
        spec["podManagementPolicy"] = json!(management);
        spec["updateStrategy"]["rollingUpdate"] = json!({ "partition": 3, "maxUnavailable": 2 });
    });
    cluster.features.max_unavailable = true;
    cluster.image("two");
    cluster
}

#[test]
fn c_c20_an_orderly_set_deletes_a_batch_and_recreates_it_one_by_one() {
    let mut cluster = six("OrderedReady");
    cluster.sync_well();
    assert_eq!(cluster.written_to(Kind::Pod), ["delete foo-5", "delete foo-4"]);
    assert_eq!(cluster.widest[&(Op::Delete, Kind::Pod)], 2, "both are deleted together");
    cluster.finish();
    for _ in 0..3 {
        cluster.sync_well();
        let moves = cluster.moves();
        for next in &moves {
            cluster.perform(next);
        }
        assert_eq!(cluster.names().len(), 5, "only foo-4 until it is Ready");
    }
    assert!(cluster.pod("foo-4").ready());
    cluster.sync_well();
    assert_eq!(cluster.written_to(Kind::Pod), ["create foo-4", "create foo-5"]);
    cluster.rest();
    assert_eq!(cluster.written_to(Kind::Pod), ["delete foo-3", "create foo-3"]);
    assert_eq!(cluster.images(), ["one", "one", "one", "two", "two", "two"]);
}

#[test]
fn c_c21_a_parallel_set_goes_on_while_one_of_two_is_down() {
    let mut cluster = six("Parallel");
    cluster.sync_well();
    assert_eq!(cluster.written_to(Kind::Pod), ["delete foo-5", "delete foo-4"]);
    cluster.finish();
    cluster.sync_well();
    assert_eq!(cluster.written_to(Kind::Pod), ["create foo-4", "create foo-5"]);
    cluster.make_ready("foo-4");
    cluster.sync_well();
    assert_eq!(cluster.written_to(Kind::Pod), ["delete foo-3"]);
    assert!(!cluster.pod("foo-5").ready());
    cluster.rest();
    assert_eq!(cluster.images(), ["one", "one", "one", "two", "two", "two"]);
    assert_eq!(cluster.written_to(Kind::Pod), ["create foo-3"]);
}

#[test]
fn c_c22_what_terminates_anywhere_costs_budget() {
    let sets: [&[u32]; 10] = [&[], &[5], &[3], &[4], &[5, 4], &[5, 3], &[4, 3], &[5, 4, 3], &[2], &[1]];
    for terminating in sets {
        let case = Case { replicas: 6, budget: 2, partition: 3, terminating, ..ORDERED };
        let left = 2_usize.saturating_sub(terminating.len());
        let candidates = [5, 4, 3].into_iter().filter(|pod| !terminating.contains(pod));
        assert_eq!(rolled(&case.cluster()), candidates.take(left).collect::<Vec<_>>(), "{terminating:?}");
    }
}

#[test]
fn c_c23_parallel_one_unready_pod_of_one() {
    Case { replicas: 1, unready: &[0], ..PARALLEL }.deletes(&[0]);
}

#[test]
fn c_c24_parallel_one_unready_pod_of_three() {
    Case { unready: &[2], ..PARALLEL }.deletes(&[2]);
}

#[test]
fn c_c25_parallel_two_unready_pods_of_five() {
    Case { replicas: 5, budget: 2, unready: &[3, 4], ..PARALLEL }.deletes(&[4, 3]);
}

#[test]
fn c_c26_ordered_one_unready_pod_of_one() {
    Case { replicas: 1, unready: &[0], ..ORDERED }.deletes(&[]);
}

#[test]
fn c_c27_ordered_one_unready_pod_of_three() {
    Case { unready: &[2], ..ORDERED }.deletes(&[]);
}

#[test]
fn c_c28_ordered_budget_is_left_beside_an_unready_pod() {
    Case { replicas: 5, budget: 2, unready: &[4], ..ORDERED }.deletes(&[4]);
}

#[test]
fn c_c29_parallel_a_terminating_pod_uses_the_budget() {
    Case { terminating: &[2], ..PARALLEL }.deletes(&[]);
}

#[test]
fn c_c30_ordered_a_terminating_pod_uses_the_budget() {
    Case { terminating: &[2], ..ORDERED }.deletes(&[]);
}

#[test]
fn c_c31_parallel_terminating_above_unready() {
    Case { replicas: 5, budget: 3, terminating: &[4], unready: &[3], ..PARALLEL }.deletes(&[3, 2]);
}

#[test]
fn c_c32_parallel_a_pod_that_is_not_ready_for_long_enough_is_down() {
    Case { fresh: &[2], ..PARALLEL }.deletes(&[2]);
}

#[test]
fn c_c33_ordered_a_pod_that_is_not_ready_for_long_enough_is_waited_for() {
    Case { fresh: &[2], ..ORDERED }.deletes(&[]);
}

#[test]
fn c_c34_parallel_unready_below_terminating() {
    Case { replicas: 5, budget: 3, unready: &[3], terminating: &[4], ..PARALLEL }.deletes(&[3, 2]);
}

#[test]
fn c_c35_parallel_unready_above_terminating() {
    Case { replicas: 5, budget: 3, unready: &[4], terminating: &[3], ..PARALLEL }.deletes(&[4, 2]);
}

#[test]
fn c_c36_ordered_unready_below_terminating() {
    Case { replicas: 5, budget: 3, unready: &[3], terminating: &[4], ..ORDERED }.deletes(&[3]);
}

#[test]
fn c_c37_ordered_unready_above_terminating() {
    Case { replicas: 5, budget: 3, unready: &[4], terminating: &[3], ..ORDERED }.deletes(&[4]);
}

#[test]
fn c_c38_parallel_partition_unready_at_the_top() {
    Case { replicas: 5, partition: 2, unready: &[4], ..PARALLEL }.deletes(&[4]);
}

#[test]
fn c_c39_parallel_partition_unready_at_the_bottom() {
    Case { replicas: 5, partition: 2, unready: &[2], ..PARALLEL }.deletes(&[2]);
}

#[test]
fn c_c40_parallel_partition_unready_below_it() {
    Case { replicas: 5, partition: 2, unready: &[1], ..PARALLEL }.deletes(&[]);
}

#[test]
fn c_c41_ordered_partition_unready_at_the_top() {
    Case { replicas: 5, partition: 2, unready: &[4], ..ORDERED }.deletes(&[]);
}

#[test]
fn c_c42_parallel_partition_two_unready_above_it() {
    Case { replicas: 5, budget: 2, partition: 3, unready: &[3, 4], ..PARALLEL }.deletes(&[4, 3]);
}

#[test]
fn c_c43_parallel_partition_unready_on_both_sides() {
    Case { replicas: 5, budget: 2, partition: 3, unready: &[1, 4], ..PARALLEL }.deletes(&[4]);
}

#[test]
fn c_c44_parallel_unready_pods_go_before_available_ones() {
    Case { replicas: 4, budget: 2, unready: &[0, 1], ..PARALLEL }.deletes(&[1, 0]);
}

#[test]
fn c_c45_parallel_what_is_left_of_the_budget_is_used() {
    Case { replicas: 5, budget: 3, unready: &[0, 1], ..PARALLEL }.deletes(&[1, 0, 4]);
}

/// Without the feature one pod goes at a time, whatever the budget says, and a parallel set too stops at an unavailable
/// pod of the update revision, but not at one of an old revision.
#[test]
fn without_the_feature_one_pod_goes_at_a_time() {
    for parallel in [true, false] {
        let mut cluster = Case { parallel, replicas: 5, budget: 3, ..PARALLEL }.cluster();
        cluster.features.max_unavailable = false;
        let pass = cluster.sync_well();
        assert_eq!(cluster.written_to(Kind::Pod), ["delete foo-4"], "{parallel}");
        assert_eq!(pass.plan().gauges, None, "upstream shows nothing either");
        cluster.sync_well();
        cluster.finish();
        cluster.sync_well();
        cluster.sync_well();
        assert_eq!(cluster.written_to(Kind::Pod), ["create foo-4"], "{parallel}: the new pod is waited for");
    }
    let mut cluster = Case { replicas: 5, unready: &[0, 4], ..PARALLEL }.cluster();
    cluster.features.max_unavailable = false;
    cluster.sync_well();
    assert_eq!(cluster.written_to(Kind::Pod), ["delete foo-4"]);
}

/// L4: a set without a block in its strategy does not replace an unavailable pod by its like, for ever.
#[test]
fn a_parallel_set_without_a_block_does_not_replace_a_pod_by_its_like() {
    let mut cluster = complete(|spec| {
        spec["replicas"] = json!(2);
        spec["podManagementPolicy"] = json!("Parallel");
    });
    cluster.features.max_unavailable = true;
    cluster.make_unready("foo-0");
    cluster.image("two");
    cluster.rest();
    assert_eq!(cluster.images(), ["two", "two"]);
    let pods = ["delete foo-0", "create foo-0", "delete foo-1", "create foo-1"];
    assert_eq!(cluster.written_to(Kind::Pod), pods);
}

/// Twelve cases: strategy, way of managing, budget as written, replicas, unavailable ones, and the gauges.
#[test]
fn c_c65_the_gauges_show_budget_and_unavailable_pods() {
    let (rolling, on_delete) = ("RollingUpdate", "OnDelete");
    let (ordered, parallel) = ("OrderedReady", "Parallel");
    let none = Value::Null;
    let cases = [
        (rolling, ordered, json!(2), 5, 1, 2),
        (rolling, parallel, json!("20%"), 10, 3, 2),
        (rolling, ordered, json!(3), 6, 3, 3),
        (rolling, parallel, json!(1), 4, 0, 1),
        (rolling, ordered, json!("25%"), 8, 1, 2),
        (rolling, parallel, json!("80%"), 5, 4, 4),
        (rolling, ordered, json!(1), 2, 1, 1),
        (rolling, parallel, json!(1), 1, 1, 1),
        (on_delete, ordered, none.clone(), 5, 2, 1),
        (on_delete, parallel, none.clone(), 3, 1, 1),
        (rolling, ordered, none.clone(), 4, 2, 1),
        (rolling, parallel, none, 3, 0, 1),
    ];
    for (strategy, management, budget, replicas, unavailable, expected) in cases {
        let case = format!("{strategy} {management} {budget} {replicas} {unavailable}");
        let mut cluster = complete(|spec| {
            spec["replicas"] = json!(replicas);
            spec["podManagementPolicy"] = json!(management);
            spec["updateStrategy"]["type"] = json!(strategy);
            if strategy == rolling {
                spec["updateStrategy"]["rollingUpdate"] = json!({ "partition": 0, "maxUnavailable": budget });
            }
        });
        cluster.features.max_unavailable = true;
        for ordinal in 0..unavailable {
            cluster.make_unready(&format!("{FOO}-{ordinal}"));
        }
        let gauges = cluster.sync_well().plan().gauges.unwrap();
        assert_eq!((gauges.max_unavailable, gauges.unavailable), (expected, unavailable), "{case}");
    }
}

#[test]
fn c_u26_the_budget_is_read_from_counts_and_percentages() {
    let budget = |written: Value, replicas: u32| {
        let mut cluster = given(|spec| {
            spec["replicas"] = json!(replicas);
            spec["updateStrategy"]["rollingUpdate"] = json!({ "partition": 0, "maxUnavailable": written });
        });
        cluster.features.max_unavailable = true;
        cluster.sync_well().plan().gauges.unwrap().max_unavailable
    };
    let cases = [
        (Value::Null, 10, 1),
        (json!(3), 10, 3),
        (json!(3), 0, 3),
        (json!(0), 10, 1),
        (json!("10%"), 25, 2),
        (json!("100%"), 5, 5),
        (json!("50%"), 5, 2),
        (json!("10%"), 5, 1),
        (json!("1%"), 0, 1),
        (json!("0%"), 0, 1),
    ];
    for (written, replicas, expected) in cases {
        assert_eq!(budget(written.clone(), replicas), expected, "{written} of {replicas}");
    }
    assert_eq!(Amount::Percent(29).of(10), 2, "Q6: rounded down");
}
