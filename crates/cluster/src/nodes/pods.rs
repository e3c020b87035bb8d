//! The keeper of pods: what is known of each, and the calls that its writes are made of.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::call::Call;
use super::config_maps::{ConfigMap, ConfigMaps};
use super::diary::Diary;
use super::lifecycle::{self, Defaults, Progress, Write};
use super::network::{Endpoint, Listening, Loopback, Network, Transport};
use super::node::Nodes;
use super::pod::{Binding, Containers, Pod};
use super::probes::{self, Probing};
use super::shell::{Keeper, Next};
use super::status::{self, Report};
use super::watch::{Event, Key};
use crate::chance;
use crate::clock::{Clock, Moment};

/// Where pods have their addresses, and how many there are: half of 10.0.0.0/8, out of the way of service
/// ranges and of the nodes'.
const POD_NETWORK: Ipv4Addr = Ipv4Addr::new(10, 128, 0, 0);
const POD_ADDRESSES: u32 = 1 << 23;

/// The component that events name as their source.
const COMPONENT: &str = "hollow-nodes";

/// What the keeper of pods is told.
#[derive(Debug)]
pub(super) enum Input {
    /// Something happened to a pod.
    Pod(Box<Event<Pod>>),
    /// Something happened to a ConfigMap.
    ConfigMap(Event<ConfigMap>),
    /// These nodes are lost now, all others are not.
    Lost(BTreeSet<String>),
    /// A probe of a pod has been answered, or not in time; `run` is the run of its containers that was asked.
    Probed { key: Key, index: usize, run: u32, success: bool },
}

/// All pods that are known.
pub(super) struct Pods {
    known: BTreeMap<Key, Known>,
    config_maps: ConfigMaps,
    nodes: Nodes,
    addresses: Addresses,
    defaults: Defaults,
    clock: Clock,
    network: Network,
    transport: Arc<dyn Transport>,
    diary: Option<Diary>,
}

struct Known {
    pod: Pod,
    progress: Progress,
    probing: Probing,
    address: Option<Ipv4Addr>,
}

impl Pods {
    pub(super) fn new(nodes: Nodes, defaults: Defaults, clock: Clock) -> Self {
        let network = Network::new();
        let transport = Arc::new(network.clone());
        Pods {
            known: BTreeMap::new(),
            config_maps: ConfigMaps::default(),
            nodes,
            addresses: Addresses::default(),
            defaults,
            clock,
            network,
            transport,
            diary: None,
        }
    }

    /// Shows pods on this network, and asks them over this transport, which need not be the same.
    pub(super) fn on(self, network: Network, transport: Arc<dyn Transport>) -> Self {
        Pods { network, transport, ..self }
    }

    /// Gives pods addresses at which this machine can listen, if it can.
    pub(super) fn listening(mut self, loopback: Loopback) -> Self {
        if loopback == Loopback::Own {
            // Two clusters on one machine had better not begin with the same address.
            let last = std::process::id().wrapping_shl(8) % POD_ADDRESSES;
            self.addresses = Addresses { network: Loopback::NETWORK, last, ..self.addresses };
        }
        self
    }

    /// Writes down what containers do.
    pub(super) fn writing(self, diary: Option<Diary>) -> Self {
        Pods { diary, ..self }
    }

    fn seen(&mut self, mut pod: Pod, now: Moment) -> Vec<Key> {
        pod.held = self.config_maps.hold(&pod);
        let key = pod.key.clone();
        let before = self.known.get(&key).map(|known| &known.pod);
        if let Some(diary) = &self.diary {
            diary.note(before, &pod, self.clock.wall_at(now));
        }
        let shown: Option<Ipv4Addr> = pod.ip.as_ref().and_then(|ip| ip.parse().ok());
        let (address, mut progress, probing) = match self.known.remove(&key) {
            Some(known) => (known.address.or(shown), known.progress, known.probing),
            None => (shown, Progress::default(), Probing::default()),
        };
        if let Some(address) = address {
            self.addresses.used.insert(address);
        }
        progress.see(&pod, now);
        self.known.insert(key.clone(), Known { pod, progress, probing, address });
        self.publish(&key, now);
        vec![key]
    }

    /// Lets the network and the probes know how a pod is.
    fn publish(&mut self, key: &Key, now: Moment) {
        let Some(known) = self.known.get_mut(key) else {
            return;
        };
        let Known { pod, probing, address, .. } = known;
        let is_lost = matches!(&pod.binding, Binding::Bound(node) if self.nodes.lost.contains(node));
        let is_here = matches!(&pod.binding, Binding::Bound(node) if self.nodes.has(node));
        let is_running = pod.stage.containers == Containers::Running;
        let is_asked = is_running && is_here && !is_lost && pod.deletion_grace.is_none() && address.is_some();
        let run = is_asked.then_some(pod.stage.restarts);
        probing.see(&pod.probes, run, pod.stage.containers_ready, now);
        if let (Some(address), true) = (*address, is_here) {
            let listening = match (is_lost, is_running) {
                (true, _) => Listening::Lost,
                (false, true) => Listening::Yes,
                (false, false) => Listening::No,
            };
            let endpoint = Endpoint {
                uid: pod.key.clone(),
                namespace: pod.namespace.clone(),
                name: pod.name.clone(),
                labels: pod.labels.clone(),
                hostname: pod.hostname.clone(),
                subdomain: pod.subdomain.clone(),
                set: pod.set.clone(),
                ports: pod.ports.clone(),
                listening,
                ready: pod.stage.ready && pod.deletion_grace.is_none(),
                answers: pod.behaviour.answers.clone().unwrap_or_default(),
            };
            self.network.show(address, endpoint);
        }
    }

    fn gone(&mut self, key: Key) -> Vec<Key> {
        if let Some(diary) = &self.diary {
            diary.end(&key);
        }
        if let Some(Known { address: Some(address), .. }) = self.known.remove(&key) {
            self.addresses.used.remove(&address);
            self.network.hide(address, &key);
        }
        vec![key]
    }

    /// All pods that a change of a ConfigMap holds, or lets go on.
    fn configured(&mut self, event: Event<ConfigMap>) -> Vec<Key> {
        self.config_maps.take(event);
        let mut changed = Vec::new();
        for (key, Known { pod, .. }) in &mut self.known {
            let is_held = self.config_maps.hold(pod);
            if std::mem::replace(&mut pod.held, is_held) != is_held {
                changed.push(key.clone());
            }
        }
        changed
    }

    /// All pods that the loss or return of these nodes may matter to.
    fn lost(&mut self, lost: BTreeSet<String>, now: Moment) -> Vec<Key> {
        let changed: BTreeSet<String> = self.nodes.lost.symmetric_difference(&lost).cloned().collect();
        self.nodes.lost = lost;
        let touched = |binding: &Binding| match binding {
            Binding::Bound(node) => changed.contains(node),
            Binding::Unbound(_) => true,
            Binding::NotOurs => false,
        };
        let keys = self.known.iter().filter(|(_, known)| touched(&known.pod.binding));
        let keys: Vec<Key> = keys.map(|(key, _)| key.clone()).collect();
        for key in &keys {
            self.publish(key, now);
        }
        keys
    }
}

impl Keeper for Pods {
    type Input = Input;
    type Write = Write;

    fn take(&mut self, input: Input, now: Moment) -> Vec<Key> {
        match input {
            Input::Pod(event) => match *event {
                Event::Seen(pod) => self.seen(pod, now),
                Event::Gone(key) => self.gone(key),
                Event::Synced => Vec::new(),
            },
            Input::ConfigMap(event) => self.configured(event),
            Input::Lost(lost) => self.lost(lost, now),
            Input::Probed { key, index, run, success } => {
                if let Some(known) = self.known.get_mut(&key) {
                    known.probing.answered(index, run, success, now);
                }
                vec![key]
            }
        }
    }

    fn next(&self, key: &Key, now: Moment) -> Next<Write> {
        match self.known.get(key) {
            Some(Known { pod, progress, probing, .. }) => {
                let health = probing.health();
                let next = lifecycle::next(pod, progress, &self.nodes, &self.defaults, health, now);
                match (next, probing.wake()) {
                    (Next::Wait(moment), Some(wake)) => Next::Wait(moment.min(wake)),
                    (Next::Rest, Some(wake)) => Next::Wait(wake),
                    (next, _) => next,
                }
            }
            None => Next::Forget,
        }
    }

    fn ask(&mut self, key: &Key, now: Moment) -> Vec<BoxFuture<'static, Input>> {
        let Some(Known { pod, probing, address: Some(address), .. }) = self.known.get_mut(key) else {
            return Vec::new();
        };
        let (exec, address) = (pod.behaviour.exec.unwrap_or_default(), *address);
        let Some(run) = probing.run() else {
            return Vec::new();
        };
        let question = |(index, probe)| -> BoxFuture<'static, Input> {
            let (key, transport) = (key.clone(), Arc::clone(&self.transport));
            Box::pin(async move {
                let success = probes::ask(probe, address, exec, transport).await;
                Input::Probed { key, index, run, success }
            })
        };
        probing.ask(now).into_iter().map(question).collect()
    }

    fn perform(&mut self, key: &Key, write: &Write, now: Moment) -> Vec<Call> {
        let Some(Known { pod, progress, address, .. }) = self.known.get_mut(key) else {
            return Vec::new();
        };
        progress.act(pod, write, now);
        let stamp = self.clock.stamp(now);
        let path = format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name);
        let report = |status: Value| {
            let body = json!({ "metadata": { "uid": *pod.key }, "status": status });
            Call::strategic_merge(format!("{path}/status"), body)
        };
        let call = match write {
            Write::Bind(node) => bind(pod, node),
            Write::Unschedulable(reason) => report(status::unschedulable(pod, reason, &stamp)),
            Write::NotReady => report(status::not_ready(pod, &stamp)),
            Write::Report(stage) => {
                let address = *address.get_or_insert_with(|| self.addresses.take());
                let host = match &pod.binding {
                    Binding::Bound(node) => self.nodes.address(node),
                    Binding::Unbound(_) | Binding::NotOurs => Ipv4Addr::UNSPECIFIED,
                };
                report(Report { pod, host, address, now: &stamp }.patch(*stage))
            }
            Write::Remove => Call::delete(path, &pod.key),
            Write::Complain(complaint) => complain(pod, complaint, &stamp),
        };
        vec![call]
    }
}

fn bind(pod: &Pod, node: &str) -> Call {
    let body = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": { "namespace": pod.namespace, "name": pod.name, "uid": *pod.key },
        "target": { "apiVersion": "v1", "kind": "Node", "name": node },
    });
    Call::create(format!("/api/v1/namespaces/{}/pods/{}/binding", pod.namespace, pod.name), body)
}

fn complain(pod: &Pod, complaint: &str, now: &str) -> Call {
    // The name follows from pod and text: after a restart the same complaint is not made twice.
    let name = format!("{}.{:016x}", pod.name, chance::draw(0, &format!("{}/{complaint}", pod.key)));
    let body = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": { "namespace": pod.namespace, "name": name },
        "involvedObject": {
            "apiVersion": "v1", "kind": "Pod",
            "namespace": pod.namespace, "name": pod.name, "uid": *pod.key,
        },
        "type": "Warning", "reason": "BadAnnotation", "message": complaint,
        "source": { "component": COMPONENT }, "reportingComponent": COMPONENT,
        "firstTimestamp": now, "lastTimestamp": now, "count": 1,
    });
    Call::create(format!("/api/v1/namespaces/{}/events", pod.namespace), body)
}

/// Addresses that no two pods have at once.
struct Addresses {
    network: Ipv4Addr,
    used: BTreeSet<Ipv4Addr>,
    last: u32,
}

impl Default for Addresses {
    fn default() -> Self {
        Addresses { network: POD_NETWORK, used: BTreeSet::new(), last: 0 }
    }
}

impl Addresses {
    fn take(&mut self) -> Ipv4Addr {
        // Ends: an API server never holds as many pods as there are addresses.
        loop {
            self.last = (self.last + 1) % POD_ADDRESSES;
            let address = Ipv4Addr::from_bits(self.network.to_bits() | self.last);
            if self.used.insert(address) {
                return address;
            }
        }
    }
}

#[cfg(test)]
#[path = "pods_tests.rs"]
mod tests;
