//! The events that report the outcome of writes, with upstream's reasons and in its words.

use std::collections::BTreeMap;

use super::world::World;
use super::{Alignment, Answer, Need, Purpose};
use crate::plan::{Action, Note};
use crate::reason::{Reason, Refusal, Severity};
use crate::set::SetRow;

/// What happened to a pod in a step, and what went wrong on the way.
#[derive(Default)]
struct Told<'a> {
    done: bool,
    errors: Vec<String>,
    verb: Option<&'a str>,
}

/// The events that report the answers to the writes of one step, each with what it was for.
pub fn report<'a>(
    world: &World,
    answered: impl IntoIterator<Item = (&'a Action, &'a Purpose, Answer<'a>)>,
) -> Vec<Note> {
    let set = &*world.set;
    let mut notes = Vec::new();
    let mut pods: BTreeMap<&str, Told<'_>> = BTreeMap::new();
    for (action, purpose, answer) in answered {
        let name = &*action.object().name;
        match purpose {
            Purpose::CreatePod => match answer {
                // Somebody else has the name, or we have been faster than our own view.
                Answer::AlreadyExists(_) => {}
                answer => note(&mut pods, name, "Create", failure(answer)),
            },
            Purpose::DeletePod => match answer {
                Answer::NotFound(_) => note(&mut pods, name, "Delete", None),
                // The pod is not what it was: it is looked at again.
                Answer::Conflict(_) => {}
                answer => note(&mut pods, name, "Delete", failure(answer)),
            },
            Purpose::RepairPod => match answer {
                Answer::Conflict(_) => {}
                answer => note(&mut pods, name, "Update", failure(answer)),
            },
            Purpose::CreateClaim { pod, need } => {
                if !matches!(answer, Answer::AlreadyExists(_)) {
                    notes.push(of_claim(set, name, pod, failure(answer)));
                }
                if let Some(error) = failure(answer) {
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
                    let error = failure(answer).map(|error| format!("{context}: {error}"));
                    note(&mut pods, pod, "Update", error);
                }
            },
            Purpose::AdoptPod
            | Purpose::ReleasePod
            | Purpose::AdoptRevision
            | Purpose::CreateRevision
            | Purpose::RenumberRevision
            | Purpose::TrimRevision
            | Purpose::Status => {}
        }
    }
    notes.extend(pods.iter().filter_map(|(pod, told)| of_pod(set, pod, told)));
    notes
}

/// The event that reports that the server refuses to store the update revision: pods of it cannot be created before that.
pub fn report_refused_revision(set: &SetRow, revision: &Action, refusal: &Refusal) -> Note {
    let name = &revision.object().name;
    let message = format!("nothing is rolled while ControllerRevision {name} cannot be stored: {refusal}");
    Note::of_set(set, Severity::Warning, Reason::WRITE_REFUSED, message)
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

fn of_pod(set: &SetRow, pod: &str, told: &Told<'_>) -> Option<Note> {
    let (verb, name) = (told.verb?, &set.name);
    let (success, failed) = match verb {
        "Create" => ("SuccessfulCreate", "FailedCreate"),
        "Delete" => ("SuccessfulDelete", "FailedDelete"),
        _ => ("SuccessfulUpdate", "FailedUpdate"),
    };
    Some(if told.errors.is_empty() {
        let message = format!("{verb} Pod {pod} in StatefulSet {name} successful");
        Note::of_set(set, Severity::Normal, success, message)
    } else {
        let error = combine(&told.errors);
        let message = format!("{verb} Pod {pod} in StatefulSet {name} failed error: {error}");
        Note::of_set(set, Severity::Warning, failed, message)
    })
}

fn of_claim(set: &SetRow, claim: &str, pod: &str, error: Option<String>) -> Note {
    let name = &set.name;
    match error {
        None => {
            let message = format!("Create Claim {claim} Pod {pod} in StatefulSet {name} success");
            Note::of_set(set, Severity::Normal, "SuccessfulCreate", message)
        }
        Some(error) => {
            let message =
                format!("Create Claim {claim} for Pod {pod} in StatefulSet {name} failed error: {error}");
            Note::of_set(set, Severity::Warning, "FailedCreate", message)
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
