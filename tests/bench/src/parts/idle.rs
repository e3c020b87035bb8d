//! (e) What two replicas cost when there is nothing to do, with 10,000 pods.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;

use super::{by_kind, number};
use crate::bed::Bed;
use crate::operator::Operator;
use crate::table::{Row, Section, mebibytes, milliseconds};
use crate::{say, window};

/// Several renewals of the lease, and the bookmarks of two minutes.
const WINDOW: Duration = Duration::from_secs(150);
/// Per minute, both replicas together.
const GOAL: f64 = 15.0;
/// Per minute and replica.
const CPU_GOAL: Duration = Duration::from_millis(20);

pub(crate) async fn measure(bed: &mut Bed, binary: &Path) -> Result<Section> {
    let mut replicas = Vec::new();
    for name in ["replica-1", "replica-2"] {
        let identity = bed.operator_identity(name).await?;
        let replica = Operator::start(bed, binary, &identity)?;
        replica.ready().await?;
        bed.settled(&identity).await?;
        replicas.push(replica);
    }
    say!("(e) two replicas idle for {} s", WINDOW.as_secs());
    let cpu = |replicas: &[Operator]| replicas.iter().map(Operator::cpu).sum::<Result<Duration>>();
    let cpu_before = cpu(&replicas)?;
    let began = Timestamp::now();
    window(WINDOW).await;
    let ended = Timestamp::now();
    let minutes = WINDOW.as_secs_f64() / 60.0;
    let cpu = cpu(&replicas)?.saturating_sub(cpu_before).div_f64(minutes) / 2;
    let mut requests = Vec::new();
    for replica in &replicas {
        let entries = bed.plane.settled_requests(&replica.identity).await?;
        requests.extend(entries.into_iter().filter(|entry| (began..ended).contains(&entry.timestamp)));
    }
    let lists = requests.iter().filter(|entry| entry.verb == "list").count();
    let per_minute = number(requests.len()) / minutes;
    let memory = replicas.iter().map(Operator::memory).collect::<Result<Vec<_>>>()?;
    let rows = vec![
        Row::limited(
            "requests per minute, both replicas",
            format!("{per_minute:.1} ({})", by_kind(requests.iter(), minutes)),
            "at most 15",
            per_minute <= GOAL,
            "kube-controller-manager, one replica, measured elsewhere: 30 for the lease, and renewed watches",
        ),
        Row::limited("lists", lists.to_string(), "none", lists == 0, ""),
        Row::limited(
            "processor time per minute and replica",
            milliseconds(cpu),
            "at most 20 ms",
            cpu <= CPU_GOAL,
            "kube-controller-manager, measured elsewhere: 20 to 40 ms",
        ),
        Row::plain(
            "resident memory, leader / standby",
            memory.iter().map(|memory| mebibytes(memory.resident)).collect::<Vec<_>>().join(" / "),
            "",
        ),
    ];
    Ok(Section::of("e", rows))
}
