//! The parts of the benchmark, one file each.

pub(crate) mod admission;
pub(crate) mod efficiency;
pub(crate) mod extended;
pub(crate) mod handover;
pub(crate) mod idle;
pub(crate) mod rollout;
pub(crate) mod scaling;
pub(crate) mod size;
pub(crate) mod start;
pub(crate) mod statefulset;
pub(crate) mod tenant;

use std::collections::BTreeMap;
use std::time::Duration;

use sts_plus_harness::AuditEntry;

/// The longest, of 500 pods through the default limiter of a client, takes two minutes; this only bounds hanging.
const ROLLOUT_DEADLINE: Duration = Duration::from_mins(15);

/// Requests that cost the API server something each time: all but watches, and the lease, which is counted when
/// idle.
fn counted(entries: Vec<AuditEntry>) -> Vec<AuditEntry> {
    entries.into_iter().filter(|entry| entry.verb != "watch" && entry.resource != "leases").collect()
}

/// Requests by verb and resource, in words, each count divided by `divisor`.
fn by_kind<'a>(entries: impl Iterator<Item = &'a AuditEntry>, divisor: f64) -> String {
    let mut kinds: BTreeMap<String, u32> = BTreeMap::new();
    for entry in entries {
        let slash = if entry.subresource.is_empty() { "" } else { "/" };
        let kind = format!("{} {}{slash}{}", entry.verb, entry.resource, entry.subresource);
        *kinds.entry(kind).or_default() += 1;
    }
    let words = kinds.into_iter().map(|(kind, count)| format!("{:.2} {kind}", f64::from(count) / divisor));
    words.collect::<Vec<_>>().join(", ")
}

/// So many as a floating-point number.
fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
