//! What the real planner makes of an operator's view.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use sts_plus_planner::health::Member;
use sts_plus_planner::pod::{Phase, PodRow, Waiting};
use sts_plus_planner::rollout_group::{Memory, World, plan};
use sts_plus_planner::selector::{Labels, Selector};
use sts_plus_planner::set::{SetRow, Steering, Strategy};

use crate::state::{Health, Model, Operator, Pod, Request};

const REVISIONS: [&str; 2] = ["old", "new"];

/// The real planner, with its answers remembered: views repeat far more often than states.
pub(crate) struct Planner {
    pods_per_zone: usize,
    budget: u8,
    answers: BTreeMap<(Vec<Pod>, Vec<u8>), Vec<Request>>,
}

impl Planner {
    pub(crate) fn new(model: &Model) -> Self {
        Self { pods_per_zone: model.pods_per_zone, budget: model.budget, answers: BTreeMap::new() }
    }

    /// The deletions that the planner wants, with the preconditions it gave them.
    pub(crate) fn deletions(&mut self, view: &Operator) -> Vec<Request> {
        let key = (view.pods.clone(), view.targets.clone());
        if let Some(known) = self.answers.get(&key) {
            return known.clone();
        }
        let answer = self.ask(&view.pods, &view.targets);
        self.answers.insert(key, answer.clone());
        answer
    }

    fn ask(&self, pods: &[Pod], targets: &[u8]) -> Vec<Request> {
        let zones = pods.chunks(self.pods_per_zone).zip(targets).enumerate();
        let members = zones.map(|(zone, (pods, target))| self.member(zone, pods, *target)).collect();
        let world = World {
            group: "web".into(),
            members,
            overlaps: Vec::new(),
            unobserved_since: BTreeMap::new(),
            memory: Memory::default(),
            unconfirmed: None,
        };
        let plan = plan(&world, Timestamp::UNIX_EPOCH);
        let actions = plan.plan.steps.iter().flat_map(|step| &step.writes);
        let deletions = actions.filter(|action| action.disrupts()).map(|action| Request {
            slot: self.slot(&action.object().name),
            uid: action.precondition().uid.parse().unwrap(),
            version: action.precondition().resource_version.as_ref().unwrap().parse().unwrap(),
        });
        deletions.collect()
    }

    fn slot(&self, name: &str) -> usize {
        let mut numbers = name.split('-').skip(1).map(|number| number.parse::<usize>().unwrap());
        numbers.next().unwrap() * self.pods_per_zone + numbers.next().unwrap()
    }

    fn member(&self, zone: usize, pods: &[Pod], target: u8) -> Member {
        let name = format!("web-{zone}");
        let labels: Arc<Labels> = Arc::new([("app".into(), "web".into())].into());
        let set = SetRow {
            namespace: "prod".into(),
            name: name.as_str().into(),
            uid: name.as_str().into(),
            resource_version: "1".into(),
            generation: 1,
            observed_generation: 1,
            deleting: false,
            group: Some("web".into()),
            steering: Steering {
                max_unavailable: Some(self.budget.to_string().into()),
                ..Steering::default()
            },
            replicas: u32::try_from(pods.len()).unwrap(),
            first_ordinal: 0,
            is_ordered: false,
            min_ready: SignedDuration::ZERO,
            strategy: Strategy::OnDelete,
            selector: Selector::labels([("app", "web")]),
            template_labels: (*labels).clone(),
            current_revision: Some(REVISIONS[0].into()),
            update_revision: Some(REVISIONS[usize::from(target)].into()),
            counted: true,
            child: None,
            controller: None,
        };
        let rows =
            pods.iter().enumerate().filter(|(_, pod)| pod.health != Health::Gone).map(|(ordinal, pod)| {
                let serving = matches!(pod.health, Health::Ready | Health::Terminating);
                Arc::new(PodRow {
                    namespace: "prod".into(),
                    name: format!("{name}-{ordinal}").into(),
                    uid: pod.uid.to_string().into(),
                    resource_version: pod.version.to_string().into(),
                    owner: name.as_str().into(),
                    revision: Some(REVISIONS[usize::from(pod.revision)].into()),
                    labels: Arc::clone(&labels),
                    phase: Phase::Running,
                    ready_since: serving.then_some(Timestamp::UNIX_EPOCH),
                    terminating: pod.health == Health::Terminating,
                    waiting: (pod.health == Health::Broken).then_some(Waiting::CrashLoopBackOff),
                    terminated_restarts: None,
                    running: !matches!(pod.health, Health::Starting | Health::Broken),
                    named: true,
                    numbered: false,
                    ip: None,
                    zones: None,
                    volumes: Arc::default(),
                })
            });
        Member::new(Arc::new(set), rows)
    }
}
