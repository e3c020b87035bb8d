use std::net::SocketAddr;

use super::{CallError, MAX_ADDRESSES, permitted};
use crate::outbound::reach::{Reach, Refusal};

fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
    texts.iter().map(|text| SocketAddr::new(text.parse().unwrap(), 9090)).collect()
}

#[test]
fn of_a_name_with_both_kinds_only_the_permitted_addresses_are_asked() {
    let found = addresses(&["127.0.0.1", "10.0.0.1", "169.254.169.254", "2001:db8::1"]);
    let asked = permitted("prom", found, Reach::default());
    assert_eq!(asked, Ok(addresses(&["10.0.0.1", "2001:db8::1"])));
}

#[test]
fn a_name_without_permitted_addresses_says_why() {
    let refused = permitted("prom", addresses(&["169.254.169.254", "127.0.0.1"]), Reach::default());
    let why =
        CallError::Refused { host: "prom".into(), address: [127, 0, 0, 1].into(), why: Refusal::Loopback };
    assert_eq!(refused, Err(why));
    let nothing = permitted("prom", [], Reach::default());
    assert!(matches!(nothing, Err(CallError::Unresolved { .. })), "{nothing:?}");
}

#[test]
fn not_all_addresses_of_a_large_name_are_tried() {
    let found: Vec<_> = (1..=100).map(|last| SocketAddr::from(([10, 0, 0, last], 9090))).collect();
    assert_eq!(permitted("prom", found.clone(), Reach::default()), Ok(found[..MAX_ADDRESSES].to_vec()));
}
