//! `sts-plus pause`, `sts-plus resume` and `sts-plus approve`.

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Value, json};
use sts_plus_api::keys;
use sts_plus_operator::command_line::Connection;
use sts_plus_operator::shell::api::{Api, ApiError, Kind, Place};
use sts_plus_operator::shell::metrics::Metrics;

use crate::target::{Found, Target, is_in_group, owner};

/// The kinds that can be paused, and of which a name alone may be.
const PAUSABLE: [Kind; 5] =
    [Kind::StatefulSet, Kind::PhasedRollout, Kind::Extended, Kind::FissileExtended, Kind::ScalingPolicy];

/// The kinds that wait for approvals.
const APPROVABLE: [Kind; 3] = [Kind::PhasedRollout, Kind::Extended, Kind::FissileExtended];

/// Which objects to pause or resume.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// StatefulSets of a rollout group, PhasedRollouts, ExtendedStatefulSets or ScalingPolicies, by name or as TYPE/NAME, for
    /// example phasedrollout/NAME, scalingpolicy/NAME, ests/NAME or extendedstatefulset.fissile.cloudfoundry.org/NAME
    #[arg(required = true, value_name = "OBJECT")]
    objects: Vec<String>,
    /// Their namespace [default: the kubeconfig's]
    #[arg(long, short, env = "STS_PLUS_NAMESPACE")]
    namespace: Option<String>,
}

/// Which objects to approve.
#[derive(Debug, Args)]
pub(crate) struct Approval {
    /// PhasedRollouts or ExtendedStatefulSets, by name or as TYPE/NAME
    #[arg(required = true, value_name = "OBJECT")]
    objects: Vec<String>,
    /// Approve only if this revision, or this version of an ExtendedStatefulSet, waits for approval [default: any]
    #[arg(long)]
    revision: Option<String>,
    /// Their namespace [default: the kubeconfig's]
    #[arg(long, short, env = "STS_PLUS_NAMESPACE")]
    namespace: Option<String>,
}

/// What to do to the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Pause,
    Resume,
}

/// A client for the objects of one namespace.
struct Namespaced {
    api: Api,
    namespace: String,
}

impl Namespaced {
    async fn new(connection: &Connection, namespace: Option<&String>) -> Result<Self> {
        let (client, default_namespace) = connection.client().await?;
        let namespace = namespace.cloned().unwrap_or(default_namespace);
        Ok(Self { api: Api::new(client, Metrics::new()), namespace })
    }

    async fn merge(&self, found: &Found, fields: &Value) -> Result<Value> {
        let (namespace, title) = (&self.namespace, found.title());
        let place = Place::object(found.kind, namespace, &found.name);
        match self.api.merge(place, keys::MANAGER_CLI, fields).await {
            Ok(answer) => Ok(answer),
            Err(ApiError::NotFound(_)) => bail!("{title} in namespace {namespace} was deleted meanwhile"),
            Err(error) => bail!("{title} in namespace {namespace}: {error}"),
        }
    }

    async fn approve(&self, found: &Found, approval: &str) -> Result<()> {
        let fields = json!({ "metadata": { "annotations": { keys::APPROVE: approval } } });
        self.merge(found, &fields).await.map(|_| ())
    }
}

/// Pauses or resumes each object, and prints it.
pub(crate) async fn steer(connection: &Connection, arguments: &Arguments, change: Change) -> Result<()> {
    let targets = arguments.objects.iter().map(|text| Target::parse(text, &PAUSABLE));
    let targets = targets.collect::<Result<Vec<_>>>()?;
    let objects = Namespaced::new(connection, arguments.namespace.as_ref()).await?;
    let done = if change == Change::Pause { "paused" } else { "resumed" };
    for target in targets {
        let found = target.find(&objects.api, &objects.namespace).await?;
        let title = found.title();
        if let Some(owner) = owner(&found).filter(|_| !is_in_group(&found)) {
            bail!("{title} is a part of {owner} and is not {done} by itself: name {owner}");
        }
        let changed = objects.merge(&found, &fields(found.kind, change)).await?;
        println!("{title} {done}");
        if let Some((what, retry)) = retry(&changed).filter(|_| change == Change::Resume) {
            objects.approve(&found, &retry).await?;
            println!("{title}: {what}, which has failed, is retried");
        }
    }
    Ok(())
}

/// The fields by which an object is paused or resumed.
fn fields(kind: Kind, change: Change) -> Value {
    let is_paused = change == Change::Pause;
    if kind == Kind::StatefulSet {
        json!({ "metadata": { "annotations": { keys::PAUSED: is_paused.then_some("true") } } })
    } else {
        json!({ "spec": { "paused": is_paused } })
    }
}

/// Approves what each object waits for, and prints it.
pub(crate) async fn approve(connection: &Connection, arguments: &Approval) -> Result<()> {
    let targets = arguments.objects.iter().map(|text| Target::parse(text, &APPROVABLE));
    let targets = targets.collect::<Result<Vec<_>>>()?;
    let objects = Namespaced::new(connection, arguments.namespace.as_ref()).await?;
    for target in targets {
        let found = target.find(&objects.api, &objects.namespace).await?;
        let title = found.title();
        let approval = awaited_approval(&found.object)
            .with_context(|| format!("{title} does not wait for an approval"))?;
        if let Some(revision) = &arguments.revision
            && !is_of(approval, found.kind, revision)
        {
            let noun = if found.kind == Kind::PhasedRollout { "revision" } else { "version" };
            bail!("{title} waits for {approval}, which is not of {noun} {revision}");
        }
        objects.approve(&found, approval).await?;
        println!("{title}: {approval} approved");
    }
    Ok(())
}

/// Whether an approval is of a revision, or of a version: `web-2/web-0` is of `web-2`, and `promote-3-7d4c9b1e` of `3`.
fn is_of(approval: &str, kind: Kind, revision: &str) -> bool {
    if kind == Kind::PhasedRollout {
        approval.strip_prefix(revision).is_some_and(|rest| rest.starts_with('/'))
    } else {
        approval.split('-').nth(1) == Some(revision)
    }
}

/// The approval that an object waits for, or that would retry what has failed.
fn awaited_approval(object: &Value) -> Option<&str> {
    object.pointer("/status/awaitedApproval")?.as_str()
}

/// What has failed, and the approval that retries it.
fn retry(object: &Value) -> Option<(String, String)> {
    let revision = object.pointer("/status/failure/revision").and_then(Value::as_str);
    let version = object.pointer("/status/failedVersion/number").and_then(Value::as_u64);
    let what = match (revision, version) {
        (Some(revision), _) => format!("revision {revision}"),
        (None, Some(version)) => format!("version {version}"),
        (None, None) => return None,
    };
    Some((what, awaited_approval(object)?.to_owned()))
}

#[cfg(test)]
#[path = "steer_tests.rs"]
mod tests;
