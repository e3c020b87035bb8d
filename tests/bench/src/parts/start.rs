//! (a) Start with 10,000 pods in 1,000 sets: time to synced caches and to the first write, and memory.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use sts_plus_harness::process::Signal;
use sts_plus_harness::wait::{NotYet, try_until};
use sts_plus_harness::{AuditEntry, Identity};

use super::handover;
use crate::bed::Bed;
use crate::operator::{Operator, elapsed, is_write};
use crate::stats::percentile;
use crate::table::{Row, Section, mebibytes, seconds};
use crate::{proc, say, window};

const STARTS: usize = 5;
const GOAL: Duration = Duration::from_secs(1);
/// In KiB.
const MEMORY_GOAL: u64 = 40 * 1024;
const PEAK_GOAL: u64 = 60 * 1024;
/// How long after the start memory is looked at again.
const LATER: Duration = Duration::from_secs(30);
/// Expected within a second.
const WRITE_DEADLINE: Duration = Duration::from_mins(1);

pub(crate) async fn measure(bed: &mut Bed, binary: &Path) -> Result<Section> {
    let group = handover::group("a");
    bed.create(&group).await?;
    let identity = bed.operator_identity("operator").await?;
    introduce(bed, binary, &identity).await?;

    let (mut synced, mut written, mut resident, mut used) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for start in 1..=STARTS {
        group.change(&bed.client(), &start.to_string()).await?;
        group.observed(&bed.client()).await?;
        let mut operator = Operator::start(bed, binary, &identity)?;
        synced.push(operator.synced().await?);
        resident.push(operator.memory()?.resident);
        used.push(operator.cpu()?);
        let first = first_write(bed, &identity, operator.executed).await?;
        written.push(elapsed(operator.executed, first.timestamp));
        say!(
            "(a) start {start} of {STARTS}: synced after {:?}, first write after {:?}",
            synced.last(),
            written.last()
        );
        operator.end(Signal::TERM).await?;
    }
    let mut operator = Operator::start(bed, binary, &identity)?;
    operator.synced().await?;
    say!("(a) memory {} s after the start", LATER.as_secs());
    window(LATER).await;
    let later = operator.memory()?;
    let beside = proc::memory(bed.controller_manager()?)?;
    drop(operator);

    let worst = resident.iter().max().copied().unwrap_or_default();
    let spread = |times: &[Duration]| {
        format!("{} (worst {})", seconds(percentile(times, 50)), seconds(percentile(times, 100)))
    };
    let rows = vec![
        Row::limited(
            "start to synced caches, median of five",
            spread(&synced),
            "at most 1 s",
            percentile(&synced, 50) <= GOAL,
            "kube-controller-manager, measured elsewhere on this kind of machine: 1.2 to 1.4 s",
        ),
        Row::limited(
            "start to the first deletion, median of five",
            spread(&written),
            "at most 1 s",
            percentile(&written, 50) <= GOAL,
            "",
        ),
        Row::plain(
            "processor time until synced",
            seconds(percentile(&used, 50)),
            "kube-controller-manager, measured elsewhere: 1.5 s",
        ),
        Row::limited(
            "resident memory when synced, worst of five",
            mebibytes(worst),
            "at most 40 MiB",
            worst <= MEMORY_GOAL,
            format!(
                "kube-controller-manager with six controllers, same run: {}; a cache of typed pods with kube-rs, measured elsewhere: 435 MiB",
                mebibytes(beside.resident)
            ),
        ),
        Row::limited(
            "the same, 30 s later",
            mebibytes(later.resident),
            "at most 40 MiB",
            later.resident <= MEMORY_GOAL,
            "",
        ),
        Row::limited(
            "peak resident memory",
            mebibytes(later.peak),
            "at most 60 MiB",
            later.peak <= PEAK_GOAL,
            format!("kube-controller-manager, same run: {}", mebibytes(beside.peak)),
        ),
    ];
    Ok(Section::of("a", rows))
}

/// Lets the operator see the cluster for the first time, when it notes the state of every set, and waits until it
/// has nothing more to write.
pub(crate) async fn introduce(bed: &Bed, binary: &Path, identity: &Identity) -> Result<()> {
    say!("the operator sees the cluster for the first time");
    let operator = Operator::start(bed, binary, identity)?;
    operator.ready().await?;
    let settled = bed.settled(identity).await?;
    say!("{settled} requests later it has nothing more to write");
    operator.end(Signal::TERM).await?;
    Ok(())
}

async fn first_write(bed: &Bed, identity: &Identity, after: Timestamp) -> Result<AuditEntry> {
    let found = try_until(WRITE_DEADLINE, "the first write", || async {
        let entries = bed.plane.requests(identity)?;
        let first = entries.into_iter().find(|entry| entry.timestamp > after && is_write(entry));
        first.ok_or_else(|| NotYet::saw("no write"))
    });
    Ok(found.await?)
}
