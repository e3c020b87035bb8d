//! The keys of the demo of ExtendedStatefulSets.

use serde_json::{Value, json};
use sts_plus_operator::view::Extended;

use super::commands::{CRASH, Command, Kind, NAMESPACE, Request, Verb};
use super::observed::Observed;
use super::template::{FAULT, HTTP, Template};

/// The object whose versions follow each other, and the one with an active pod.
const WEB: &str = "web";
const DB: &str = "db";

/// The ConfigMap of [`DB`], the entry that a key changes, and the entry's values.
pub(super) const CONFIG: &str = "db-config";
const LOG_LEVEL: &str = "log_level";
const LOG_LEVELS: [&str; 2] = ["info", "debug"];

/// Where the image is in an ExtendedStatefulSet.
const IMAGE: &str = "/spec/template/spec/template/spec/containers/0/image";

/// What a pod that is not to be active answers to its probe.
const NOT_LEADER: &str = "/leader 503";

fn web(observed: &Observed) -> Result<(&Extended, &Template), &'static str> {
    const MISSING: &str = "there is no ExtendedStatefulSet web in this namespace";
    let extended = find(observed, WEB).ok_or(MISSING)?;
    let template = observed.extended.get(&(NAMESPACE.to_owned(), WEB.to_owned())).ok_or(MISSING)?;
    Ok((extended, template))
}

fn find<'a>(observed: &'a Observed, name: &str) -> Option<&'a Extended> {
    let group = sts_plus_api::extended::Group::StsPlus.name();
    observed.view.extended.iter().find(|extended| {
        (&*extended.namespace, &*extended.name, extended.api_group) == (NAMESPACE, name, group)
    })
}

/// Raises the tag of the image: a new version.
pub(super) fn next_version(observed: &Observed) -> Result<Command, &'static str> {
    let (_, template) = web(observed)?;
    let image = template.image().and_then(|image| image.rsplit_once(':'));
    let next = image.and_then(|(name, tag)| Some((name, tag.parse::<u64>().ok()?.saturating_add(1))));
    let (name, tag) = next.ok_or("the image of web has no number that could be raised")?;
    let patch = json!([{ "op": "replace", "path": IMAGE, "value": format!("{name}:{tag}") }]);
    let line = format!("kubectl patch ests {WEB} --type json -p '{patch}'");
    Ok(command(line, WEB, Verb::Json("kubectl-patch", patch)))
}

/// Makes the pods of the present template fail, or heals it.
pub(super) fn set_fault(observed: &Observed, is_broken: bool) -> Result<Command, &'static str> {
    let (_, template) = web(observed)?;
    if !is_broken && !template.has_fault() {
        return Err("the version is not broken: nothing to heal");
    }
    let fault = is_broken.then_some(CRASH);
    let template = json!({ "metadata": { "annotations": { FAULT: fault } } });
    Ok(merge(WEB, json!({ "spec": { "template": { "spec": { "template": template } } } })))
}

pub(super) fn pause_or_resume(observed: &Observed) -> Result<Command, &'static str> {
    let (extended, _) = web(observed)?;
    Ok(merge(WEB, json!({ "spec": { "paused": !extended.paused } })))
}

/// Changes the data that the pods of [`DB`] refer to, there and back.
pub(super) fn change_config(observed: &Observed) -> Result<Command, &'static str> {
    let now = observed.config.get(LOG_LEVEL).ok_or("there is no ConfigMap db-config")?;
    let [info, debug] = LOG_LEVELS;
    let body = json!({ "data": { LOG_LEVEL: if now == info { debug } else { info } } });
    let line = format!("kubectl patch configmap {CONFIG} --type merge -p '{body}'");
    let verb = Verb::Merge("kubectl-patch", body);
    Ok(Command { line, requests: vec![Request { kind: Kind::ConfigMap, name: CONFIG.to_owned(), verb }] })
}

/// Makes the active pod fail its probe; where one does, it passes again.
pub(super) fn fail_or_restore_active(observed: &Observed) -> Result<Command, &'static str> {
    let failing = observed.pods_with_answers(NAMESPACE);
    let (pods, value, change) = if failing.is_empty() {
        (vec![active(observed)?], json!(NOT_LEADER), format!("'{HTTP}={NOT_LEADER}'"))
    } else {
        (failing, Value::Null, format!("{HTTP}-"))
    };
    let line = format!("kubectl annotate pod {} {change}", pods.join(" "));
    let body = json!({ "metadata": { "annotations": { HTTP: value } } });
    let request = |pod: &String| {
        let verb = Verb::Merge("kubectl-annotate", body.clone());
        Request { kind: Kind::Pod, name: pod.clone(), verb }
    };
    Ok(Command { line, requests: pods.iter().map(request).collect() })
}

pub(super) fn kill_active(observed: &Observed) -> Result<Command, &'static str> {
    let name = active(observed)?;
    let line = format!("kubectl delete pod {name} --wait=false");
    Ok(Command { line, requests: vec![Request { kind: Kind::Pod, name, verb: Verb::Delete }] })
}

fn active(observed: &Observed) -> Result<String, &'static str> {
    let active = find(observed, DB).and_then(|extended| extended.status.active_pod.as_ref());
    active.map(|pod| pod.name.clone()).ok_or("no pod of db is active")
}

fn merge(name: &str, body: Value) -> Command {
    let line = format!("kubectl patch ests {name} --type merge -p '{body}'");
    command(line, name, Verb::Merge("kubectl-patch", body))
}

fn command(line: String, name: &str, verb: Verb) -> Command {
    Command { line, requests: vec![Request { kind: Kind::Extended, name: name.to_owned(), verb }] }
}

#[cfg(test)]
#[path = "commands_extended_tests.rs"]
mod tests;
