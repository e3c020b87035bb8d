//! What a script expects to see once nothing moves any more: a condition, never a time.

use std::collections::BTreeSet;

use serde_json::Value;

use super::picture::{Picture, labels};
use crate::fixture::image;

/// From so many seconds on a pod does not become available while a test runs; below, it does.
const NEVER_SECONDS: u64 = 60;

/// What there shall be.
#[derive(Clone, Debug)]
pub struct Expect {
    pods: Vec<Pod>,
    claims: Option<BTreeSet<String>>,
    revisions: Option<usize>,
    status: bool,
}

/// One pod, written as `web-0`, `web-0:v2`, `web-0!`, `web-0~`, `web-0?` or a mix of these, in this order.
#[derive(Clone, Debug)]
struct Pod {
    name: String,
    /// Its version, where it matters (`:v2`).
    version: Option<String>,
    /// Not with `!`.
    ready: bool,
    /// With `~`.
    leaving: bool,
    /// Not with `?`: a set controls it.
    controlled: bool,
}

impl Pod {
    fn parse(text: &str) -> Self {
        let named = text.trim_end_matches(['!', '~', '?']);
        let marks = &text[named.len()..];
        let (name, version) = match named.split_once(':') {
            Some((name, version)) => (name, Some(version.to_owned())),
            None => (named, None),
        };
        Self {
            name: name.to_owned(),
            version,
            ready: !marks.contains('!'),
            leaving: marks.contains('~'),
            controlled: !marks.contains('?'),
        }
    }

    fn check(&self, pod: &Value) -> Result<(), String> {
        let ready = pod["status"]["phase"] == "Running" && pod["status"]["ready"] == true;
        let is_leaving = leaving(pod);
        let shown = pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default();
        let right_version = self.version.as_ref().is_none_or(|version| image(version) == shown);
        let good = ready == self.ready
            && is_leaving == self.leaving
            && controller(pod).is_some_and(|owner| owner.starts_with("StatefulSet ")) == self.controlled
            && right_version;
        if good { Ok(()) } else { Err(format!("{self:?}, but it is {shown} with {}", pod["status"])) }
    }
}

/// These pods and no others, separated by spaces.
pub fn pods(text: &str) -> Expect {
    let pods = text.split_whitespace().map(Pod::parse).collect();
    Expect { pods, claims: None, revisions: None, status: true }
}

impl Expect {
    /// And these claims and no others: `data-web-0`, or `data-web-0@web` with the name of who controls it, or
    /// `data-web-0~` on its way out.
    #[must_use]
    pub fn claims(mut self, text: &str) -> Self {
        self.claims = Some(text.split_whitespace().map(str::to_owned).collect());
        self
    }

    /// And so many revisions.
    #[must_use]
    pub fn revisions(mut self, count: usize) -> Self {
        self.revisions = Some(count);
        self
    }

    /// Whatever the status says: the controller does not come so far as to write it.
    #[must_use]
    pub fn whatever_the_status(mut self) -> Self {
        self.status = false;
        self
    }

    /// Whether it is so, or what is there instead.
    pub fn check(&self, picture: &Picture) -> Result<(), String> {
        let there: Vec<_> = picture.all("pods").map(|(name, _)| name.as_str()).collect();
        let mut wanted: Vec<_> = self.pods.iter().map(|pod| pod.name.as_str()).collect();
        wanted.sort_unstable();
        if there != wanted {
            return Err(format!("pods {there:?} instead of {wanted:?}"));
        }
        for pod in &self.pods {
            pod.check(&picture.0["pods"][&pod.name])?;
        }
        self.check_claims(picture)?;
        let revisions = picture.all("revisions").count();
        if self.revisions.is_some_and(|wanted| wanted != revisions) {
            return Err(format!("{revisions} revisions instead of {:?}", self.revisions));
        }
        if self.status {
            picture.all("sets").try_for_each(|(_, set)| recount(set, picture))?;
        }
        Ok(())
    }

    fn check_claims(&self, picture: &Picture) -> Result<(), String> {
        let describe = |(name, claim): (&String, &Value)| {
            let owner = controller(claim).and_then(|owner| owner.split(' ').nth(1));
            let owner = owner.map(|owner| format!("@{owner}")).unwrap_or_default();
            format!("{name}{owner}{}", if leaving(claim) { "~" } else { "" })
        };
        let there: BTreeSet<_> = picture.all("claims").map(describe).collect();
        match &self.claims {
            Some(wanted) if there != *wanted => Err(format!("claims {there:?} instead of {wanted:?}")),
            _ => Ok(()),
        }
    }
}

fn leaving(object: &Value) -> bool {
    object["metadata"].get("deletionTimestamp").is_some()
}

/// What the controlling owner of an object is called; `Kind name #1` where it was seen, else its UID.
fn controller(object: &Value) -> Option<&str> {
    let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.filter(|owner| owner["controller"] == true).find_map(|owner| owner["uid"].as_str())
}

/// Whether a status says what can be counted.
fn recount(set: &Value, picture: &Picture) -> Result<(), String> {
    let (spec, status) = (&set["spec"], &set["status"]);
    let uid = set["metadata"]["uid"].as_str();
    let pods: Vec<_> = picture.all("pods").map(|(_, pod)| pod).filter(|pod| controller(pod) == uid).collect();
    let count = |wanted: &dyn Fn(&&&Value) -> bool| pods.iter().filter(wanted).count() as u64;
    let of = |revision: &Value| {
        let revision = revision.as_str().unwrap_or_default();
        let carries = |pod: &Value| labels(pod).get("controller-revision-hash") == Some(&revision);
        count(&|pod| !leaving(pod) && carries(pod))
    };
    let ready = count(&|pod| pod["status"]["phase"] == "Running" && pod["status"]["ready"] == true);
    let never = spec["minReadySeconds"].as_u64().unwrap_or_default() >= NEVER_SECONDS;
    let (replicas, updated) = (count(&|_| true), of(&status["updateRevision"]));
    let number = |field: &str| status[field].as_u64().unwrap_or_default();
    let done = [replicas, ready, updated].iter().all(|number| Some(*number) == spec["replicas"].as_u64());
    let promotes = done && spec["updateStrategy"]["type"] == "RollingUpdate";
    let right = status["observedGeneration"] == set["metadata"]["generation"]
        && number("replicas") == replicas
        && number("readyReplicas") == ready
        && number("availableReplicas") == if never { 0 } else { ready }
        && number("updatedReplicas") == updated
        && number("currentReplicas") == of(&status["currentRevision"])
        && (!promotes || status["currentRevision"] == status["updateRevision"]);
    if right { Ok(()) } else { Err(format!("a status that is not right yet: {status}")) }
}

#[cfg(test)]
#[path = "expect_tests.rs"]
mod tests;
