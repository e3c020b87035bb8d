use http::StatusCode;
use sts_plus_planner::phased_rollout::answer::{Extent, QueryError};

use super::judge;
use crate::outbound::call::Reply;
use crate::outbound::endpoint::Endpoint;
use crate::outbound::reading::Reading;

#[test]
fn a_redirect_is_told_without_what_may_be_secret_in_it() {
    for (location, shown) in [
        (Some("https://me:canary@other/api?token=canary#canary"), "to https://other/api,"),
        (Some("/login?next=canary"), "to /login,"),
        (Some("https://other"), "to https://other,"),
        (None, "answered 301, which is no result"),
    ] {
        let reply = Reply {
            code: StatusCode::MOVED_PERMANENTLY,
            location: location.map(ToOwned::to_owned),
            text: b"<a>moved</a>".to_vec(),
        };
        let found = judge(&reply, Reading::new(Extent::First), &Endpoint::parse("prom").unwrap());
        let Err(QueryError::Failed(message)) = found else { panic!("{found:?}") };
        assert!(message.contains(shown) && !message.contains("canary"), "{message}");
    }
}
