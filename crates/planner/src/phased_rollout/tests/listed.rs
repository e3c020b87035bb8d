//! Every row of the behaviour catalogue that this crate can show has a test that bears its number.

/// The files with tests.
const FILES: [&str; 8] = [
    include_str!("asking.rs"),
    include_str!("catalogue.rs"),
    include_str!("edges.rs"),
    include_str!("failing.rs"),
    include_str!("more_edges.rs"),
    include_str!("peer.rs"),
    include_str!("../judge_tests.rs"),
    include_str!("../policy_tests.rs"),
];

/// Rows of the section on edge cases.
const EDGES: u32 = 27;
/// Scenarios of the peer.
const PEER: u32 = 17;
/// Scenarios of our own. Those on authentication (3) and on servers that hang (10) are about requests, which are made
/// elsewhere.
const OURS: [u32; 12] = [1, 2, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14];

#[test]
fn every_row_has_a_test() {
    let ids = (1..=EDGES).map(|row| format!("b_a10_{row}_"));
    let ids = ids.chain((1..=PEER).map(|row| format!("b_a13_{row}_")));
    let ids = ids.chain(OURS.iter().map(|row| format!("b_a14_{row}_")));
    let missing: Vec<_> =
        ids.filter(|id| !FILES.iter().any(|file| file.contains(&format!("#[test]\nfn {id}")))).collect();
    assert_eq!(missing, Vec::<String>::new());
}
