//! `sts-plus lock-check`: the init container of a lock. It ends once the lock has a key for the ordinal of its pod.
//!
//! It waits instead of failing, so that a pod that gets its key starts without the kubelet's back-off. The keys are files of a
//! mounted ConfigMap. A mount is as fresh as the ConfigMap when the pod is created. In a pod that is restarted in place it may be
//! behind: the kubelet brings it up to date each time that a container of the pod ends, which takes a moment, so a key in an old
//! mount counts only after a while.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use sts_plus_api::keys;
use tokio::signal::unix::{SignalKind, signal};

/// How often the keys are looked at.
const EVERY: Duration = Duration::from_millis(250);

/// A mount that was written so lately shows the ConfigMap as it is.
const FRESH: Duration = Duration::from_secs(5);

/// How long a key must stay in an older mount: the kubelet looks at a pod within a second after a container of it has ended, and
/// writes its volumes within another one.
const SETTLED_AFTER: Duration = Duration::from_secs(5);

/// The link to the present content of a mounted ConfigMap.
const CONTENT: &str = "..data";

/// What the lock says of which pod.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The name of the pod that waits
    #[arg(long, env = keys::LOCK_POD_ENV)]
    pod_name: Option<String>,
    /// The folder that the ConfigMap of the lock is mounted at
    #[arg(long, default_value = keys::LOCK_PATH)]
    keys: PathBuf,
}

/// Waits until the pod may run. Fails where that cannot be found out, and when it is stopped.
pub(crate) async fn check(arguments: &Arguments) -> Result<()> {
    // As the first process of a container it has no default handler that ends it.
    let mut stop = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let pod = arguments.pod_name.as_deref().unwrap_or_default();
    if pod.is_empty() {
        bail!("the name of the pod is not given: set {} to metadata.name", keys::LOCK_POD_ENV);
    }
    let Some(ordinal) = ordinal(pod) else {
        bail!("{pod:?} is not the name of a pod of a StatefulSet: it does not end in an ordinal");
    };
    if !arguments.keys.is_dir() {
        bail!("{} does not exist: mount the ConfigMap of the lock there", arguments.keys.display());
    }
    let wait = wait(&arguments.keys, &ordinal, pod);
    tokio::select! {
        () = wait => Ok(()),
        _ = stop.recv() => bail!("stopped while {pod} was waiting for its lock"),
    }
}

async fn wait(keys: &Path, ordinal: &str, pod: &str) {
    let mut seen_for = Duration::ZERO;
    let mut is_told = false;
    loop {
        if keys.join(ordinal).exists() {
            if is_fresh(keys) || seen_for >= SETTLED_AFTER {
                return;
            }
            seen_for += EVERY;
        } else {
            seen_for = Duration::ZERO;
            if !is_told {
                eprintln!(
                    "sts-plus: waiting: the lock has no key {ordinal}, so {pod} may not run. It leaves, or the number of \
                     replicas has not been raised yet: see its ScalingPolicy."
                );
                is_told = true;
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Whether the mount was written lately.
fn is_fresh(keys: &Path) -> bool {
    let written = std::fs::metadata(keys.join(CONTENT)).and_then(|content| content.modified());
    // One that is in the future was written by a clock that was set back since.
    written.is_ok_and(|written| written.elapsed().unwrap_or_default() <= FRESH)
}

/// The whole ordinal of a pod, as the keys have it.
fn ordinal(pod: &str) -> Option<String> {
    let (set, ordinal) = pod.rsplit_once('-')?;
    let number: u32 = ordinal.parse().ok()?;
    let is_ordinal = !set.is_empty() && number.to_string() == ordinal;
    is_ordinal.then(|| ordinal.to_owned())
}

#[cfg(test)]
#[path = "lock_check_tests.rs"]
mod tests;
