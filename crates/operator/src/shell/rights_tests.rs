use prometheus_client::metrics::family::Family;
use tokio::time::Instant;

use super::{ATTEMPT_LIMIT, FIRST_RETRY_AFTER, LAST_RETRY_AFTER, Right, Rights};
use crate::shell::metrics::PermissionLabels;

fn right(verb: &'static str) -> Right {
    Right { verb, resource: "statefulsets/status".into(), namespace: "ns".into() }
}

fn labels(verb: &'static str) -> PermissionLabels {
    PermissionLabels { verb, resource: "statefulsets/status".into(), namespace: "ns".into() }
}

#[tokio::test(start_paused = true)]
async fn a_denied_right_is_tried_again_more_and_more_rarely_and_a_grant_is_noticed() {
    let gauge = Family::default();
    let rights = Rights::new(gauge.clone());
    assert_eq!(rights.denied_until(&right("patch")), None);
    let mut pause = FIRST_RETRY_AFTER;
    while pause < LAST_RETRY_AFTER {
        rights.deny(&right("patch"), "no");
        rights.deny(&right("patch"), "no, to one that was under way at the same time");
        assert_eq!(rights.denied_until(&right("patch")), Some(Instant::now() + pause));
        tokio::time::advance(pause).await;
        assert_eq!(rights.denied_until(&right("patch")), None, "it is time to try");
        pause *= 2;
    }
    rights.deny(&right("patch"), "no");
    assert_eq!(rights.denied_until(&right("patch")), Some(Instant::now() + LAST_RETRY_AFTER));
    assert_eq!(rights.denied_until(&right("update")), None, "another right");
    assert_eq!(gauge.get_or_create(&labels("patch")).get(), 1);
    rights.grant(&right("patch"));
    assert_eq!(rights.denied_until(&right("patch")), None);
    assert!(gauge.get(&labels("patch")).is_none());
    rights.deny(&right("patch"), "no");
    assert_eq!(
        rights.denied_until(&right("patch")),
        Some(Instant::now() + FIRST_RETRY_AFTER),
        "it began anew"
    );
}

#[tokio::test(start_paused = true)]
async fn one_attempt_at_a_denied_right_is_made_at_a_time() {
    let rights = Rights::new(Family::default());
    assert!(rights.attempt(&right("patch")) && rights.attempt(&right("patch")), "nothing is known of it");
    rights.deny(&right("patch"), "no");
    assert!(!rights.attempt(&right("patch")));
    tokio::time::advance(FIRST_RETRY_AFTER).await;
    assert!(rights.attempt(&right("patch")));
    assert!(!rights.attempt(&right("patch")), "one is being made");
    tokio::time::advance(ATTEMPT_LIMIT).await;
    assert!(rights.attempt(&right("patch")), "the first one has had no answer");
    rights.deny(&right("patch"), "no");
    assert_eq!(rights.denied_until(&right("patch")), Some(Instant::now() + 2 * FIRST_RETRY_AFTER));
    tokio::time::advance(2 * FIRST_RETRY_AFTER).await;
    assert!(rights.attempt(&right("patch")));
    rights.grant(&right("patch"));
    assert!(rights.attempt(&right("patch")) && rights.attempt(&right("patch")));
}
