//! The application in the pods of a set: what it answers, and what it was asked. It answers over the pod network, which is
//! the same on both clusters.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{Response, StatusCode};
use kube::Api;
use kube::api::DynamicObject;
use serde_json::json;
use sts_plus_api::keys;
use sts_plus_api::scaling_policy::ScalingPolicyStatus;
use sts_plus_cluster::nodes::network::{Answer, Asked, Reset, handler};
use sts_plus_harness::wait::{NotYet, until};

use super::manifest::{SHUTDOWN, STATUS, kind};
use crate::cluster::Cluster;
use crate::observer::DEADLINE;

/// Ten times what anybody expects of an answer.
const HUGE_BYTES: usize = 10 << 20;

/// What is answered to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Says {
    /// This HTTP status.
    Code(u16),
    /// This HTTP status, with a text.
    Text(u16, &'static str),
    /// That it is in this state.
    State(String),
    /// Never a word.
    Nothing,
    /// The connection breaks.
    Reset,
    /// 10 MiB.
    Huge,
}

/// A request that a pod has got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    pub pod: String,
    pub uid: String,
    pub method: String,
    pub path: String,
}

/// The application of one set.
#[derive(Clone)]
pub struct App {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// What is said one after the other to a method and a path, by whose pod; the last is repeated.
    scripts: BTreeMap<(String, &'static str, &'static str), Vec<Says>>,
    /// How often each pod was asked what a script is about, since it was written.
    turns: BTreeMap<(String, &'static str, &'static str), usize>,
    made: Vec<Made>,
    faults: Vec<String>,
}

impl App {
    /// Answers for the pods of a set from now on: they accept everything, and are drained when asked.
    pub fn start(cluster: &dyn Cluster, namespace: &str, set: &str) -> Self {
        let app = Self { state: Arc::default() };
        app.say("POST", SHUTDOWN, &[Says::Code(204)]);
        app.say("DELETE", SHUTDOWN, &[Says::Code(204)]);
        app.say("GET", STATUS, &[Says::State("drained".to_owned())]);
        let (answering, client) = (app.clone(), cluster.user());
        let (space, target) = (namespace.to_owned(), set.to_owned());
        let answer = handler(move |request: http::Request<Bytes>| {
            let (app, client) = (answering.clone(), client.clone());
            let (space, target) = (space.clone(), target.clone());
            async move {
                let asked = request.extensions().get::<Asked>().cloned();
                let Some(asked) = asked else { return Err(Reset) };
                let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
                if method == "POST" && path == SHUTDOWN {
                    let fault = unremembered(client, &space, &target, &asked).await;
                    app.state().faults.extend(fault);
                }
                let says = app.state().answer(&asked, &method, &path);
                says.answer().await
            }
        });
        cluster.pod_network().answer_for_set(namespace, set, answer);
        app
    }

    /// From now on all pods say this to a method and a path, one after the other for each pod; the last is repeated.
    pub fn say(&self, method: &'static str, path: &'static str, says: &[Says]) {
        let mut state = self.state();
        state.scripts.retain(|(_, of, at), _| (*of, *at) != (method, path));
        state.turns.retain(|(_, of, at), _| (*of, *at) != (method, path));
        state.scripts.insert((String::new(), method, path), says.to_vec());
    }

    /// The same of one pod.
    pub fn say_of(&self, pod: &str, method: &'static str, path: &'static str, says: &[Says]) {
        let mut state = self.state();
        let key = (pod.to_owned(), method, path);
        state.turns.remove(&key);
        state.scripts.insert(key, says.to_vec());
    }

    /// From now on no pod is done until the application is told to [`finish`](Self::finish).
    pub fn hold(&self) {
        self.say("GET", STATUS, &[Says::State("flushing".to_owned())]);
    }

    /// From now on every pod is done when it is asked.
    pub fn finish(&self) {
        self.say("GET", STATUS, &[Says::State("drained".to_owned())]);
    }

    /// Every request so far.
    pub fn made(&self) -> Vec<Made> {
        self.state().made.clone()
    }

    /// The pods that were asked this, in order, each as often as it was.
    pub fn asked(&self, method: &str, path: &str) -> Vec<String> {
        let made = self.made();
        let made = made.into_iter().filter(|made| made.method == method && made.path == path);
        made.map(|made| made.pod).collect()
    }

    /// The pods that were told to shut down, in order.
    pub fn prepared(&self) -> Vec<String> {
        self.asked("POST", SHUTDOWN)
    }

    /// Waits until pods have been asked this more often than so many times.
    pub async fn asked_more(&self, method: &str, path: &str, than: usize) {
        until(DEADLINE, format!("more than {than} times {method} {path}"), || async {
            let times = self.asked(method, path).len();
            (times > than).then_some(()).ok_or_else(|| NotYet::saw(times))
        })
        .await;
    }

    /// Calls for which there was no record.
    pub fn faults(&self) -> Vec<String> {
        self.state().faults.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn answer(&mut self, asked: &Asked, method: &str, path: &str) -> Says {
        let Asked { pod, uid, .. } = asked.clone();
        let made = Made { pod: pod.clone(), uid, method: method.to_owned(), path: path.to_owned() };
        self.made.push(made);
        let is_about =
            |key: &(String, &str, &str), whose: &str| key.0 == whose && key.1 == method && key.2 == path;
        let own = self.scripts.keys().find(|key| is_about(key, &pod));
        let key = own.or_else(|| self.scripts.keys().find(|key| is_about(key, ""))).cloned();
        let Some(key) = key else { return Says::Code(404) };
        let turn = self.turns.entry((pod, key.1, key.2)).or_default();
        let script = &self.scripts[&key];
        let says = script.get(*turn).or(script.last()).cloned().unwrap();
        *turn += 1;
        says
    }
}

impl Says {
    async fn answer(self) -> Answer {
        let (code, body) = match self {
            Self::Code(code) => (code, Bytes::new()),
            Self::Text(code, text) => (code, Bytes::from(text)),
            Self::State(state) => (200, Bytes::from(json!({ "state": state }).to_string())),
            Self::Nothing => pending().await,
            Self::Reset => return Err(Reset),
            Self::Huge => (200, Bytes::from(vec![b' '; HUGE_BYTES])),
        };
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::from_u16(code).unwrap();
        // As soon as the operator does.
        response.headers_mut().insert(http::header::RETRY_AFTER, http::HeaderValue::from_static("1"));
        Ok(response)
    }
}

/// Why a pod must not have been called: its leaving is not recorded. What is remembered is there before the call, whatever
/// crashes in between.
async fn unremembered(client: kube::Client, namespace: &str, target: &str, asked: &Asked) -> Option<String> {
    let policies = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &kind());
    let sets = Api::<k8s_openapi::api::apps::v1::StatefulSet>::namespaced(client, namespace);
    // The scenario may have taken the API server away.
    let (Ok(policies), Ok(set)) =
        (policies.list(&kube::api::ListParams::default()).await, sets.get(target).await)
    else {
        return None;
    };
    let is_recorded = policies.into_iter().any(|policy| {
        let status: ScalingPolicyStatus =
            serde_json::from_value(policy.data["status"].clone()).unwrap_or_default();
        status.leaving.iter().any(|record| record.pod_uid == asked.uid && record.pod_name == asked.pod)
    });
    let ordinal = asked.pod.rsplit_once('-').map_or("", |(_, ordinal)| ordinal);
    let annotations = set.metadata.annotations.unwrap_or_default();
    let leaving = annotations.get(keys::LEAVING).map(String::as_str).unwrap_or_default();
    let is_marked = leaving.split(',').any(|leaving| leaving == ordinal);
    (!(is_recorded && is_marked)).then(|| {
        format!(
            "{} ({:.8}) was called; recorded: {is_recorded}, marked on its set: {is_marked}",
            asked.pod, asked.uid
        )
    })
}
