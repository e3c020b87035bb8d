//! The events that tell what became of writes, with upstream's reasons and in its words.

use std::collections::BTreeMap;

use super::world::World;
use super::{Alignment, Answer, Need, Note, Purpose, Step, Task};
use crate::reason::{Reason, Refusal, Severity};

/// What happened to a pod in a step, and what went wrong on the way.
#[derive(Default)]
struct Told<'a> {
    done: bool,
    errors: Vec<String>,
    verb: Option<&'a str>,
}

/// The events that tell what became of a step: one answer for each of its tasks, in their order.
pub fn tell(world: &World, step: &Step, answers: &[Answer<'_>]) -> Vec<Note> {
    let set = &*world.set.name;
    let mut notes = Vec::new();
    let mut pods: BTreeMap<&str, Told<'_>> = BTreeMap::new();
    for (Task { action, purpose }, answer) in step.tasks.iter().zip(answers) {
        let name = &*action.object.name;
        match purpose {
            Purpose::CreatePod => match answer {
                // Somebody else has the name, or we have been faster than our own view.
                Answer::AlreadyExists(_) => {}
                answer => note(&mut pods, name, "Create", failure(*answer)),
            },
            Purpose::DeletePod => match answer {
                Answer::NotFound(_) => note(&mut pods, name, "Delete", None),
                // The pod is not what it was: it is looked at again.
                Answer::Conflict(_) => {}
                answer => note(&mut pods, name, "Delete", failure(*answer)),
            },
            Purpose::RepairPod => match answer {
                Answer::Conflict(_) => {}
                answer => note(&mut pods, name, "Update", failure(*answer)),
            },
            Purpose::CreateClaim { pod, need } => {
                if !matches!(answer, Answer::AlreadyExists(_)) {
                    notes.push(of_claim(set, name, pod, failure(*answer)));
                }
                if let Some(error) = failure(*answer) {
                    let error = format!("failed to create PVC {name}: {error}");
                    match need {
                        Need::NewPod => note(&mut pods, pod, "Create", Some(error)),
                        Need::Repair => note(&mut pods, pod, "Update", Some(error)),
                        Need::PendingPod => {}
                    }
                }
            }
            Purpose::OwnClaim { pod, alignment } => match (alignment, answer) {
                (_, Answer::Conflict(_)) | (Alignment::Condemned, _) | (Alignment::Pending, Answer::Done) => {
                }
                (_, answer) => {
                    let context = format!("could not update claim {name} for delete policy ownerRefs");
                    let error = failure(*answer).map(|error| format!("{context}: {error}"));
                    note(&mut pods, pod, "Update", error);
                }
            },
            Purpose::AdoptPod
            | Purpose::ReleasePod
            | Purpose::AdoptRevision
            | Purpose::CreateRevision
            | Purpose::RenumberRevision
            | Purpose::TrimRevision => {}
        }
    }
    notes.extend(pods.iter().filter_map(|(pod, told)| of_pod(set, pod, told)));
    notes
}

/// The event that tells that the server refuses to store the update revision: pods of it cannot be created before that.
pub fn tell_refused_revision(step: &Step, refusal: &Refusal) -> Option<Note> {
    let name = &step.stored_revision()?.action.object.name;
    let message = format!("nothing is rolled while ControllerRevision {name} cannot be stored: {refusal}");
    Some(Note { severity: Severity::Warning, reason: Reason::WRITE_REFUSED, message })
}

fn note<'a>(pods: &mut BTreeMap<&'a str, Told<'a>>, pod: &'a str, verb: &'a str, error: Option<String>) {
    let told = pods.entry(pod).or_default();
    told.verb = Some(verb);
    told.done |= error.is_none();
    told.errors.extend(error);
}

fn failure(answer: Answer<'_>) -> Option<String> {
    match answer {
        Answer::Done => None,
        Answer::AlreadyExists(error)
        | Answer::NotFound(error)
        | Answer::Conflict(error)
        | Answer::Failed(error) => Some(error.to_owned()),
    }
}

fn of_pod(set: &str, pod: &str, told: &Told<'_>) -> Option<Note> {
    let verb = told.verb?;
    let (success, failed) = match verb {
        "Create" => ("SuccessfulCreate", "FailedCreate"),
        "Delete" => ("SuccessfulDelete", "FailedDelete"),
        _ => ("SuccessfulUpdate", "FailedUpdate"),
    };
    Some(if told.errors.is_empty() {
        let message = format!("{verb} Pod {pod} in StatefulSet {set} successful");
        Note { severity: Severity::Normal, reason: success, message }
    } else {
        let error = combine(&told.errors);
        let message = format!("{verb} Pod {pod} in StatefulSet {set} failed error: {error}");
        Note { severity: Severity::Warning, reason: failed, message }
    })
}

fn of_claim(set: &str, claim: &str, pod: &str, error: Option<String>) -> Note {
    match error {
        None => {
            let message = format!("Create Claim {claim} Pod {pod} in StatefulSet {set} success");
            Note { severity: Severity::Normal, reason: "SuccessfulCreate", message }
        }
        Some(error) => {
            let message =
                format!("Create Claim {claim} for Pod {pod} in StatefulSet {set} failed error: {error}");
            Note { severity: Severity::Warning, reason: "FailedCreate", message }
        }
    }
}

/// Several errors in one message.
pub(super) fn combine(errors: &[String]) -> String {
    match errors {
        [error] => error.clone(),
        errors => format!("[{}]", errors.join(", ")),
    }
}
