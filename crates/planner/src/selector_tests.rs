use super::{Labels, Requirement, Selector, Test};

fn labels() -> Labels {
    [("app".into(), "ingester".into()), ("zone".into(), "a".into())].into()
}

fn matches(selector: &Selector) -> bool {
    let labels = labels();
    selector.matches(|key| labels.get(key).map(|value| &**value))
}

fn requires(key: &str, test: Test) -> Selector {
    Selector { requirements: vec![Requirement { key: key.into(), test }] }
}

#[test]
fn all_labels_must_match() {
    assert!(matches(&Selector::labels([("app", "ingester")])));
    assert!(matches(&Selector::labels([("app", "ingester"), ("zone", "a")])));
    assert!(!matches(&Selector::labels([("app", "ingester"), ("zone", "b")])));
    assert!(!matches(&Selector::labels([("tier", "ingester")])));
}

#[test]
fn expressions_mean_what_kubernetes_means() {
    let values = |values: &[&str]| values.iter().map(|value| Box::from(*value)).collect::<Vec<_>>();
    assert!(matches(&requires("zone", Test::In(values(&["b", "a"])))));
    assert!(!matches(&requires("zone", Test::In(values(&["b", "c"])))));
    assert!(!matches(&requires("tier", Test::In(values(&["b"])))));
    assert!(!matches(&requires("zone", Test::NotIn(values(&["a", "b"])))));
    assert!(matches(&requires("zone", Test::NotIn(values(&["b"])))));
    assert!(matches(&requires("tier", Test::NotIn(values(&["b"]))),), "an absent label is not in any list");
    assert!(matches(&requires("zone", Test::Exists)));
    assert!(!matches(&requires("tier", Test::Exists)));
    assert!(matches(&requires("tier", Test::DoesNotExist)));
    assert!(!matches(&requires("zone", Test::DoesNotExist)));
}

#[test]
fn an_empty_selector_claims_nothing() {
    assert!(!matches(&Selector::default()));
}
