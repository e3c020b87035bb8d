use std::sync::Arc;

use futures::FutureExt;

use super::{IN_ALL, PER_SERVER, Slot, Slots};
use crate::outbound::endpoint::{Endpoint, Site};

fn site(name: &str) -> Site {
    Endpoint::parse(name).unwrap().site
}

fn now(slots: &Slots, namespace: &str, server: &str) -> Option<Slot> {
    slots.take(&Arc::from(namespace), &site(server)).now_or_never().flatten()
}

/// All that a namespace gets at once where each of so many servers is asked by twenty.
fn flood(slots: &Slots, namespace: &str, servers: usize) -> Vec<Slot> {
    let wanted = (0..servers).flat_map(|server| [server; 20]);
    wanted.filter_map(|server| now(slots, namespace, &format!("silent-{server}"))).collect()
}

#[test]
fn sixteen_silent_hosts_of_a_namespace_delay_no_other() {
    let slots = Slots::default();
    let held = flood(&slots, "hostile", 16);
    assert!(held.len() <= IN_ALL / 3 + 1, "{}", held.len());
    assert!(now(&slots, "other", "prom").is_some());
    assert!(now(&slots, "other", "silent-0").is_some(), "not even at the same server");
    drop(held);
    assert_eq!(slots.known(), 0);
}

#[test]
fn slow_queries_to_a_shared_server_delay_nobody_else() {
    let slots = Slots::default();
    let slow: Vec<_> = (0..4).map(|_| now(&slots, "slow", "shared").expect("free")).collect();
    assert!(now(&slots, "slow", "shared").is_some(), "four leave some for their own namespace");
    let more: Vec<_> = (0..20).filter_map(|_| now(&slots, "slow", "shared")).collect();
    assert_eq!(slow.len() + more.len(), PER_SERVER);
    assert!(now(&slots, "slow", "shared").is_none());
    assert!(now(&slots, "slow", "prom").is_some());
    assert!(now(&slots, "other", "shared").is_some());
}

#[test]
fn a_dozen_namespaces_that_take_all_they_can_leave_something_for_one_more() {
    let slots = Slots::default();
    let mut held = Vec::new();
    for namespace in 0..12 {
        let taken = flood(&slots, &format!("hostile-{namespace}"), 16);
        assert!(!taken.is_empty(), "{namespace}");
        held.extend(taken);
    }
    assert!(held.len() < IN_ALL);
    assert!(now(&slots, "other", "prom").is_some());
}

#[test]
fn namespaces_are_served_in_turn() {
    let slots = Slots::default();
    let crowd = |number: usize| now(&slots, &format!("n{number}"), "prom").expect("free");
    let mut held: Vec<_> = (0..IN_ALL).map(crowd).collect();
    let mut waiting = ["x", "x", "x", "y"].map(|namespace| {
        let slots = slots.clone();
        let wait = async move { slots.take(&Arc::from(namespace), &site("prom")).await };
        (namespace, Box::pin(wait), None)
    });
    let mut poll = || {
        for (_, wait, slot) in waiting.iter_mut().filter(|(_, _, slot)| slot.is_none()) {
            *slot = wait.as_mut().now_or_never().flatten();
        }
        let served = waiting.iter().filter(|(_, _, slot)| slot.is_some());
        served.map(|(namespace, ..)| *namespace).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(poll(), "", "nothing is free");
    held.pop();
    assert_eq!(poll(), "x");
    held.pop();
    assert_eq!(poll(), "x y", "whoever has one waits until the others have one");
    held.truncate(IN_ALL / 2);
    assert_eq!(poll(), "x x x y");
}

/// Takes, releases and gives up at random: the limits hold, and nothing is left in the end.
#[test]
fn the_limits_hold_whatever_is_taken_and_given_up() {
    let mut dice: u64 = 7;
    let mut roll = |sides: usize| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(dice >> 33).unwrap() % sides
    };
    let slots = Slots::default();
    let (mut held, mut waiting) = (Vec::new(), Vec::new());
    for _ in 0..20_000 {
        match roll(5) {
            0..=2 => {
                let (namespace, server) =
                    (Arc::from(format!("n{}", roll(6))), site(&format!("s{}", roll(9))));
                let slots = slots.clone();
                waiting.push(Box::pin(async move { slots.take(&namespace, &server).await }));
            }
            3 if !held.is_empty() => drop(held.swap_remove(roll(held.len()))),
            _ if !waiting.is_empty() => drop(waiting.swap_remove(roll(waiting.len()))),
            _ => {}
        }
        let mut still = Vec::new();
        for mut waits in waiting {
            match waits.as_mut().now_or_never() {
                Some(slot) => held.extend(slot),
                None => still.push(waits),
            }
        }
        waiting = still;
        let state = slots.state();
        assert!(state.taken <= IN_ALL && state.taken == held.len());
        for of in state.namespaces.values() {
            assert!(of.servers.values().all(|server| server.taken <= PER_SERVER));
            assert_eq!(of.taken, of.servers.values().map(|server| server.taken).sum::<usize>());
        }
    }
    drop(waiting);
    drop(held);
    assert_eq!(slots.known(), 0);
}
