//! The applications in the pods of sets with a policy: they answer hooks over the network in memory, and not always well.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use serde_json::json;
use sts_plus_cluster::nodes::behaviour;
use sts_plus_cluster::nodes::network::{Answer, Asked, Network, Reset, handler};
use tokio::time::sleep;

use super::cast::Scaled;
use super::state::{Asks, Life};
use crate::cast::NAMESPACE;
use crate::dice::Dice;
use crate::faults::Fault;
use crate::hand::Hand;
use crate::link::Net;

/// How long an application takes to get ready for its removal.
const DRAINS: (Duration, Duration) = (Duration::ZERO, Duration::from_secs(40));
/// How long an answer takes that is late: within the time limit of a call, or beyond it.
const LATE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
/// How long a container stays down that has died in a call.
const DOWN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(8));
/// How long a pod that has been deleted still answers.
const LINGERS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(8));
/// Of a thousand calls in a window of trouble, so many have it.
const TROUBLED: u64 = 600;

/// All applications of a run; clones are the same.
#[derive(Clone)]
pub struct Apps {
    net: Net,
    dice: Dice,
    other: Hand,
    /// Until when each has something to do that was asked to get ready.
    ready_at: Arc<Mutex<BTreeMap<Life, Duration>>>,
}

impl Apps {
    /// Lets the pods of these sets answer.
    pub fn open(net: &Net, scaled: &[Scaled], network: &Network, seed: u64) {
        let apps = Self {
            net: net.clone(),
            dice: Dice::new(seed, "applications"),
            other: Hand::new(&net.server, &net.trace, "third party"),
            ready_at: Arc::default(),
        };
        for one in scaled {
            let apps = apps.clone();
            let answer = handler(move |request| {
                let apps = apps.clone();
                async move { apps.answer(request).await }
            });
            network.answer_for_set(NAMESPACE, one.name, answer);
        }
    }

    async fn answer(self, request: Request<Bytes>) -> Answer {
        let asked = request.extensions().get::<Asked>().cloned();
        let Some((asked, asks)) = asked.zip(asks(&request)) else { return Ok(says(404, "not found")) };
        let dice = &self.dice;
        // Drawn for every call, so that what is decided about one does not move the next.
        let [trouble, side] = [dice.below(1000), dice.draw()];
        let (late, takes) = (dice.time(LATE.0, LATE.1), dice.time(DRAINS.0, DRAINS.1));
        let (down, lingers) = (dice.time(DOWN.0, DOWN.1), dice.time(LINGERS.0, LINGERS.1));
        let net = &self.net;
        let has = |fault| trouble < TROUBLED && net.open(fault).is_some();
        let Some(life) = net.monitor.hook_arrives(&asked.pod, &asked.uid, asks) else { return Err(Reset) };
        if has(Fault::HookRefuses) {
            return match side % 3 {
                0 => Ok(says(503, "not now")),
                1 => Ok(says(404, "no such path")),
                _ => Err(Reset),
            };
        }
        if has(Fault::HookHangs) {
            return std::future::pending().await;
        }
        let mut is_done = self.act(&life, asks, takes);
        if has(Fault::HookDies) {
            if side.is_multiple_of(3) {
                tokio::spawn(self.clone().restart(asked.pod, down));
            }
            return Err(Reset);
        }
        if has(Fault::HookLate) {
            sleep(late).await;
        }
        if has(Fault::HookOutdated) && matches!(asks, Asks::Flush | Asks::Progress) {
            // The answer of this pod arrives when another one may have its name.
            self.other.delete("pods", &asked.pod, &json!({})).await;
            sleep(lingers).await;
            net.monitor.hook_answers(&life, asks, true);
            return Ok(state(true));
        }
        if asks == Asks::Flush && !has(Fault::HookLies) {
            sleep(self.left(&life)).await;
            is_done = self.act(&life, Asks::Progress, takes);
        }
        if has(Fault::HookLies) {
            is_done = asks == Asks::Flush || !is_done;
        }
        if net.monitor.life_of(&asked.pod, &asked.uid).as_ref() != Some(&life) {
            return Err(Reset);
        }
        if asks == Asks::Flush && !is_done {
            return Ok(says(503, "taken back"));
        }
        net.monitor.hook_answers(&life, asks, is_done);
        Ok(state(is_done))
    }

    /// Does what an application is asked for; whether it is ready for its removal.
    fn act(&self, life: &Life, asks: Asks, takes: Duration) -> bool {
        let now = self.net.now();
        let mut ready_at = self.ready_at.lock().unwrap_or_else(PoisonError::into_inner);
        match asks {
            Asks::Flush | Asks::Begin => {
                ready_at.entry(life.clone()).or_insert(now + takes);
            }
            Asks::Cancel => {
                ready_at.remove(life);
            }
            Asks::Progress | Asks::Join => {}
        }
        ready_at.get(life).is_some_and(|at| *at <= now)
    }

    /// How long an application still takes.
    fn left(&self, life: &Life) -> Duration {
        let ready_at = self.ready_at.lock().unwrap_or_else(PoisonError::into_inner);
        ready_at.get(life).map_or(Duration::ZERO, |at| at.saturating_sub(self.net.now()))
    }

    /// The container of a pod dies, and runs again after a while.
    async fn restart(self, pod: String, down: Duration) {
        let fault = |fault: &str| json!({ "metadata": { "annotations": { behaviour::FAULT: fault } } });
        self.other.patch("pods", &pod, &fault("crash-loop")).await;
        sleep(down).await;
        self.other.patch("pods", &pod, &fault("")).await;
    }
}

fn asks(request: &Request<Bytes>) -> Option<Asks> {
    match (request.method(), request.uri().path()) {
        (&Method::POST, "/flush") => Some(Asks::Flush),
        (&Method::POST, "/begin") => Some(Asks::Begin),
        (&Method::GET, "/progress") => Some(Asks::Progress),
        (&Method::DELETE, "/flush" | "/begin") => Some(Asks::Cancel),
        (&Method::POST, "/join") => Some(Asks::Join),
        _ => None,
    }
}

fn state(is_done: bool) -> Response<Bytes> {
    says(200, &json!({ "state": if is_done { "drained" } else { "draining" } }).to_string())
}

fn says(code: u16, words: &str) -> Response<Bytes> {
    let mut answer = Response::new(Bytes::from(words.to_owned()));
    *answer.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    answer
}
