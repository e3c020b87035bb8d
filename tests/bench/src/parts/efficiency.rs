//! (c) How close a rollout of pods with times of their own comes to the least time it can take.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use super::ROLLOUT_DEADLINE;
use crate::bed::{Bed, FIELD, SCRATCH};
use crate::operator::Operator;
use crate::say;
use crate::stats::{efficiency, floor, mean, percentile};
use crate::table::{Row, Section, milliseconds, seconds};
use crate::timeline::{Sight, Turn, pod_times, ready_to_deletion};
use crate::workload::{Delays, Group, RolledBy, pod_spec};

const GOAL: f64 = 0.98;
/// Pods created and deleted to learn what a write takes.
const WRITE_SAMPLES: usize = 25;

pub(crate) async fn measure(bed: &mut Bed, binary: &Path) -> Result<Section> {
    let group = Group {
        namespace: FIELD.to_owned(),
        name: "c".to_owned(),
        zones: 3,
        replicas: 4,
        delays: Delays::LONG,
        rolled_by: RolledBy::Us,
    };
    bed.create(&group).await?;
    let identity = bed.operator_identity("operator").await?;
    let operator = Operator::start(bed, binary, &identity)?;
    operator.ready().await?;
    let write = write_time(bed).await?;
    say!("(c) rolling {} pods of 2 to 5 s", group.pods());
    let mark = bed.observer.mark();
    group.change(&bed.client(), "1").await?;
    bed.observer.until(mark, FIELD, Turn::Ready, group.pods(), ROLLOUT_DEADLINE).await?;
    let sights = bed.observer.since(mark, FIELD);
    drop(operator);

    let when = |sight: Option<&Sight>| sight.map(|sight| sight.at).context("nothing was rolled");
    let began = when(sights.iter().find(|sight| sight.turn == Turn::Leaving))?;
    let ended = when(sights.iter().rfind(|sight| sight.turn == Turn::Ready))?;
    let times = pod_times(&sights);
    let (least, measured) = (floor(&times, write), ended.saturating_sub(began));
    let share = efficiency(least, measured);
    let gaps = ready_to_deletion(&sights);
    let rows = vec![
        Row::limited(
            "efficiency: least time over measured time",
            format!("{share:.3}"),
            "at least 0.98",
            share >= GOAL,
            "rollout-operator waits 4.9 s more per pod, measured elsewhere: about 0.42 for pods of 3.5 s",
        ),
        Row::plain(
            "the same, with no allowance for writes",
            format!("{:.3}", efficiency(floor(&times, Duration::ZERO), measured)),
            "",
        ),
        Row::plain(
            "measured, first deletion to last ready",
            format!("{} for {} pods", seconds(measured), times.len()),
            "",
        ),
        Row::plain("least time", format!("{} with {} a write", seconds(least), milliseconds(write)), ""),
        Row::plain("last ready to next deletion, mean", milliseconds(mean(&gaps)), ""),
    ];
    Ok(Section::of("c", rows))
}

/// What creating or deleting a pod takes where nobody else acts on it: the median, since a slow sample would
/// lengthen the least time and flatter us.
async fn write_time(bed: &Bed) -> Result<Duration> {
    let pods = Api::<Pod>::namespaced(bed.client(), SCRATCH);
    let mut samples = Vec::new();
    for index in 0..WRITE_SAMPLES {
        let name = format!("sample-{index}");
        let pod: Pod = serde_json::from_value(json!({ "metadata": { "name": name }, "spec": pod_spec() }))?;
        let started = Instant::now();
        pods.create(&PostParams::default(), &pod).await.context("create a sample")?;
        samples.push(started.elapsed());
        let started = Instant::now();
        pods.delete(&name, &DeleteParams::default()).await.context("delete a sample")?;
        samples.push(started.elapsed());
    }
    Ok(percentile(&samples, 50))
}
