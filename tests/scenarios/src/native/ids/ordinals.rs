//! End to end: the first ordinal of a live set.

use serde_json::{Value, json};

use super::{USUAL, ids};
use crate::native::{Act, Set, pods};
use crate::scenarios::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    ids![USUAL;
        c_e30_the_first_ordinal_is_set,
        c_e31_the_first_ordinal_is_raised,
        c_e32_the_first_ordinal_is_lowered,
        c_e33_the_first_ordinal_is_removed,
    ]
}

fn start(first: Option<u32>) -> Value {
    json!({ "ordinals": first.map(|first| json!({ "start": first })) })
}

/// Two pods from one ordinal on, then from another: those in both ranges stay, the others go and come.
async fn moved(act: &Act, from: Option<u32>, before: &str, to: Option<u32>, after: &str) {
    act.create_set(&Set::new("web", 2).spec(start(from))).await;
    act.settled("created", pods(before)).await;
    act.respec("web", start(to)).await;
    act.settled("moved", pods(after)).await;
    for pod in before.split(' ').chain(after.split(' ')) {
        assert_eq!(act.trace().lives_of(pod), 1, "{pod}");
    }
}

async fn c_e30_the_first_ordinal_is_set(act: &Act) {
    moved(act, None, "web-0 web-1", Some(2), "web-2 web-3").await;
}

async fn c_e31_the_first_ordinal_is_raised(act: &Act) {
    moved(act, Some(2), "web-2 web-3", Some(3), "web-3 web-4").await;
}

async fn c_e32_the_first_ordinal_is_lowered(act: &Act) {
    moved(act, Some(3), "web-3 web-4", Some(2), "web-2 web-3").await;
}

async fn c_e33_the_first_ordinal_is_removed(act: &Act) {
    moved(act, Some(3), "web-3 web-4", None, "web-0 web-1").await;
}
