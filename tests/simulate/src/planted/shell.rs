//! Faults of the shell around a controller.

use sts_plus_operator::controllers::extended::ExtendedStatefulSets;
use sts_plus_operator::controllers::phased_rollout::PhasedRollouts;
use sts_plus_operator::controllers::rollout_group::RolloutGroups;
use sts_plus_operator::controllers::scaling::ScalingPolicies;
use sts_plus_operator::controllers::statefulset::StatefulSets;
use sts_plus_operator::runtime::{
    Concern, Controller, End, Lanes, Learned, Learning, Measured, Pass, Planned, Registration, Voice,
};
use sts_plus_operator::shell::api::Kind;
use sts_plus_operator::shell::cache::{Store, Touched};
use sts_plus_operator::shell::executor::Halt;
use sts_plus_operator::shell::metrics::Metrics;
use sts_plus_planner::phased_rollout::query::GateId;

use super::{SET_WORKERS, WORKERS};

/// All controllers, which do not retry what has failed.
pub fn forgetful() -> [Registration; 5] {
    [
        Registration::new("extended-statefulset", WORKERS, |_| Forgetful(ExtendedStatefulSets::default())),
        Registration::new("rollout-group", WORKERS, |_| Forgetful(RolloutGroups::default())),
        Registration::new("phased-rollout", WORKERS, |_| Forgetful(PhasedRollouts::default())),
        Registration::new("scaling", WORKERS, |_| Forgetful(ScalingPolicies::default())),
        Registration::new("statefulset", SET_WORKERS, |options| {
            Forgetful(StatefulSets::new(options.features))
        }),
    ]
}

/// A controller whose passes count as done although they have failed.
#[derive(Debug)]
struct Forgetful<C>(C);

impl<C: Controller> Controller for Forgetful<C> {
    type Key = C::Key;
    type Memory = C::Memory;
    type Detail = C::Detail;

    fn kind(&self) -> Kind {
        self.0.kind()
    }

    fn reads(&self) -> &'static [Kind] {
        self.0.reads()
    }

    fn controls_sets(&self) -> bool {
        self.0.controls_sets()
    }

    fn concerned(&self, rows: &Store, touched: &Touched) -> Vec<Concern<C::Key>> {
        self.0.concerned(rows, touched)
    }

    fn all(&self, rows: &Store) -> Vec<C::Key> {
        self.0.all(rows)
    }

    fn lanes(&self, rows: &Store, key: &C::Key) -> Option<Lanes> {
        self.0.lanes(rows, key)
    }

    fn plan(&self, pass: &mut Pass<'_, Self>) -> Option<Planned<C::Detail>> {
        let Pass { rows, key, answers, doubt, moment, .. } = *pass;
        let mut inner = Pass { rows, key, memory: &mut *pass.memory, answers, doubt, moment };
        let mut planned = self.0.plan(&mut inner)?;
        if matches!(planned.end, End::Blocked(_) | End::Halted(_)) {
            planned.end = End::Settled;
        }
        Some(planned)
    }

    fn learn(&self, learning: Learning<'_, Self>) -> Learned<C::Detail> {
        let Learning { rows, key, memory, planned, carried, refusals, answers, .. } = learning;
        let Learning { moment, answered_at, backoff, .. } = learning;
        let learned = self.0.learn(Learning {
            rows,
            key,
            memory,
            planned,
            carried,
            refusals,
            answers,
            moment,
            answered_at,
            backoff,
        });
        let has_failed = |halt: &Halt| matches!(halt, Halt::Failed(_) | Halt::Throttled { .. });
        Learned { halt: learned.halt.filter(|halt| !has_failed(halt)), retry_at: None, ..learned }
    }

    fn asking(&self, rows: &Store, key: &C::Key) -> Option<GateId> {
        self.0.asking(rows, key)
    }

    fn measure(&self, metrics: &Metrics, key: &C::Key, measured: Measured<'_, Self>) {
        let measured = match measured {
            Measured::Planned { planned, memory, is_done } => Measured::Planned { planned, memory, is_done },
            Measured::Passed { took, succeeded_at } => Measured::Passed { took, succeeded_at },
            Measured::Queried { check, verdict, took } => Measured::Queried { check, verdict, took },
            Measured::Hooked { call, result, took } => Measured::Hooked { call, result, took },
            Measured::Gone { memory } => Measured::Gone { memory },
        };
        self.0.measure(metrics, key, measured);
    }

    fn voice(&self) -> Voice {
        self.0.voice()
    }
}
