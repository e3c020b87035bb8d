//! (d) How long nobody writes when the leader of two replicas ends in the middle of a rollout.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use sts_plus_harness::process::Signal;
use sts_plus_harness::wait::{NotYet, try_until};

use super::ROLLOUT_DEADLINE;
use crate::bed::{Bed, FIELD, Size};
use crate::operator::{Operator, elapsed, is_write};
use crate::say;
use crate::stats::percentile;
use crate::table::{Row, seconds};
use crate::timeline::Turn;
use crate::workload::{Delays, Group, RolledBy};

/// So many pods are on their way or rolled when the leader ends.
const ROLLED_BEFORE: usize = 3;
/// A lease lasts 15 s.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(90);

/// A way to end, and what is expected of it.
struct Ending {
    signal: Signal,
    name: &'static str,
    trials: usize,
    goal: Duration,
}

const ENDINGS: [Ending; 2] = [
    Ending { signal: Signal::TERM, name: "SIGTERM", trials: 3, goal: Duration::from_secs(2) },
    Ending { signal: Signal::KILL, name: "SIGKILL", trials: 2, goal: Duration::from_secs(16) },
];

pub(crate) fn group(name: &str) -> Group {
    Group {
        namespace: FIELD.to_owned(),
        name: name.to_owned(),
        zones: 3,
        replicas: 5,
        delays: Delays::SHORT,
        rolled_by: RolledBy::Us,
    }
}

pub(crate) async fn measure(bed: &mut Bed, size: Size, binary: &Path) -> Result<Vec<Row>> {
    let group = group("d");
    bed.create(&group).await?;
    let identities = [bed.operator_identity("replica-1").await?, bed.operator_identity("replica-2").await?];
    let mut leader = Operator::start(bed, binary, &identities[0])?;
    ensure!(leader.ready().await? == "leading", "the only replica does not lead");
    bed.settled(&identities[0]).await?;
    let mut standby = Operator::start(bed, binary, &identities[1])?;
    let pods = match size {
        Size::Empty => "a small cluster",
        Size::Full => "10,000 pods",
    };
    let mut rows = Vec::new();
    for Ending { signal, name, trials, goal } in ENDINGS {
        let mut gaps = Vec::new();
        for trial in 1..=trials {
            ensure!(standby.ready().await? == "standing by", "there are two leaders");
            let mark = bed.observer.mark();
            group.change(&bed.client(), &format!("{name}-{trial}")).await?;
            bed.observer.until(mark, FIELD, Turn::Leaving, ROLLED_BEFORE, ROLLOUT_DEADLINE).await?;
            let ended = leader.identity.clone();
            let sent = leader.end(signal).await?;
            let first = try_until(TAKEN_OVER_WITHIN, "the other replica's first write", || async {
                let entries = bed.plane.requests(&standby.identity)?;
                let first = entries.into_iter().find(|entry| entry.timestamp > sent && is_write(entry));
                first.ok_or_else(|| NotYet::saw("no write"))
            });
            gaps.push(elapsed(sent, first.await?.timestamp));
            say!(
                "(d) {name} {trial} of {trials} in {pods}: first write of the other after {:?}",
                gaps.last()
            );
            bed.observer.until(mark, FIELD, Turn::Ready, group.pods(), ROLLOUT_DEADLINE).await?;
            leader = standby;
            standby = Operator::start(bed, binary, &ended)?;
        }
        rows.push(Row::limited(
            &format!("{name} in {pods}, median of {trials}"),
            format!("{} (worst {})", seconds(percentile(&gaps, 50)), seconds(percentile(&gaps, 100))),
            &format!("at most {} s", goal.as_secs()),
            percentile(&gaps, 50) <= goal,
            "",
        ));
    }
    Ok(rows)
}
