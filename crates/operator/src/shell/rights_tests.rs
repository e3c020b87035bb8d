use prometheus_client::metrics::family::Family;

use super::{ASK_AGAIN_AFTER, Right, Rights};
use crate::shell::metrics::PermissionLabels;

fn right(verb: &'static str) -> Right {
    Right { verb, resource: "statefulsets/status", namespace: "ns".into() }
}

fn labels(verb: &'static str) -> PermissionLabels {
    PermissionLabels { verb, resource: "statefulsets/status", namespace: "ns".into() }
}

#[tokio::test(start_paused = true)]
async fn a_denied_right_is_asked_for_again_rarely_and_a_grant_is_noticed() {
    let gauge = Family::default();
    let rights = Rights::new(gauge.clone());
    assert_eq!(rights.denied_until(&right("patch")), None);
    rights.deny(&right("patch"), "no");
    assert!(rights.denied_until(&right("patch")).is_some());
    assert_eq!(rights.denied_until(&right("update")), None, "another right");
    assert_eq!(gauge.get_or_create(&labels("patch")).get(), 1);
    tokio::time::advance(ASK_AGAIN_AFTER).await;
    assert_eq!(rights.denied_until(&right("patch")), None, "it is time to ask");
    rights.deny(&right("patch"), "no");
    assert!(rights.denied_until(&right("patch")).is_some());
    rights.grant(&right("patch"));
    assert_eq!(rights.denied_until(&right("patch")), None);
    assert!(gauge.get(&labels("patch")).is_none());
}
