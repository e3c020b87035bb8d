use super::*;

/// A place of sets with ranges, all pods available unless said otherwise.
fn pool(range: Range<u32>) -> Pool {
    Pool {
        pods: range.clone().map(|ordinal| (ordinal, State::Available)).collect(),
        range,
        is_observed: true,
    }
}

fn decide(wanted: Range<u32>, pools: &[Pool], target: usize) -> Next {
    let present =
        pools.iter().enumerate().flat_map(|(at, pool)| pool.pods.keys().map(move |k| (*k, Some(at))));
    let present: BTreeSet<Occupant> = present.collect();
    next(&Place {
        wanted: &wanted,
        pools,
        target,
        present: &present,
        listed: Some(&present),
        has_claims: &|_| true,
        may_give: true,
        max_unavailable: 1,
        reverts: false,
    })
}

#[test]
fn the_highest_ordinal_is_given_up_first() {
    let next = decide(0..3, &[pool(0..3), pool(0..0)], 1);
    assert_eq!(next, Next::Give { pool: 0, ordinal: 2, range: 0..2 });
}

#[test]
fn an_ordinal_that_nobody_has_is_taken() {
    assert_eq!(decide(0..3, &[pool(0..2), pool(0..0)], 1), Next::Take { pool: 1, range: 2..3 });
    assert_eq!(decide(0..3, &[pool(0..1), pool(2..3)], 1), Next::Take { pool: 1, range: 1..3 });
}

#[test]
fn the_whole_range_is_taken_where_there_is_nobody_else() {
    assert_eq!(decide(5..8, &[pool(5..5)], 0), Next::Take { pool: 0, range: 5..8 });
    assert_eq!(decide(0..3, &[pool(0..3)], 0), Next::Done);
    assert_eq!(decide(0..0, &[pool(0..0)], 0), Next::Done);
}

#[test]
fn a_broken_ordinal_at_the_bottom_begins() {
    let mut old = pool(0..3);
    old.pods.insert(0, State::Broken);
    assert_eq!(decide(0..3, &[old, pool(0..0)], 1), Next::Give { pool: 0, ordinal: 0, range: 1..3 });
}

#[test]
fn what_is_not_wanted_is_cut_and_an_overlap_too() {
    assert_eq!(decide(0..2, &[pool(0..3)], 0), Next::Cut { pool: 0, range: 0..2 });
    assert_eq!(decide(0..3, &[pool(0..2), pool(1..3)], 1), Next::Cut { pool: 1, range: 2..3 });
    assert_eq!(decide(0..3, &[pool(0..3), pool(0..3)], 1), Next::Cut { pool: 1, range: 0..0 });
    assert_eq!(decide(0..0, &[pool(0..3)], 0), Next::Cut { pool: 0, range: 0..0 });
}

#[test]
fn nothing_is_taken_before_the_others_have_observed_their_range() {
    let mut old = pool(0..2);
    old.is_observed = false;
    assert_eq!(decide(0..3, &[old, pool(0..0)], 1), Next::Wait(Pause::Unobserved(0)));
}

#[test]
fn many_ordinals_are_taken_in_several_writes() {
    assert_eq!(
        decide(0..2_000_000_000, &[pool(0..0)], 0),
        Next::Take { pool: 0, range: 1_999_998_999..2_000_000_000 }
    );
}
