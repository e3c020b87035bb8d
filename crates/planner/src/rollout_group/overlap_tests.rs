use std::sync::Arc;

use super::overlaps;
use crate::example;
use crate::health::Member;
use crate::selector::{Requirement, Selector, Test};
use crate::set::SetRow;

/// A set with these labels that selects by these.
fn set(name: &str, labels: &[(&str, &str)], selector: Selector) -> Arc<SetRow> {
    let labels = labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    let uid = format!("uid-{name}").into();
    Arc::new(SetRow { name: name.into(), uid, selector, template_labels: labels, ..example::set(name) })
}

fn members(sets: &[Arc<SetRow>]) -> Vec<Member> {
    sets.iter().map(|set| Member::new(Arc::clone(set), [])).collect()
}

fn pairs(members: &[Arc<SetRow>], others: &[Arc<SetRow>]) -> Vec<String> {
    let found = overlaps(&self::members(members), others);
    found.iter().map(|overlap| format!("{} {}", overlap.set, overlap.other)).collect()
}

#[test]
fn a_set_that_selects_pods_of_another_is_found_by_any_kind_of_selector() {
    let requirement = |key: &str, test| Requirement { key: key.into(), test };
    let a = set("a", &[("app", "x"), ("zone", "a")], Selector::labels([("app", "x")]));
    let b = set("b", &[("app", "x"), ("zone", "b")], Selector::labels([("app", "x"), ("zone", "b")]));
    let several = Test::In(vec!["b".into(), "c".into()]);
    let c = set("c", &[("zone", "c")], Selector { requirements: vec![requirement("zone", several)] });
    let d =
        set("d", &[("other", "")], Selector { requirements: vec![requirement("app", Test::DoesNotExist)] });
    let all = [a, b, c, d];
    assert_eq!(pairs(&all, &all), ["a b", "c b", "d c"]);
    assert_eq!(pairs(&all[..1], &all), ["a b"]);
    assert_eq!(pairs(&all, &all[..1]), [""; 0], "nobody but a itself selects a");
}

#[test]
fn each_set_is_told_of_once_however_many_select_the_same() {
    let equal: Vec<_> = (0..2_000)
        .map(|n| set(&format!("s{n}"), &[("app", "x")], Selector::labels([("app", "x")])))
        .collect();
    assert_eq!(overlaps(&members(&equal), &equal).len(), equal.len());
}

/// The pairs would be 400 million.
#[test]
fn sets_with_labels_of_their_own_are_not_compared_with_each_other() {
    let own = |n: usize| {
        let value = n.to_string();
        set(&format!("s{n}"), &[("app", &value)], Selector::labels([("app", value.as_str())]))
    };
    let distinct: Vec<_> = (0..20_000).map(own).collect();
    assert_eq!(overlaps(&members(&distinct), &distinct), []);
}
