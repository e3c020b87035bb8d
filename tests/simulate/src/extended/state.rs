//! The ExtendedStatefulSets as they really are, and what has been of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use sts_plus_api::extended::Group;
use sts_plus_api::keys;

use crate::faults::{Fault, Plan};
use crate::truth::{BEHIND, Past, Pod, Set, Truth, text};

/// What an object has been.
#[derive(Clone, Debug)]
pub struct Object {
    pub name: String,
    pub group: Group,
    /// All of it, as it is or was last.
    pub object: Value,
    /// Whether it is gone, or on its way.
    pub gone: bool,
    /// The zones that are asked for, over time.
    pub zones: Past<Vec<String>>,
    /// The hash of the version that is asked for, over time, as its status has it.
    pub wanted: Past<String>,
    /// The hash of the version that has failed, over time.
    pub failed: Past<String>,
    /// The templates that it has had, without what makes no version.
    pub templates: BTreeSet<String>,
    /// The hashes that its sets have had, without those of data.
    pub bases: BTreeSet<String>,
    /// The hashes of data that its sets have had.
    pub data: BTreeSet<String>,
    /// The index of each zone.
    pub indexes: BTreeMap<String, String>,
}

/// All objects, with what belongs to them.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The objects by UID, those that are gone included.
    pub objects: BTreeMap<String, Object>,
    /// The UID of the object of each set, by the UID of the set, gone or not.
    pub sets: BTreeMap<String, String>,
    /// When a set last met the rule of its object, by UID.
    pub met: BTreeMap<String, Duration>,
    /// When a set last had a pod that serves, by UID.
    pub served: BTreeMap<String, Duration>,
    /// Since when pods serve, by UID.
    serving: BTreeMap<String, Duration>,
    /// Every state of the data of each ConfigMap.
    configs: BTreeMap<String, BTreeSet<String>>,
    /// When the data of each ConfigMap last became what they had never been.
    renewed: BTreeMap<String, Duration>,
    /// The object of each Service, by name.
    pub services: BTreeMap<String, String>,
    /// Whether nobody can say for how long pods have been Ready by the operators' clocks.
    ignores_time: bool,
}

/// What a set carries of its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    pub number: u64,
    /// The hash of the content.
    pub hash: String,
    /// The name of the zone and its index.
    pub zone: Option<(String, String)>,
}

impl State {
    /// Nothing yet.
    pub fn new(plan: &Plan) -> Self {
        let ignores_time = plan.has(Fault::SkewedClock) || plan.has(Fault::SteppedClock);
        Self { ignores_time, ..Self::default() }
    }

    /// The object of a set.
    pub fn object_of(&self, set: &str) -> Option<(&String, &Object)> {
        let uid = self.sets.get(set)?;
        self.objects.get_key_value(uid)
    }

    /// Takes in an ExtendedStatefulSet.
    pub fn take_object(&mut self, now: Duration, object: &Value, deleted: bool) {
        let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
        let Some(group) = Group::ALL.into_iter().find(|group| object["apiVersion"] == group.api_version())
        else {
            return;
        };
        let zones: Vec<String> = spec["zones"].as_array().into_iter().flatten().map(text).collect();
        let (wanted, failed) = (text(&status["updateHash"]), text(&status["failedVersion"]["hash"]));
        // An object adopts the sets that one of its name has left behind, with their contents.
        let name = text(&metadata["name"]);
        let former = self.objects.values().filter(|known| known.group == group && known.name == name);
        let templates: BTreeSet<_> = former.flat_map(|known| known.templates.iter().cloned()).collect();
        let known = self.objects.entry(text(&metadata["uid"])).or_insert_with(|| Object {
            name,
            group,
            object: Value::Null,
            gone: false,
            zones: Past::new(now, zones.clone()),
            wanted: Past::new(now, wanted.clone()),
            failed: Past::new(now, failed.clone()),
            templates,
            bases: BTreeSet::new(),
            data: BTreeSet::new(),
            indexes: BTreeMap::new(),
        });
        known.zones.put(now, zones);
        known.wanted.put(now, wanted);
        known.failed.put(now, failed);
        let mut template = spec["template"].clone();
        template["spec"]["replicas"] = Value::Null;
        known.templates.insert(template.to_string());
        known.gone = deleted || metadata["deletionTimestamp"].is_string();
        known.object = object.clone();
    }

    /// Takes in the data of a ConfigMap.
    pub fn take_config(&mut self, now: Duration, name: &str, object: &Value, deleted: bool) {
        let data = if deleted { Value::Null } else { object["data"].clone() };
        if self.configs.entry(name.to_owned()).or_default().insert(data.to_string()) && !deleted {
            self.renewed.insert(name.to_owned(), now);
        }
    }

    /// The object of this name that is there.
    pub fn named(&self, name: &str) -> Option<(&String, &Object)> {
        self.objects.iter().find(|(_, object)| object.name == name && !object.gone)
    }

    /// Whether data that are new have not made another version yet.
    pub fn lags_behind_data(&self, object: &Object) -> bool {
        let renewed = self.renewed.iter().filter(|(config, _)| config.starts_with(&object.name));
        renewed.map(|(_, at)| *at).max().is_some_and(|at| object.wanted.since() < at)
    }

    pub fn take_service(&mut self, name: &str, object: &Value, deleted: bool) {
        match controller(object).filter(|_| !deleted) {
            Some(owner) => self.services.insert(name.to_owned(), owner),
            None => self.services.remove(name),
        };
    }

    pub fn take_pod(&mut self, now: Duration, pod: &Pod, deleted: bool) {
        if pod.serves() && !deleted {
            self.serving.entry(pod.uid.clone()).or_insert(now);
        } else {
            self.serving.remove(&pod.uid);
        }
    }

    /// Takes in a set of an object; what it carries.
    pub fn take_set(&mut self, uid: &str, object: &Value) -> Option<Carried> {
        match controller(object) {
            Some(owner) if self.objects.contains_key(&owner) => self.sets.insert(uid.to_owned(), owner),
            _ => self.sets.remove(uid),
        };
        let (_, known) = self.object_of(uid)?;
        carried(known.group, object)
    }

    /// How many different data the ConfigMaps of an object can have had together. Without the one that pods need there is no
    /// version; the other one may have been missing.
    pub fn states_of_data(&self, name: &str) -> usize {
        let own = self.configs.iter().filter(|(config, _)| config.starts_with(name));
        let states = own.map(|(config, states)| {
            let present = states.iter().filter(|state| *state != "null").count();
            present + usize::from(!config.ends_with("-settings"))
        });
        states.product()
    }

    /// Whether a pod of a set has served for so long that whoever acts must have seen it.
    pub fn is_known_to_serve(&self, now: Duration, truth: &Truth, name: &str) -> bool {
        let serving = truth.pods_of(name).filter(|pod| pod.serves());
        serving.filter_map(|pod| self.serving.get(&pod.uid)).any(|since| *since + BEHIND <= now)
    }

    /// Notes which sets meet the rules of their objects, and which have a pod that serves.
    pub fn note_promoted(&mut self, now: Duration, truth: &Truth) {
        for (name, set) in &truth.sets {
            if truth.pods_of(name).any(Pod::serves) {
                self.served.insert(set.uid.clone(), now);
            }
            if self.object_of(&set.uid).is_some_and(|(_, object)| self.meets(now, truth, object, name, set)) {
                self.met.insert(set.uid.clone(), now);
            }
        }
    }

    /// Whether enough pods of a set are Ready for long enough, and somebody has approved it where that is needed.
    fn meets(&self, now: Duration, truth: &Truth, object: &Object, name: &str, set: &Set) -> bool {
        let rule = &object.object["spec"]["updateStrategy"]["blueGreen"];
        let soak = if self.ignores_time { 0 } else { rule["soakSeconds"].as_u64().unwrap_or(0) };
        // A pod is Ready when its node says so, in whole seconds; the operator hears of it later.
        let soak = Duration::from_secs(soak.saturating_sub(1));
        let has_soaked = |pod: &&Pod| {
            self.serving.get(&pod.uid).is_some_and(|since| soak.is_zero() || *since + soak <= now)
        };
        let is_wanted = |pod: &&Pod| pod.ordinal().is_some_and(|ordinal| ordinal < set.replicas);
        let ready =
            truth.pods_of(name).filter(|pod| pod.serves()).filter(is_wanted).filter(has_soaked).count();
        let needed = match (&rule["minReady"], object.group) {
            (Value::Number(count), _) => count.as_u64().unwrap_or(1),
            (Value::String(share), _) => {
                let percent: u64 = share.trim_end_matches('%').parse().unwrap_or(100);
                (set.replicas * percent / 100).max(1)
            }
            (_, Group::Fissile) => 1,
            (_, Group::StsPlus) => set.replicas,
        };
        let approved = || {
            let number = carried(object.group, &set.object).map(|carried| carried.number).unwrap_or_default();
            let approval = text(&object.object["metadata"]["annotations"][keys::APPROVE]);
            approval.starts_with(&format!("promote-{number}-"))
        };
        ready as u64 >= needed.min(set.replicas) && (rule["promotion"] != "Manual" || approved())
    }
}

/// The UID of whoever controls an object.
pub fn controller(object: &Value) -> Option<String> {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten().find(|owner| owner["controller"] == true).map(|owner| text(&owner["uid"]))
}

/// What a set carries of its version.
pub fn carried(group: Group, set: &Value) -> Option<Carried> {
    let (labels, annotations) = (&set["metadata"]["labels"], &set["metadata"]["annotations"]);
    let name = labels[group.key(keys::AZ_NAME)].as_str();
    Some(Carried {
        number: annotations[group.key(keys::VERSION)].as_str()?.parse().ok()?,
        hash: text(&annotations[group.key(keys::CONTENT_HASH)]),
        zone: name.map(|name| (name.to_owned(), text(&labels[group.key(keys::AZ_INDEX)]))),
    })
}
