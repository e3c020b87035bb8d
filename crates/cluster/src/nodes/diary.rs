//! What hollow containers have done, kept as the logs that real ones would have written.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use super::pod::{Binding, Container, Containers, Init, InitState, Pod, Stage};
use super::watch::Key;
use crate::machinery::logs::{Line, Log, Logs};

/// Lines that are kept of one run of a container: a pod that flaps for an hour says no more.
const MAX_LINES: usize = 500;

/// Pods that are remembered after they have gone, so that whoever follows a log hears its end.
const MAX_GONE: usize = 64;

/// The logs of all containers. Clones are the same diary.
#[derive(Clone, Debug, Default)]
pub struct Diary {
    pods: Arc<Mutex<Pods>>,
    said: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Pods {
    /// By pod and container.
    runs: BTreeMap<Key, BTreeMap<String, Runs>>,
    /// Oldest first.
    gone: VecDeque<Key>,
}

/// The present run of a container and the one before.
#[derive(Debug, Default)]
struct Runs {
    present: Option<Run>,
    previous: Option<Run>,
    /// Lines that the container has ever said.
    said: u64,
}

#[derive(Debug, Default)]
struct Run {
    lines: VecDeque<Line>,
    is_over: bool,
}

impl Runs {
    fn begin(&mut self) {
        let before = self.present.replace(Run::default());
        self.previous = before.or(self.previous.take());
    }

    fn say(&mut self, at: Timestamp, text: String) {
        let run = self.present.get_or_insert_default();
        if run.lines.len() == MAX_LINES {
            run.lines.pop_front();
        }
        run.lines.push_back(Line { number: self.said, at, text });
        self.said += 1;
    }

    fn end(&mut self) {
        if let Some(run) = &mut self.present {
            run.is_over = true;
        }
    }
}

impl Diary {
    fn lock(&self) -> MutexGuard<'_, Pods> {
        self.pods.lock()
    }

    /// Writes down what has become of a pod since it was last looked at.
    pub(super) fn note(&self, before: Option<&Pod>, pod: &Pod, at: Timestamp) {
        let was = before.map(|before| before.stage);
        let is_told =
            was == Some(pod.stage) && before.map(|pod| pod.deletion_grace) == Some(pod.deletion_grace);
        if is_told || !matches!(pod.binding, Binding::Bound(_)) {
            return;
        }
        {
            let mut all = self.lock();
            let runs = all.runs.entry(pod.key.clone()).or_default();
            for container in &pod.containers {
                note_container(runs.entry(container.name.clone()).or_default(), before, pod, container, at);
            }
            for (index, container) in pod.initializing().enumerate() {
                let runs = runs.entry(container.name.clone()).or_default();
                note_init(runs, (turn(was, index), turn(Some(pod.stage), index)), container, at);
            }
        }
        self.said.send_modify(|said| *said += 1);
    }

    /// Ends the logs of a pod that is gone.
    pub(super) fn end(&self, pod: &Key) {
        let mut all = self.lock();
        let Pods { runs, gone } = &mut *all;
        if let Some(runs) = runs.get_mut(pod) {
            runs.values_mut().for_each(Runs::end);
            gone.push_back(pod.clone());
        }
        if gone.len() > MAX_GONE
            && let Some(oldest) = gone.pop_front()
        {
            runs.remove(&oldest);
        }
        drop(all);
        self.said.send_modify(|said| *said += 1);
    }
}

fn note_container(runs: &mut Runs, before: Option<&Pod>, pod: &Pod, container: &Container, at: Timestamp) {
    let (is, was) = (pod.stage, before.map(|before| before.stage));
    let ran = was.is_some_and(|was| was.containers == Containers::Running);
    let is_same = was.is_some_and(|was| (was.containers, was.restarts) == (is.containers, is.restarts));
    let begin = |runs: &mut Runs, run: u32| {
        runs.begin();
        let image = &container.image;
        runs.say(at, format!("starts run {run} of image {image}, in name only: no process is behind it"));
    };
    if !is_same {
        // A run that ended between two looks began in between, too.
        if !ran && matches!(is.containers, Containers::CrashLoopBackOff | Containers::Ended) {
            begin(runs, is.restarts.max(1));
        }
        let has_ended = ran || matches!(is.containers, Containers::CrashLoopBackOff | Containers::Ended);
        if has_ended && was.is_some() {
            runs.say(at, format!("exits with code {}", is.exit));
            runs.end();
        }
        if is.containers == Containers::Running {
            begin(runs, is.restarts + 1);
        }
    }
    let was_ready = is_same && was.is_some_and(|was| was.containers_ready);
    match (was_ready, is.containers_ready) {
        (false, true) => runs.say(at, "is ready".to_owned()),
        (true, false) => runs.say(at, "is no longer ready".to_owned()),
        _ => {}
    }
    let was_asked = before.and_then(|before| before.deletion_grace);
    if let (None, Some(grace), Some(_)) = (was_asked, pod.deletion_grace, &runs.present) {
        runs.say(at, format!("is asked to stop and has {grace} s for it"));
    }
}

/// How far an init container is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Waits,
    Runs(u32),
    Failed(u32),
    Done,
}

fn turn(stage: Option<Stage>, place: usize) -> Turn {
    match stage.map(|stage| stage.init) {
        None | Some(Init::Waiting) => Turn::Waits,
        Some(Init::Done) => Turn::Done,
        Some(Init::At { index, .. }) if place < index => Turn::Done,
        Some(Init::At { index, .. }) if place > index => Turn::Waits,
        Some(Init::At { state: InitState::Running, restarts, .. }) => Turn::Runs(restarts),
        Some(Init::At { restarts, .. }) => Turn::Failed(restarts),
    }
}

fn note_init(runs: &mut Runs, (was, is): (Turn, Turn), container: &Container, at: Timestamp) {
    if was == is || is == Turn::Waits {
        return;
    }
    if !matches!(was, Turn::Runs(_)) || matches!(is, Turn::Runs(_)) {
        runs.begin();
        runs.say(at, format!("starts image {}, in name only: no process is behind it", container.image));
    }
    match is {
        Turn::Done => {
            runs.say(at, "is done".to_owned());
            runs.end();
        }
        Turn::Failed(_) => {
            runs.say(at, "fails".to_owned());
            runs.end();
        }
        Turn::Runs(_) | Turn::Waits => {}
    }
}

impl Logs for Diary {
    fn read(&self, pod_uid: &str, container: &str, previous: bool) -> Option<Log> {
        let all = self.lock();
        let runs = all.runs.get(&Key::from(pod_uid.to_owned()))?.get(container)?;
        let run = if previous { runs.previous.as_ref() } else { runs.present.as_ref() }?;
        Some(Log { lines: run.lines.iter().cloned().collect(), is_over: previous || run.is_over })
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.said.subscribe()
    }
}

#[cfg(test)]
#[path = "diary_tests.rs"]
mod tests;
