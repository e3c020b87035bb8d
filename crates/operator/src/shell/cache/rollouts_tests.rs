use std::sync::Arc;

use jiff::Timestamp;
use sts_plus_api::phased_rollout::{PhasedRolloutStatus, Target};
use sts_plus_planner::phased_rollout::row::{ParsedSpec, RolloutRow};

use super::{FRONT, Rollouts, Table, Touched};

fn rollout(name: &str, version: u32, target: &str) -> RolloutRow {
    let spec = serde_json::json!({ "targetRef": target });
    RolloutRow {
        namespace: "ns".into(),
        name: name.into(),
        uid: format!("uid-{name}").into(),
        resource_version: version.to_string().into(),
        generation: 1,
        created: Timestamp::UNIX_EPOCH,
        deleting: false,
        finalizers: Vec::new(),
        approve: None,
        spec: ParsedSpec::of(&serde_json::from_value(spec).unwrap()),
        status: PhasedRolloutStatus::default(),
    }
}

fn names(touched: &[Touched]) -> Vec<String> {
    let mut names: Vec<_> = touched
        .iter()
        .map(|touched| match touched {
            Touched::Rollout { name, .. } => name.to_string(),
            _ => panic!("a rollout touches rollouts only"),
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn a_set_concerns_the_rollouts_that_name_it_and_those_that_have_not_let_it_go() {
    let mut rollouts = Rollouts::default();
    rollouts.insert(rollout("a", 1, "web"));
    let mut moved = rollout("b", 1, "db");
    moved.status.target = Some(Target { name: "web".to_owned(), uid: "uid-web".to_owned() });
    rollouts.insert(moved);
    assert_eq!(names(&rollouts.about(&"ns".into(), &"web".into())), ["a", "b"]);
    assert_eq!(names(&rollouts.about(&"ns".into(), &"db".into())), ["b"]);
    assert_eq!(names(&rollouts.about(&"other".into(), &"web".into())), [""; 0]);
}

#[test]
fn rivals_hear_of_a_rollout_that_comes_goes_or_moves_but_not_of_its_status() {
    let mut rollouts = Rollouts::default();
    rollouts.insert(rollout("a", 1, "web"));
    assert_eq!(names(&rollouts.insert(rollout("b", 2, "web"))), ["a", "b"]);
    assert_eq!(names(&rollouts.insert(rollout("b", 3, "web"))), ["b"], "only its version is another one");
    assert_eq!(names(&rollouts.insert(rollout("b", 4, "db"))), ["a", "b"], "it moves");
    assert_eq!(names(&rollouts.insert(RolloutRow { deleting: true, ..rollout("a", 5, "web") })), ["a"]);
    assert_eq!(names(&rollouts.take_out(&("ns".into(), "b".into()))), ["b"]);
}

#[test]
fn an_older_version_changes_nothing() {
    let mut rollouts = Rollouts::default();
    rollouts.insert(rollout("a", 10, "web"));
    assert!(rollouts.insert(rollout("a", 9, "db")).is_empty());
    let name = (Arc::from("ns"), Arc::from("a"));
    assert_eq!(rollouts.get(&name).and_then(|row| row.target().map(str::to_owned)).as_deref(), Some("web"));
}

/// Each of ten thousand would be looked at for each of the others: work and memory grow with their number instead.
#[test]
fn thousands_in_line_for_one_set_hear_of_changes_only_in_front() {
    const MANY: usize = 10_000;
    let name = |number: usize| format!("r{number:05}");
    let mut rollouts = Rollouts::default();
    let came: usize = (0..MANY).map(|number| rollouts.insert(rollout(&name(number), 1, "web")).len()).sum();
    assert!(came < 2 * MANY, "{came}");
    assert!(rollouts.about(&"ns".into(), &"web".into()).len() <= FRONT);
    let last = rollouts.get(&("ns".into(), name(MANY - 1).into())).unwrap();
    assert_eq!(
        rollouts
            .rivals(last, std::iter::empty())
            .iter()
            .map(|rival| rival.name.to_string())
            .collect::<Vec<_>>(),
        ["r00000"]
    );
    // Deleted from the oldest on, so that each manages the set when it is deleted; its deletion wakes the next in line only.
    let mut went = 0;
    for number in 0..MANY {
        let deleting = RolloutRow { deleting: true, ..rollout(&name(number), 2, "web") };
        let told = rollouts.insert(deleting);
        if number + 1 < MANY {
            assert!(names(&told).contains(&name(number + 1)), "the next one takes over");
        }
        went += told.len() + rollouts.take_out(&("ns".into(), name(number).into())).len();
    }
    assert!(went < 20 * MANY, "{went}");
    assert_eq!(rollouts.len(), 0);
    assert!(rollouts.lines.is_empty() && rollouts.leaving.is_empty());
}

#[test]
fn one_far_behind_in_line_concerns_nobody_else() {
    let mut rollouts = Rollouts::default();
    for number in 0..30 {
        rollouts.insert(rollout(&format!("r{number:02}"), 1, "web"));
    }
    assert_eq!(names(&rollouts.take_out(&("ns".into(), "r20".into()))), ["r20"]);
    assert_eq!(names(&rollouts.insert(rollout("r99", 1, "web"))), ["r99"]);
    // Whoever moves up hears of it.
    let moved_up = rollouts.take_out(&("ns".into(), "r03".into()));
    assert!(names(&moved_up).contains(&"r08".to_owned()), "{moved_up:?}");
}
