//! `sts-plus pause`, `sts-plus resume` and `sts-plus approve`.

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Value, json};
use sts_plus_api::keys;
use sts_plus_operator::shell::api::{Api, ApiError, Kind, Place};
use sts_plus_operator::shell::metrics::Metrics;

use crate::connect::Connection;

/// Which objects to pause or resume.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// StatefulSets of a rollout group, by name, or PhasedRollouts as phasedrollout/NAME
    #[arg(required = true, value_name = "OBJECT")]
    objects: Vec<String>,
    /// Their namespace [default: the kubeconfig's]
    #[arg(long, short, env = "STS_PLUS_NAMESPACE")]
    namespace: Option<String>,
}

/// Which PhasedRollouts to approve.
#[derive(Debug, Args)]
pub(crate) struct Approval {
    /// The PhasedRollouts, by name or as phasedrollout/NAME
    #[arg(required = true, value_name = "PHASEDROLLOUT")]
    rollouts: Vec<String>,
    /// Approve only if this revision waits for approval [default: any revision]
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

/// An object that the command line names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target<'a> {
    Set(&'a str),
    Rollout(&'a str),
}

/// The ways to write a PhasedRollout, as kubectl takes them.
const ROLLOUT_PREFIXES: [&str; 4] = ["phasedrollout/", "phasedrollouts/", "phr/", "phasedrollout.sts.plus/"];

/// The ways to write a StatefulSet, as kubectl takes them.
const SET_PREFIXES: [&str; 4] = ["statefulset/", "statefulsets/", "sts/", "statefulset.apps/"];

impl<'a> Target<'a> {
    fn parse(text: &'a str) -> Result<Self> {
        let after = |prefixes: &[&str]| prefixes.iter().find_map(|prefix| text.strip_prefix(prefix));
        let target = match (after(&ROLLOUT_PREFIXES), after(&SET_PREFIXES)) {
            (Some(name), _) => Self::Rollout(name),
            (None, Some(name)) => Self::Set(name),
            (None, None) => Self::Set(text),
        };
        let (Self::Rollout(name) | Self::Set(name)) = target;
        if name.is_empty() || name.contains('/') {
            bail!("{text} names neither a StatefulSet nor a PhasedRollout: write NAME or phasedrollout/NAME");
        }
        Ok(target)
    }
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

    async fn merge(&self, resource: Kind, name: &str, fields: &Value) -> Result<Value> {
        let place = Place::object(resource, &self.namespace, name);
        self.explain(resource, name, self.api.merge(place, keys::MANAGER_CLI, fields).await)
    }

    async fn get(&self, resource: Kind, name: &str) -> Result<Value> {
        let place = Place::object(resource, &self.namespace, name);
        self.explain(resource, name, self.api.get(place).await)
    }

    fn explain<T>(&self, resource: Kind, name: &str, answer: Result<T, ApiError>) -> Result<T> {
        let (namespace, kind) = (&self.namespace, resource.definition().kind);
        match answer {
            Ok(answer) => Ok(answer),
            Err(ApiError::NotFound(_)) => bail!("there is no {kind} {name} in namespace {namespace}"),
            Err(error) => bail!("{}/{name} in namespace {namespace}: {error}", kind.to_lowercase()),
        }
    }

    async fn approve(&self, name: &str, approval: &str) -> Result<()> {
        let fields = json!({ "metadata": { "annotations": { keys::APPROVE: approval } } });
        self.merge(Kind::PhasedRollout, name, &fields).await.map(|_| ())
    }
}

/// Pauses or resumes each object, and prints it.
pub(crate) async fn steer(connection: &Connection, arguments: &Arguments, change: Change) -> Result<()> {
    let targets = arguments.objects.iter().map(|text| Target::parse(text)).collect::<Result<Vec<_>>>()?;
    let objects = Namespaced::new(connection, arguments.namespace.as_ref()).await?;
    let done = if change == Change::Pause { "paused" } else { "resumed" };
    for target in targets {
        match target {
            Target::Set(name) => {
                let value = (change == Change::Pause).then_some("true");
                let fields = json!({ "metadata": { "annotations": { keys::PAUSED: value } } });
                objects.merge(Kind::StatefulSet, name, &fields).await?;
                println!("statefulset/{name} {done}");
            }
            Target::Rollout(name) => {
                let fields = json!({ "spec": { "paused": change == Change::Pause } });
                let rollout = objects.merge(Kind::PhasedRollout, name, &fields).await?;
                println!("phasedrollout/{name} {done}");
                let failed = rollout.pointer("/status/failure/revision").and_then(Value::as_str);
                let retry = awaited_approval(&rollout);
                if let (Change::Resume, Some(revision), Some(retry)) = (change, failed, retry) {
                    objects.approve(name, retry).await?;
                    println!("phasedrollout/{name}: revision {revision}, which has failed, is retried");
                }
            }
        }
    }
    Ok(())
}

/// Approves what each rollout waits for, and prints it.
pub(crate) async fn approve(connection: &Connection, arguments: &Approval) -> Result<()> {
    let objects = Namespaced::new(connection, arguments.namespace.as_ref()).await?;
    for text in &arguments.rollouts {
        let name = match Target::parse(text)? {
            Target::Rollout(name) => name,
            Target::Set(name) if name == text => name,
            Target::Set(name) => bail!("{name} is a StatefulSet: approve the PhasedRollout that names it"),
        };
        let rollout = objects.get(Kind::PhasedRollout, name).await?;
        let approval = awaited_approval(&rollout)
            .with_context(|| format!("phasedrollout/{name} does not wait for an approval"))?;
        if let Some(revision) = &arguments.revision
            && !approval.starts_with(&format!("{revision}/"))
        {
            bail!("phasedrollout/{name} waits for {approval}, which is not of revision {revision}");
        }
        objects.approve(name, approval).await?;
        println!("phasedrollout/{name}: {approval} approved");
    }
    Ok(())
}

/// The approval that a rollout waits for, or that would retry what has failed.
fn awaited_approval(rollout: &Value) -> Option<&str> {
    rollout.pointer("/status/awaitedApproval")?.as_str()
}

#[cfg(test)]
#[path = "steer_tests.rs"]
mod tests;
