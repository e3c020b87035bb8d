//! (b) What sts-plus adds to a rollout of short pods: time, calls, processor time.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::{ROLLOUT_DEADLINE, by_kind, counted, number};
use crate::bed::{Bed, FIELD, STATEFULSET_CONTROLLER};
use crate::operator::Operator;
use crate::say;
use crate::stats::{mean, percentile};
use crate::table::{Row, Section, milliseconds};
use crate::timeline::{Turn, ready_to_deletion};
use crate::workload::{Delays, Group, RolledBy};

const ROUNDS: usize = 3;
const MEAN_GOAL: Duration = Duration::from_millis(20);
/// The delete, and at most one other on average.
const CALLS_GOAL: f64 = 2.0;
const CPU_GOAL: Duration = Duration::from_millis(5);

pub(crate) async fn measure(bed: &mut Bed, binary: &Path) -> Result<Section> {
    let (beside, beside_calls) = statefulset_controller(bed).await?;
    let group = group("b", 3, RolledBy::Us);
    bed.create(&group).await?;
    let identity = bed.operator_identity("operator").await?;
    let operator = Operator::start(bed, binary, &identity)?;
    operator.ready().await?;

    let calls_before = counted(bed.plane.settled_requests(&identity).await?).len();
    let cpu_before = operator.cpu()?;
    let mut gaps = Vec::new();
    for round in 1..=ROUNDS {
        say!("(b) rollout {round} of {ROUNDS}: {} pods of 50 ms", group.pods());
        gaps.extend(roll(bed, &group, &round.to_string()).await?);
    }
    let calls = counted(bed.plane.settled_requests(&identity).await?);
    let calls: Vec<_> = calls.iter().skip(calls_before).collect();
    let pods = number(ROUNDS * group.pods());
    let cpu = operator.cpu()?.saturating_sub(cpu_before).div_f64(pods);
    let calls_per_pod = number(calls.len()) / pods;
    let memory = operator.memory()?;
    drop(operator);

    let rows = vec![
        Row::limited(
            "last ready to next deletion, mean",
            milliseconds(mean(&gaps)),
            "at most 20 ms",
            mean(&gaps) <= MEAN_GOAL,
            format!(
                "StatefulSet controller, default flags, one set of 20, same run: {}; rollout-operator, measured elsewhere on this kind of machine: 4,881 ms",
                milliseconds(mean(&beside))
            ),
        ),
        Row::plain(
            "the same, median / p99 / worst",
            [50, 99, 100].map(|percent| milliseconds(percentile(&gaps, percent))).join(" / "),
            format!(
                "StatefulSet controller, same run: {}",
                [50, 99, 100].map(|percent| milliseconds(percentile(&beside, percent))).join(" / ")
            ),
        ),
        Row::limited(
            "calls per rolled pod, besides watch and lease",
            format!("{calls_per_pod:.2} ({})", by_kind(calls.into_iter(), pods)),
            "at most 2",
            calls_per_pod <= CALLS_GOAL,
            format!(
                "rollout-operator, measured elsewhere: 2.13; StatefulSet controller rolling by itself, same run: {beside_calls:.2}"
            ),
        ),
        Row::limited(
            "processor time per rolled pod",
            milliseconds(cpu),
            "at most 5 ms",
            cpu <= CPU_GOAL,
            "rollout-operator, measured elsewhere: 6.7 ms",
        ),
        Row::plain(
            "resident memory at the end",
            crate::table::mebibytes(memory.resident),
            "rollout-operator, measured elsewhere: 50 MiB",
        ),
    ];
    Ok(Section::of("b", rows))
}

fn group(name: &str, zones: usize, rolled_by: RolledBy) -> Group {
    let delays = Delays::SHORT;
    Group { namespace: FIELD.to_owned(), name: name.to_owned(), zones, replicas: 20, delays, rolled_by }
}

/// Rolls a group once; the gaps that were seen.
async fn roll(bed: &mut Bed, group: &Group, round: &str) -> Result<Vec<Duration>> {
    let mark = bed.observer.mark();
    group.change(&bed.client(), round).await?;
    bed.observer.until(mark, FIELD, Turn::Ready, group.pods(), ROLLOUT_DEADLINE).await?;
    Ok(ready_to_deletion(&bed.observer.since(mark, FIELD)))
}

/// The same for a set that its own controller rolls: gaps, and calls per rolled pod.
async fn statefulset_controller(bed: &mut Bed) -> Result<(Vec<Duration>, f64)> {
    let group = group("plain", 1, RolledBy::ItsController);
    bed.create(&group).await?;
    let calls =
        |bed: &Bed| Ok::<_, anyhow::Error>(counted(bed.plane.requests_of(STATEFULSET_CONTROLLER)?).len());
    let before = calls(bed)?;
    say!("(b) for comparison, the StatefulSet controller rolls {} pods of 50 ms", group.pods());
    let gaps = roll(bed, &group, "1").await?;
    let per_pod = number(calls(bed)? - before) / number(group.pods());
    Ok((gaps, per_pod))
}
