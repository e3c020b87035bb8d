//! How controllers are registered: by rows of a table, and by whoever embeds the operator.

use std::fmt;
use std::sync::Arc;

use sts_plus_planner::statefulset::world::Features;

use super::controller::Controller;
use super::{Around, Running, Runtime};
use crate::shell::cache::Extent;
use crate::shell::kinds::{Handling, Kind, Need};

/// What controllers are made with.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What the statefulset controller does besides what it always does.
    pub features: Features,
    /// The image of the operator, which the init container of a lock has, too.
    pub image: Option<Arc<str>>,
}

/// A controller in the table of those that there are.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its name on the command line, in the chart's value `controllers` and in metrics.
    pub name: &'static str,
    /// Whether it runs where nobody chooses.
    pub is_default: bool,
    /// Keys worked on at once.
    pub workers: usize,
    /// What it does, in a sentence.
    pub about: &'static str,
    /// Makes it.
    pub make: fn(&Options) -> Made,
}

/// A controller to run: that of a row, or any other.
#[derive(Clone)]
pub struct Registration {
    name: &'static str,
    workers: usize,
    make: Arc<dyn Fn(&Options) -> Made + Send + Sync>,
}

/// A controller that has not been started.
#[derive(Debug)]
pub struct Made(Box<dyn Startable>);

/// Wraps a controller of whatever type.
pub fn made(controller: impl Controller) -> Made {
    Made(Box::new(Unstarted(controller)))
}

impl Registration {
    /// A controller under a name, with so many keys worked on at once.
    pub fn new<C: Controller>(
        name: &'static str,
        workers: usize,
        make: impl Fn(&Options) -> C + Send + Sync + 'static,
    ) -> Self {
        Self { name, workers, make: Arc::new(move |options| made(make(options))) }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn make(&self, options: &Options) -> Named {
        let Made(made) = (self.make)(options);
        Named { name: self.name, workers: self.workers, made }
    }
}

impl From<&Row> for Registration {
    fn from(row: &Row) -> Self {
        Self { name: row.name, workers: row.workers, make: Arc::new(row.make) }
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A controller that has not been started, under its name.
#[derive(Debug)]
pub(crate) struct Named {
    name: &'static str,
    workers: usize,
    made: Box<dyn Startable>,
}

impl Named {
    pub(crate) fn start(self, around: &Around) -> Arc<dyn Running> {
        self.made.start(self.name, self.workers, around)
    }
}

/// What controllers read together, each kind once. Of several controllers, the kind of one's keys that not all others read is
/// optional: where it cannot be followed, that one does nothing, and those that read it besides do without. So are claims where
/// nobody here creates the pods of sets: rollout groups need none of them.
pub(crate) fn followed(controllers: &[Named]) -> Vec<Handling> {
    let readers = |kind| controllers.iter().filter(move |one| one.made.reads().contains(&kind)).count();
    let is_optional = |kind| {
        let mut keys = controllers.iter().map(|controller| controller.made.kind());
        readers(kind) < controllers.len() && keys.any(|own| own == kind)
    };
    let controls = controllers.iter().any(|controller| controller.made.controls_sets());
    let mut followed: Vec<Handling> = Vec::new();
    for kind in controllers.iter().flat_map(|controller| controller.made.reads()) {
        if followed.iter().all(|known| known.kind != *kind) {
            let handling = Handling::of(*kind);
            let need = match handling.need {
                Need::ToControlSets if controls => Need::Required,
                Need::ToControlSets => Need::Optional,
                _ if is_optional(*kind) => Need::Optional,
                need => need,
            };
            followed.push(Handling { need, ..handling });
        }
    }
    followed
}

/// How much is kept of sets and pods: as much as any of the controllers needs.
pub(crate) fn extent(controllers: &[Named]) -> Extent {
    let controls = controllers.iter().any(|controller| controller.made.controls_sets());
    if controls { Extent::Controlling } else { Extent::Steering }
}

trait Startable: fmt::Debug + Send + Sync {
    fn kind(&self) -> Kind;
    fn reads(&self) -> &'static [Kind];
    fn controls_sets(&self) -> bool;
    fn start(self: Box<Self>, name: &'static str, workers: usize, around: &Around) -> Arc<dyn Running>;
}

struct Unstarted<C>(C);

impl<C> fmt::Debug for Unstarted<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unstarted").finish_non_exhaustive()
    }
}

impl<C: Controller> Startable for Unstarted<C> {
    fn kind(&self) -> Kind {
        self.0.kind()
    }

    fn reads(&self) -> &'static [Kind] {
        self.0.reads()
    }

    fn controls_sets(&self) -> bool {
        self.0.controls_sets()
    }

    fn start(self: Box<Self>, name: &'static str, workers: usize, around: &Around) -> Arc<dyn Running> {
        Arc::new(Runtime::new(name, workers, self.0, around))
    }
}
