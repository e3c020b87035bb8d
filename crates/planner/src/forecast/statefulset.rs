//! The StatefulSet controller of a forecast: the planner's own, over rows.
//!
//! [`crate::statefulset::plan`] decides by templates and ControllerRevisions, of which rows have names only. So each
//! revision that a set knows by name stands for a template that has nothing but that name, and the present template is the
//! newest of them: the controller finds the revisions that it expects and stores none. Claims are not part of a forecast.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;

use super::objects::Objects;
use crate::revision;
use crate::set::{SetRow, Strategy};
use crate::statefulset::world::{
    Features, Management, Memory, Presence, Retention, RevisionRow, Rolling, SetSpec, World,
};
use crate::statefulset::{Decision, plan};

/// Keeps every revision.
const WHOLE_HISTORY: i64 = -1;

impl Objects {
    /// What the StatefulSet controller would do for a set now: writes to pods, and the status last. Nothing for a set that
    /// it cannot plan for.
    pub fn control(&self, set: &SetRow, now: Timestamp) -> Decision {
        plan(&self.world_of(set), now).unwrap_or_default()
    }

    /// The revision of a set's present template.
    pub fn template_of<'a>(&'a self, set: &'a SetRow) -> &'a str {
        let template = self.templates.get(&set.uid).map(String::as_str);
        template.or(set.update_revision.as_deref()).or(set.current_revision.as_deref()).unwrap_or(&set.name)
    }

    fn world_of(&self, set: &SetRow) -> World {
        let template = self.template_of(set);
        let pods = || self.pods.iter().filter(|pod| pod.namespace == set.namespace);
        let owned = pods().filter(|pod| pod.owner == set.uid);
        let orphans = pods().filter(|pod| pod.owner.is_empty() && set.selector.matches(|key| pod.label(key)));
        let presence = if set.deleting { Presence::Deleting } else { Presence::Alive };
        World {
            set: Arc::new(set.clone()),
            spec: Arc::new(self.set_spec(set, template)),
            pods: owned.cloned().map(Arc::new).collect(),
            orphans: orphans.cloned().map(Arc::new).collect(),
            claims: Vec::new(),
            revisions: revisions(set, template),
            memory: Memory { presence: Some(presence), ..Memory::default() },
            features: Features::default(),
        }
    }

    fn set_spec(&self, set: &SetRow, template: &str) -> SetSpec {
        let rolling = match set.strategy {
            Strategy::RollingUpdate { partition } => Some(Rolling { partition, max_unavailable: None }),
            Strategy::OnDelete | Strategy::Other(_) => None,
        };
        SetSpec {
            patch: data(set, template).into(),
            claim_templates: Arc::default(),
            service_name: Box::default(),
            management: self.management.get(&set.uid).copied().unwrap_or(Management::OrderedReady),
            rolling,
            retention: Retention::default(),
            history_limit: WHOLE_HISTORY,
            match_labels: set.template_labels.clone(),
            annotations: crate::selector::Labels::default(),
            counts: self.counts.get(&set.uid).copied().unwrap_or_default(),
            collisions: None,
        }
    }
}

/// The revisions that a set knows by name, that of the present template last.
fn revisions(set: &SetRow, template: &str) -> Vec<Arc<RevisionRow>> {
    let known = [set.current_revision.as_deref(), set.update_revision.as_deref()];
    let mut names: Vec<_> = known.into_iter().flatten().filter(|name| *name != template).collect();
    names.dedup();
    names.push(template);
    let numbered = (1..).zip(names);
    let row = |(number, name): (i64, &str)| RevisionRow {
        name: name.into(),
        uid: name.into(),
        resource_version: "1".into(),
        owner: Some(Arc::clone(&set.uid)),
        number,
        created: Timestamp::UNIX_EPOCH,
        data: data(set, name).into(),
    };
    numbered.map(row).map(Arc::new).collect()
}

/// What a revision that is known by name stores.
fn data(set: &SetRow, name: &str) -> String {
    revision::patch(&json!({ "metadata": { "labels": set.template_labels }, "spec": { "hostname": name } }))
}
