use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{Allowance, Denial, Disturbance, DomainBudget, Gatekeeper, MAX_MEMBERS};
use crate::example;
use crate::health::Member;
use crate::plan::Awaited;
use crate::pod::{PodRow, Waiting};
use crate::set::{SetName, SetRow, Steering, Strategy};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;
/// How many pods each set has.
const REPLICAS: u32 = 4;

/// How a pod is, other than Ready and outdated.
#[derive(Clone, Copy, Debug)]
enum Is {
    Missing,
    Terminating,
    /// Its containers run.
    NotReady,
    /// Nothing of it has been started.
    Dead,
    /// Nothing of it runs, and nothing will.
    Broken,
    /// One of its containers runs, another one will not.
    BrokenInPart,
    Settling,
    /// Of the revision that it would be rebuilt with, as it is otherwise.
    Updated,
}

fn pod(name: &str) -> Arc<PodRow> {
    let (set, ordinal) = name.rsplit_once('-').unwrap();
    let row = example::pod(&example::set(set), ordinal.parse().unwrap());
    let ready_since = NOW.saturating_sub(SignedDuration::from_hours(1)).ok();
    Arc::new(PodRow { revision: Some("old".into()), ready_since, ..row })
}

fn row(name: &str, is: &[(&str, Is)]) -> Option<Arc<PodRow>> {
    let mut row = PodRow::clone(&pod(name));
    for (_, is) in is.iter().filter(|(of, _)| *of == name) {
        match is {
            Is::Missing => return None,
            Is::Terminating => row.terminating = true,
            Is::NotReady => row.ready_since = None,
            Is::Dead => (row.ready_since, row.running) = (None, false),
            Is::Broken => {
                (row.ready_since, row.running) = (None, false);
                row.waiting = Some(Waiting::CrashLoopBackOff);
            }
            Is::BrokenInPart => (row.ready_since, row.waiting) = (None, Some(Waiting::CrashLoopBackOff)),
            Is::Updated => row.revision = Some("new".into()),
            Is::Settling => row.ready_since = Some(NOW),
        }
    }
    Some(Arc::new(row))
}

fn member(set: SetRow, is: &[(&str, Is)]) -> Member {
    let pods = (0..REPLICAS).filter_map(|ordinal| row(&format!("{}-{ordinal}", set.name), is));
    let pods: Vec<_> = pods.collect();
    Member::new(Arc::new(set), pods)
}

fn set(name: &str) -> SetRow {
    SetRow { replicas: REPLICAS, min_ready: SignedDuration::from_secs(5), ..example::set(name) }
}

/// A set with its budget, and how its pods are.
struct Zone<'t> {
    name: &'t str,
    max_unavailable: u32,
    is: Vec<(&'t str, Is)>,
}

fn zone<'t>(name: &'t str, max_unavailable: u32, is: &[(&'t str, Is)]) -> Zone<'t> {
    Zone { name, max_unavailable, is: is.to_vec() }
}

fn members(zones: &[Zone<'_>]) -> Vec<Member> {
    let annotated = |zone: &Zone<'_>| {
        let max_unavailable = Some(zone.max_unavailable.to_string().into());
        SetRow { steering: Steering { max_unavailable, ..Steering::default() }, ..set(zone.name) }
    };
    zones.iter().map(|zone| member(annotated(zone), &zone.is)).collect()
}

fn budget(zones: &[Zone<'_>]) -> DomainBudget {
    DomainBudget::of(&members(zones), Allowance::OfSet, NOW)
}

fn name(set: &str) -> SetName {
    SetName { namespace: "prod".into(), name: set.into() }
}

/// The kind of a denial in one word.
fn kind(denial: &Denial) -> &'static str {
    match denial {
        Denial::TooManySets { .. } => "TooManySets",
        Denial::OtherSetNotReady { .. } => "OtherSetNotReady",
        Denial::OtherSetDisturbed { .. } => "OtherSetDisturbed",
        Denial::OtherSetPermitted { .. } => "WaitingForTurn",
        Denial::BudgetSpent { .. } => "BudgetSpent",
        Denial::Leaving { .. } => "Leaving",
        Denial::NotInDomain { .. } => "NotInDomain",
    }
}

/// A pod as it is in its zone.
fn seen(zones: &[Zone<'_>], name: &str) -> Arc<PodRow> {
    let is: Vec<_> = zones.iter().flat_map(|zone| &zone.is).copied().collect();
    row(name, &is).unwrap()
}

#[track_caller]
fn answers(domain: &[Zone<'_>], questions: &[(&str, &str)], expected: &[&str]) {
    let budget = budget(domain);
    let mut gatekeeper = Gatekeeper::new(&budget);
    let answers: Vec<_> = questions
        .iter()
        .map(|(set, name)| {
            let seen = seen(domain, name);
            match gatekeeper.ask(&(*set).into(), &seen) {
                Ok(permit) => {
                    assert_eq!(permit.pod(), &*seen, "leave is given for the pod as it was seen");
                    "may go"
                }
                Err(denial) => kind(&denial),
            }
        })
        .collect();
    assert_eq!(answers, expected);
}

#[test]
fn leave_is_given_until_the_budget_is_spent() {
    let domain = [zone("a", 2, &[])];
    answers(&domain, &[("a", "a-0"), ("a", "a-1"), ("a", "a-2")], &["may go", "may go", "BudgetSpent"]);
    let domain = [zone("a", 2, &[("a-3", Is::Missing)])];
    answers(&domain, &[("a", "a-0"), ("a", "a-1")], &["may go", "BudgetSpent"]);
}

#[test]
fn a_broken_pod_goes_for_nothing_and_leaves_nothing_for_the_others() {
    let domain = [zone("a", 1, &[("a-0", Is::Broken), ("a-1", Is::Broken)])];
    answers(&domain, &[("a", "a-0"), ("a", "a-1"), ("a", "a-2")], &["may go", "may go", "BudgetSpent"]);
    let domain = [zone("a", 2, &[("a-0", Is::Broken)])];
    answers(&domain, &[("a", "a-0"), ("a", "a-1"), ("a", "a-2")], &["may go", "may go", "BudgetSpent"]);
}

#[test]
fn a_pod_that_is_not_ready_needs_room_for_those_that_go_but_not_for_those_that_stay() {
    let may = ["may go"];
    for lost in [Is::NotReady, Is::Dead, Is::BrokenInPart] {
        answers(&[zone("a", 1, &[("a-0", lost)])], &[("a", "a-0")], &may);
        let all = [("a-0", lost), ("a-1", lost), ("a-2", lost), ("a-3", lost)];
        answers(&[zone("a", 1, &all)], &[("a", "a-0"), ("a", "a-1")], &["may go", "BudgetSpent"]);
        answers(&[zone("a", 2, &all)], &[("a", "a-0"), ("a", "a-1")], &["may go", "may go"]);
        for gone in [Is::Missing, Is::Terminating] {
            answers(&[zone("a", 1, &[("a-0", lost), ("a-1", gone)])], &[("a", "a-0")], &["BudgetSpent"]);
        }
        let updated = [("a-0", lost), ("a-1", Is::NotReady), ("a-1", Is::Updated)];
        answers(&[zone("a", 1, &updated)], &[("a", "a-0")], &["BudgetSpent"]);
        answers(&[zone("a", 2, &updated)], &[("a", "a-0")], &may);
    }
    let domain = [zone("a", 2, &[("a-0", Is::NotReady)])];
    answers(&domain, &[("a", "a-0"), ("a", "a-1")], &["may go", "BudgetSpent"]);
}

/// The first revision of a set never becomes Ready, so its controller has not created the pods after it.
#[test]
fn pods_that_a_set_creates_in_order_keep_no_outdated_pod_that_they_wait_for() {
    let ordered = |is: &[(&str, Is)]| {
        let set = SetRow { is_ordered: true, ..set("a") };
        DomainBudget::of(&[member(set, is)], Allowance::OfSet, NOW)
    };
    let answer = |is: &[(&str, Is)], pod: &str| {
        let (budget, pod) = (ordered(is), row(pod, is).unwrap());
        let back = Gatekeeper::new(&budget).ask_back(&"a".into(), &pod).is_ok();
        let ask = Gatekeeper::new(&budget).ask(&"a".into(), &pod).is_ok();
        (ask, back)
    };
    let rest = [("a-1", Is::Missing), ("a-2", Is::Missing), ("a-3", Is::Missing)];
    let first = |is: Is| [&[("a-0", is)][..], &rest[..]].concat();
    for lost in [Is::NotReady, Is::BrokenInPart] {
        assert_eq!(answer(&first(lost), "a-0"), (true, true), "{lost:?}");
        let updated = [&first(lost)[..], &[("a-0", Is::Updated)]].concat();
        assert_eq!(answer(&updated, "a-0"), (false, false), "it would come back as it is");
        // Another pod serves: one that does not exist may have been deleted a moment ago.
        let serving = [("a-0", Is::Updated), ("a-1", lost), ("a-2", Is::Missing), ("a-3", Is::Missing)];
        assert_eq!(answer(&serving, "a-1"), (false, false));
        // Not all that are missing wait for it.
        let before = [("a-0", Is::Missing), ("a-1", lost), ("a-2", Is::Missing), ("a-3", Is::Missing)];
        assert_eq!(answer(&before, "a-1"), (false, false));
    }
    // Without an order they are on their way.
    let parallel = [zone("a", 1, &first(Is::NotReady))];
    answers(&parallel, &[("a", "a-0")], &["BudgetSpent"]);
}

#[test]
fn a_pod_that_would_be_rebuilt_as_it_is_is_not_replaced_for_being_down() {
    for lost in [Is::NotReady, Is::Dead, Is::Broken] {
        let domain = [zone("a", 1, &[("a-0", lost), ("a-0", Is::Updated)])];
        answers(&domain, &[("a", "a-0")], &["BudgetSpent"]);
    }
}

/// What each pod is answered on the way back, one after the other.
#[track_caller]
fn answers_back(domain: &[Zone<'_>], pods: &[&str], expected: &[&str]) {
    let budget = budget(domain);
    let mut gatekeeper = Gatekeeper::new(&budget);
    let mut answer = |pod: &&str| gatekeeper.ask_back(&"a".into(), &seen(domain, pod));
    let answers: Vec<_> =
        pods.iter().map(|pod| answer(pod).map_or_else(|denial| kind(&denial), |_| "may go")).collect();
    assert_eq!(answers, expected, "{pods:?}");
}

#[test]
fn on_the_way_back_pods_of_which_a_container_runs_are_deleted_within_the_budget() {
    for lost in [Is::NotReady, Is::BrokenInPart] {
        let down = [("a-0", lost), ("a-1", lost), ("a-2", lost)];
        answers_back(&[zone("a", 1, &down)], &["a-0", "a-1"], &["may go", "BudgetSpent"]);
        answers_back(&[zone("a", 2, &down)], &["a-0", "a-1", "a-2"], &["may go", "may go", "BudgetSpent"]);
        for gone in [Is::Missing, Is::Terminating] {
            let replaced = [("a-0", lost), ("a-1", gone)];
            answers_back(&[zone("a", 1, &replaced)], &["a-0"], &["BudgetSpent"]);
        }
        let coming_back = [("a-0", lost), ("a-1", Is::NotReady), ("a-1", Is::Updated)];
        answers_back(&[zone("a", 1, &coming_back)], &["a-0"], &["BudgetSpent"]);
    }
}

#[test]
fn on_the_way_back_dead_pods_are_deleted_however_many_others_are_down() {
    for lost in [Is::Dead, Is::Broken] {
        let down = [("a-0", lost), ("a-1", lost), ("a-2", Is::Missing)];
        answers_back(&[zone("a", 1, &down)], &["a-0", "a-1", "a-3"], &["may go", "may go", "BudgetSpent"]);
    }
}

#[test]
fn on_the_way_back_a_pod_that_has_just_become_ready_is_counted_once() {
    let settling = [("a-2", Is::Settling)];
    answers_back(&[zone("a", 1, &settling)], &["a-2"], &["may go"]);
    answers_back(&[zone("a", 1, &settling)], &["a-3"], &["BudgetSpent"]);
    answers_back(&[zone("a", 1, &[])], &["a-3"], &["may go"]);
    let two = [("a-0", Is::NotReady), ("a-2", Is::Settling)];
    answers_back(&[zone("a", 1, &two)], &["a-2"], &["BudgetSpent"]);
}

#[test]
fn nobody_of_whom_something_runs_goes_while_a_pod_of_another_set_is_down() {
    let domain = [zone("a", 9, &[("a-0", Is::BrokenInPart)]), zone("b", 9, &[("b-0", Is::Terminating)])];
    answers(&domain, &[("a", "a-0"), ("a", "a-1")], &["OtherSetNotReady", "OtherSetNotReady"]);
}

#[test]
fn a_dead_pod_goes_whatever_the_other_sets_do_unless_it_would_be_rebuilt_as_it_is() {
    for lost in [Is::Dead, Is::Broken] {
        for other in [Is::Missing, Is::Terminating, Is::NotReady, Is::Broken, Is::Settling] {
            let domain = [zone("a", 1, &[("a-0", lost)]), zone("b", 1, &[("b-0", other)])];
            answers(&domain, &[("a", "a-0"), ("a", "a-1")], &["may go", "OtherSetNotReady"]);
            let updated = [("a-0", lost), ("a-0", Is::Updated)];
            let domain = [zone("a", 9, &updated), zone("b", 1, &[("b-0", other)])];
            answers(&domain, &[("a", "a-0")], &["OtherSetNotReady"]);
        }
        let domain = [zone("a", 1, &[("a-0", lost)]), zone("b", 1, &[("b-0", lost)])];
        answers(&domain, &[("a", "a-0"), ("b", "b-0")], &["may go", "may go"]);
    }
}

#[test]
fn on_the_way_back_a_dead_pod_goes_whatever_the_other_sets_do_and_no_other_one() {
    for (lost, expected) in [
        (Is::Dead, "may go"),
        (Is::Broken, "may go"),
        (Is::NotReady, "OtherSetNotReady"),
        (Is::BrokenInPart, "OtherSetNotReady"),
    ] {
        let domain = [zone("a", 1, &[("a-0", lost)]), zone("b", 1, &[("b-0", lost)])];
        let budget = budget(&domain);
        let mut gatekeeper = Gatekeeper::new(&budget);
        for (set, name) in [("a", "a-0"), ("b", "b-0")] {
            let answer = gatekeeper.ask_back(&set.into(), &seen(&domain, name));
            assert_eq!(answer.map_or_else(|denial| kind(&denial), |_| "may go"), expected, "{lost:?}");
        }
    }
}

#[test]
fn leave_given_to_one_set_closes_the_door_to_the_others() {
    let domain = [zone("a", 1, &[]), zone("b", 1, &[])];
    answers(&domain, &[("b", "b-0"), ("a", "a-0")], &["may go", "WaitingForTurn"]);
}

/// What another set is refused for while `a`, of which every pod is Ready, is like this.
#[track_caller]
fn disturbs(change: impl FnOnce(&mut SetRow), expected: Option<Disturbance>) {
    let mut row = SetRow { first_ordinal: 1, replicas: REPLICAS - 1, ..set("a") };
    change(&mut row);
    let mut members = members(&[zone("b", 1, &[])]);
    members.push(member(row, &[("a-0", Is::Missing)]));
    let domain = DomainBudget::of(&members, Allowance::OfSet, NOW);
    let answer = Gatekeeper::new(&domain).ask(&"b".into(), &pod("b-0"));
    let denial = expected.map(|disturbance| Denial::OtherSetDisturbed { set: name("a"), disturbance });
    assert_eq!(answer.err(), denial);
    assert!(Gatekeeper::new(&domain).ask(&"a".into(), &pod("a-1")).is_ok(), "its own pods may go");
}

#[test]
fn a_pod_that_a_partition_has_released_keeps_the_other_sets_waiting_before_it_is_deleted() {
    let rolls = |partition| Strategy::RollingUpdate { partition };
    let released = |pod: &str| Some(Disturbance::Released { pod: pod.into() });
    disturbs(|set| set.strategy = rolls(0), released("a-1"));
    disturbs(|set| set.strategy = rolls(2), released("a-3"));
    disturbs(|set| set.strategy = rolls(3), None);
    disturbs(|set| set.strategy = rolls(99), None);
    disturbs(|set| (set.strategy, set.update_revision) = (rolls(0), Some("old".into())), None);
    disturbs(|set| set.strategy = Strategy::OnDelete, None);
}

#[test]
fn a_spec_that_is_not_observed_keeps_the_other_sets_waiting_unless_the_set_is_being_deleted() {
    let unobserved = Some(Disturbance::Unobserved { generation: 3 });
    for strategy in [Strategy::OnDelete, Strategy::RollingUpdate { partition: 9 }] {
        disturbs(|set| (set.strategy, set.generation) = (strategy.clone(), 3), unobserved.clone());
        disturbs(|set| (set.strategy, set.generation, set.deleting) = (strategy.clone(), 3, true), None);
    }
}

#[test]
fn a_set_that_the_gatekeeper_was_not_told_about_gets_no_leave() {
    let domain = [zone("a", 1, &[])];
    answers(&domain, &[("z", "z-0")], &["NotInDomain"]);
    let empty = DomainBudget::of([], Allowance::OfSet, NOW);
    let answer = Gatekeeper::new(&empty).ask(&"z".into(), &pod("z-0"));
    assert_eq!(answer, Err(Denial::NotInDomain { set: name("z") }));
}

#[test]
fn in_a_domain_of_too_many_sets_only_dead_pods_may_be_replaced() {
    let is = [("a-1", Is::Dead)];
    let grouped = SetRow { group: Some("store".into()), ..example::set("a") };
    let domain = DomainBudget::of([&member(grouped, &is)], Allowance::OfSet, NOW);
    let too_many = domain.clone().of_sets(MAX_MEMBERS + 1);
    let mut gatekeeper = Gatekeeper::new(&too_many);
    let denial = gatekeeper.ask(&"a".into(), &pod("a-0")).unwrap_err();
    let group = Some("store".into());
    assert_eq!(denial, Denial::TooManySets { set: name("a"), group, sets: MAX_MEMBERS + 1 });
    assert_eq!(denial.awaited(), Awaited::Group { namespace: "prod".into(), group: "store".into() });
    assert!(gatekeeper.ask(&"a".into(), &row("a-1", &is).unwrap()).is_ok());
    let domain = domain.of_sets(MAX_MEMBERS);
    let mut gatekeeper = Gatekeeper::new(&domain);
    assert!(!matches!(gatekeeper.ask(&"a".into(), &pod("a-0")), Err(Denial::TooManySets { .. })));
}

#[test]
fn a_denial_names_the_set_whose_change_can_end_it() {
    let awaited = |zones: &[Zone<'_>], asked: &[(&str, &str)]| {
        let budget = budget(zones);
        let mut gatekeeper = Gatekeeper::new(&budget);
        let mut answers = asked.iter().map(|(set, pod)| gatekeeper.ask(&(*set).into(), &seen(zones, pod)));
        answers.find_map(Result::err).expect("one is denied").awaited()
    };
    let down = [zone("a", 1, &[]), zone("b", 1, &[("b-0", Is::NotReady)])];
    assert_eq!(awaited(&down, &[("a", "a-0")]), Awaited::Set(name("b")));
    let well = [zone("a", 1, &[]), zone("b", 1, &[])];
    assert_eq!(awaited(&well, &[("b", "b-0"), ("a", "a-0")]), Awaited::Set(name("b")));
    assert_eq!(awaited(&well, &[("a", "a-0"), ("a", "a-1")]), Awaited::Set(name("a")));
}

#[test]
fn the_budget_of_whoever_replaces_one_pod_at_a_time_is_one_whatever_the_annotation_says() {
    let domain = DomainBudget::of(&members(&[zone("a", 3, &[])]), Allowance::OnePod, NOW);
    let mut gatekeeper = Gatekeeper::new(&domain);
    assert!(gatekeeper.ask(&"a".into(), &pod("a-0")).is_ok());
    let denial = gatekeeper.ask(&"a".into(), &pod("a-1")).unwrap_err();
    assert!(matches!(denial, Denial::BudgetSpent { max_unavailable: 1, .. }), "{denial:?}");
}

/// The set `a` with these ordinals leaving, and the set `b`.
fn with_leaving(leaving: &str, zones: &[Zone<'_>]) -> Vec<Member> {
    let mut members = members(zones);
    let first = members.first_mut().unwrap();
    let set = Arc::make_mut(&mut first.set);
    set.steering.leaving = Some(leaving.into());
    members
}

#[test]
fn nobody_else_replaces_a_pod_that_leaves() {
    let zones = [zone("a", 3, &[]), zone("b", 3, &[])];
    let budget = DomainBudget::of(&with_leaving("2", &zones), Allowance::OfSet, NOW);
    let mut gatekeeper = Gatekeeper::new(&budget);
    let (set, pod) = ("a".into(), seen(&zones, "a-2"));
    let denials = [
        gatekeeper.ask(&set, &pod).unwrap_err(),
        gatekeeper.ask_back(&set, &pod).unwrap_err(),
        gatekeeper.ask_leave(&set, &pod, 5).unwrap_err(),
    ];
    for denial in denials {
        assert_eq!(denial, Denial::Leaving { set: name("a"), pod: "a-2".into() });
        assert_eq!(denial.awaited(), Awaited::Set(name("a")));
    }
    assert!(gatekeeper.ask(&set, &seen(&zones, "a-1")).is_ok(), "the others have the rest of the budget");
}

#[test]
fn other_sets_wait_for_one_with_a_pod_that_leaves() {
    let zones = [zone("a", 3, &[]), zone("b", 3, &[])];
    let budget = DomainBudget::of(&with_leaving("2", &zones), Allowance::OfSet, NOW);
    let mut gatekeeper = Gatekeeper::new(&budget);
    let denied = gatekeeper.ask_leave(&"b".into(), &seen(&zones, "b-1"), 1).unwrap_err();
    assert_eq!(kind(&denied), "OtherSetNotReady");
}

#[test]
fn at_most_so_many_pods_of_a_set_are_down_or_leave_at_once() {
    let zones = [zone("a", 1, &[])];
    let ask = |members: &[Member], pods: &[&str], most| {
        let budget = DomainBudget::of(members, Allowance::OnePod, NOW);
        let mut gatekeeper = Gatekeeper::new(&budget);
        let ask = |pod: &&str| match gatekeeper.ask_leave(&"a".into(), &seen(&zones, pod), most) {
            Ok(_) => "may leave",
            Err(denial) => kind(&denial),
        };
        pods.iter().map(ask).collect::<Vec<_>>()
    };
    let none = members(&zones);
    assert_eq!(ask(&none, &["a-2", "a-1"], 1), ["may leave", "BudgetSpent"]);
    assert_eq!(ask(&none, &["a-2", "a-1", "a-0"], 2), ["may leave", "may leave", "BudgetSpent"]);
    let one = with_leaving("2", &zones);
    assert_eq!(ask(&one, &["a-1"], 1), ["BudgetSpent"]);
    assert_eq!(ask(&one, &["a-1", "a-0"], 2), ["may leave", "BudgetSpent"]);
}

#[test]
fn a_b9_19_broken_pods_do_not_keep_each_other_from_leaving() {
    let zones = [zone("a", 1, &[("a-2", Is::Broken), ("a-1", Is::Broken)])];
    let budget = DomainBudget::of(&members(&zones), Allowance::OnePod, NOW);
    let ask = |gatekeeper: &mut Gatekeeper<'_>, pod: &str| {
        gatekeeper.ask_leave(&"a".into(), &seen(&zones, pod), 1).map_err(|denial| kind(&denial)).map(drop)
    };
    let mut gatekeeper = Gatekeeper::new(&budget);
    assert_eq!(ask(&mut gatekeeper, "a-0"), Err("BudgetSpent"), "it serves, and two do not");
    assert_eq!(ask(&mut gatekeeper, "a-2"), Ok(()));
    assert_eq!(ask(&mut gatekeeper, "a-1"), Err("BudgetSpent"), "one at a time");
}
