//! `sts-plus resize`: the sizes of the claims of a StatefulSet, by its ScalingPolicy.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Value, json};
use sts_plus_api::conditions;
use sts_plus_api::keys;
use sts_plus_api::remedy::RemedyKind;
use sts_plus_api::scaling_policy::{ScalingPolicySpec, ScalingPolicyStatus, VolumeClaim};
use sts_plus_operator::command_line::Connection;
use sts_plus_operator::shell::api::{Api, ApiError, Kind, Place};
use sts_plus_operator::shell::metrics::Metrics;
use sts_plus_planner::remedy::sizes::{self, Size};

use crate::target::{Found, Target, title};

/// How often the policy is read while it is waited for.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// When a policy that nobody has looked at is said to be waiting for an operator, in looks.
const PATIENCE: u32 = 15;

/// A policy that is changed at the same time is read again, so often at most.
const MAX_TRIES: u32 = 5;

/// Which claims of which set get which size.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The StatefulSet, by name or as statefulset/NAME
    #[arg(value_name = "STATEFULSET")]
    set: String,
    /// The name of a volumeClaimTemplate and the size of its claims, for example data=20Gi
    #[arg(required = true, value_name = "CLAIM=SIZE")]
    sizes: Vec<String>,
    /// Do not wait until the claims have grown
    #[arg(long)]
    no_wait: bool,
    /// The namespace of the StatefulSet [default: the kubeconfig's]
    #[arg(long, short, env = "STS_PLUS_NAMESPACE")]
    namespace: Option<String>,
}

/// A ScalingPolicy that exists.
struct Policy {
    name: String,
    spec: ScalingPolicySpec,
    uid: String,
    version: String,
    created: String,
}

/// Asks for the sizes, and waits until the claims have them.
pub(crate) async fn resize(connection: &Connection, arguments: &Arguments) -> Result<()> {
    let wanted = parse(&arguments.sizes)?;
    let target = Target::parse(&arguments.set, &[Kind::StatefulSet])?;
    let (client, default_namespace) = connection.client().await?;
    let namespace = arguments.namespace.clone().unwrap_or(default_namespace);
    let api = Api::new(client, Metrics::new());
    let set = target.find(&api, &namespace).await?;
    check(&set, &wanted)?;
    let asked = ask(&api, &namespace, &set.name, &wanted).await?;
    println!("{}: {} asked for in {}", set.title(), listed(&wanted), title(Kind::ScalingPolicy, &asked.name));
    if arguments.no_wait {
        return Ok(());
    }
    wait(&api, &namespace, &asked).await
}

/// The sizes, as the command line has them.
fn parse(words: &[String]) -> Result<Vec<Size>> {
    let mut sizes: Vec<Size> = Vec::new();
    for word in words {
        let (claim, storage) =
            word.split_once('=').with_context(|| format!("{word:?} is not CLAIM=SIZE, such as data=20Gi"))?;
        let size = Size::parse(claim, storage)
            .with_context(|| format!("{word:?}: {storage:?} is no size above 0, such as 20Gi"))?;
        if sizes.iter().any(|known| known.claim == size.claim) {
            bail!("{claim} is given twice");
        }
        sizes.push(size);
    }
    Ok(sizes)
}

fn listed(sizes: &[Size]) -> String {
    sizes.iter().map(|size| format!("{}={}", size.claim, size.storage)).collect::<Vec<_>>().join(", ")
}

/// Whether the set can have the sizes, as far as that can be said from the set alone.
fn check(set: &Found, wanted: &[Size]) -> Result<()> {
    let title = set.title();
    let owners = set.object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let controller = owners.into_iter().flatten().find(|owner| owner.get("controller") == Some(&json!(true)));
    if let Some(controller) = controller {
        let text = |key: &str| controller.get(key).and_then(Value::as_str).unwrap_or_default();
        bail!("{title} is controlled by {} {}, which has to ask for the size", text("kind"), text("name"));
    }
    let spec = set.object.get("spec").cloned().unwrap_or_default();
    if let Err(fault) = sizes::apply(&spec, wanted) {
        bail!("{title}: {fault}");
    }
    Ok(())
}

/// What was asked for.
#[derive(Debug)]
struct Asked {
    /// The policy.
    name: String,
    /// The generation of its spec.
    generation: i64,
    /// A hash of all of its sizes.
    hash: String,
}

/// Edits the policy of the set, or creates one.
async fn ask(api: &Api, namespace: &str, set: &str, wanted: &[Size]) -> Result<Asked> {
    for _ in 0..MAX_TRIES {
        let known = policy_of(api, namespace, set).await?;
        let before = known.as_ref().map(|policy| &*policy.spec.volume_claims).unwrap_or_default();
        let claims = merged(before, wanted);
        let answer = if let Some(policy) = &known {
            let place = Place::object(Kind::ScalingPolicy, namespace, &policy.name);
            let metadata = json!({ "uid": policy.uid, "resourceVersion": policy.version });
            let fields = json!({ "metadata": metadata, "spec": { "volumeClaims": claims } });
            api.merge(place, keys::MANAGER_CLI, &fields).await
        } else {
            let definition = Kind::ScalingPolicy.definition();
            let policy = json!({
                "apiVersion": definition.api_version,
                "kind": definition.kind,
                "metadata": { "name": set, "namespace": namespace },
                "spec": { "targetRef": { "name": set }, "volumeClaims": claims },
            });
            let place = Place::collection(Kind::ScalingPolicy, Some(namespace));
            api.create(place, keys::MANAGER_CLI, &policy).await
        };
        match answer {
            Err(ApiError::NotFound(_)) if known.is_none() => bail!(
                "this cluster does not know ScalingPolicies: install sts-plus with the controller scaling"
            ),
            // Somebody was faster.
            Err(ApiError::Conflict(_) | ApiError::NotFound(_)) => {}
            Err(ApiError::AlreadyExists(_)) => bail!(
                "{} in namespace {namespace} scales another StatefulSet: create a ScalingPolicy for {set} under another name",
                title(Kind::ScalingPolicy, set)
            ),
            Err(error) => bail!("the ScalingPolicy of {set} in namespace {namespace}: {error}"),
            Ok(policy) => {
                let name = policy.pointer("/metadata/name").and_then(Value::as_str).unwrap_or(set).to_owned();
                let generation =
                    policy.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
                return Ok(Asked { name, generation, hash: hash(&claims) });
            }
        }
    }
    bail!("the ScalingPolicy of {set} in namespace {namespace} keeps changing")
}

/// The oldest policy of a set, which is the one that counts.
async fn policy_of(api: &Api, namespace: &str, set: &str) -> Result<Option<Policy>> {
    let place = Place::collection(Kind::ScalingPolicy, Some(namespace));
    let list = match api.list(place, &[]).await {
        Ok(list) => list,
        Err(ApiError::NotFound(_)) => return Ok(None),
        Err(error) => bail!("the ScalingPolicies of namespace {namespace}: {error}"),
    };
    let list: Value = serde_json::from_slice(&list).context("the list of ScalingPolicies is not JSON")?;
    let items = list.get("items").and_then(Value::as_array);
    let of_set = items.into_iter().flatten().filter_map(|item| {
        let text = |key: &str| item.pointer(&format!("/metadata/{key}"))?.as_str().map(str::to_owned);
        let spec: ScalingPolicySpec = serde_json::from_value(item.get("spec")?.clone()).ok()?;
        (spec.target_ref.name == set).then_some(Policy {
            name: text("name")?,
            spec,
            uid: text("uid")?,
            version: text("resourceVersion")?,
            created: text("creationTimestamp").unwrap_or_default(),
        })
    });
    Ok(of_set.min_by(|one, other| (&one.created, &one.name).cmp(&(&other.created, &other.name))))
}

/// The sizes of a policy, with those that are asked for now.
fn merged(before: &[VolumeClaim], wanted: &[Size]) -> Vec<VolumeClaim> {
    let mut claims = before.to_vec();
    for size in wanted {
        let storage = size.storage.to_string();
        match claims.iter_mut().find(|claim| *claim.name == *size.claim) {
            Some(known) => known.storage = storage,
            None => claims.push(VolumeClaim { name: size.claim.to_string(), storage }),
        }
    }
    claims
}

fn hash(claims: &[VolumeClaim]) -> String {
    let sizes: Vec<_> = claims.iter().filter_map(|claim| Size::parse(&claim.name, &claim.storage)).collect();
    sizes::hash(&sizes)
}

/// How far a policy is.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    /// Nobody has looked at it.
    Unobserved,
    /// What is done, and what is waited for.
    UnderWay {
        remedy: Option<String>,
        waits: String,
    },
    /// A person must act.
    Stalled(String),
    Done,
}

fn progress(policy: &Value, asked: &Asked) -> Progress {
    let status = policy.get("status").cloned().unwrap_or_default();
    let status: ScalingPolicyStatus = serde_json::from_value(status).unwrap_or_default();
    if status.observed_generation.is_none_or(|observed| observed < asked.generation) {
        return Progress::Unobserved;
    }
    let condition = |kind: &str| status.conditions.iter().find(|condition| condition.kind == kind);
    if let Some(stalled) = condition(conditions::STALLED) {
        return Progress::Stalled(stalled.message.clone());
    }
    let remedy = status.remedy.as_ref().filter(|remedy| remedy.asked == asked.hash);
    if remedy.is_some_and(|remedy| remedy.kind == RemedyKind::None && remedy.replicas.is_some()) {
        return Progress::Done;
    }
    Progress::UnderWay {
        remedy: remedy.map(|remedy| remedy.message.clone()).filter(|message| !message.is_empty()),
        waits: condition(conditions::READY).map(|ready| ready.message.clone()).unwrap_or_default(),
    }
}

/// Prints what is done until it is.
async fn wait(api: &Api, namespace: &str, asked: &Asked) -> Result<()> {
    let (mut said, mut looks) = (Vec::<String>::new(), 0_u32);
    let mut say = |words: String| {
        if !words.is_empty() && said.last() != Some(&words) && said.first() != Some(&words) {
            println!("{words}");
            said.push(words);
        }
    };
    loop {
        let place = Place::object(Kind::ScalingPolicy, namespace, &asked.name);
        let policy = match api.get(place).await {
            Ok(policy) => policy,
            Err(ApiError::NotFound(_)) => bail!("the ScalingPolicy {} was deleted meanwhile", asked.name),
            Err(error) => bail!("the ScalingPolicy {} in namespace {namespace}: {error}", asked.name),
        };
        match progress(&policy, asked) {
            Progress::Unobserved => {
                looks = looks.saturating_add(1);
                if looks == PATIENCE {
                    say("Waiting for the operator: is sts-plus running with the controller scaling?"
                        .to_owned());
                }
            }
            Progress::UnderWay { remedy, waits } => {
                say(remedy.unwrap_or_default());
                say(waits);
            }
            Progress::Stalled(why) => bail!("{why}"),
            Progress::Done => {
                println!("The claims have their sizes.");
                return Ok(());
            }
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

#[cfg(test)]
#[path = "resize_tests.rs"]
mod tests;
