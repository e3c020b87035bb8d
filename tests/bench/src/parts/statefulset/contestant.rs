//! Who rolls the sets.

use anyhow::Result;
use clap::ValueEnum;

use super::{Course, SILENCE};
use crate::bed::{Bed, FIELD, STATEFULSET_CONTROLLER};
use crate::operator::Operator;
use crate::workload::{Delays, Group, RolledBy};

/// One controller under measurement, with its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Contestant {
    /// sts-plus
    Ours,
    /// kube-controller-manager with its default flags
    Default,
    /// kube-controller-manager with its limiter raised
    Raised,
}

impl Contestant {
    pub(crate) const ALL: [Self; 3] = [Self::Ours, Self::Default, Self::Raised];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Default => "kube-controller-manager",
            Self::Raised => "kube-controller-manager, limiter raised",
        }
    }

    /// Starts it in the place of whoever filled the cluster and waits until it does its work and is at rest.
    pub(crate) async fn start(self, bed: &mut Bed, course: &Course) -> Result<Running> {
        bed.plane.stop_controller_manager().await;
        let running = match self {
            Self::Ours => {
                let identity = bed.controller_identity("operator").await?;
                let arguments = ["--controllers", "statefulset", "--leader-elect=false"];
                let operator = Operator::start_with(bed, &course.binary, &identity, &arguments)?;
                operator.ready().await?;
                Running { pid: operator.pid(), user: identity.user().to_owned(), _operator: Some(operator) }
            }
            Self::Default => theirs(bed, course, &[]).await?,
            Self::Raised => {
                let flags =
                    ["--kube-api-qps=1000", "--kube-api-burst=2000", "--concurrent-statefulset-syncs=50"];
                theirs(bed, course, &flags).await?
            }
        };
        // A controller that makes a pod has seen all the others.
        let probe = Group {
            namespace: FIELD.to_owned(),
            name: "probe".to_owned(),
            zones: 1,
            replicas: 1,
            delays: Delays::SHORT,
            rolled_by: RolledBy::ItsController,
        };
        bed.create(&probe).await?;
        bed.silent(&running.user, SILENCE).await?;
        Ok(running)
    }
}

async fn theirs(bed: &Bed, course: &Course, flags: &[&str]) -> Result<Running> {
    let flags: Vec<_> = flags.iter().map(ToString::to_string).collect();
    let controllers = ["statefulset-controller".to_owned()];
    bed.plane.start_controller_manager(&course.assets, &controllers, &flags).await?;
    Ok(Running { pid: bed.controller_manager()?, user: STATEFULSET_CONTROLLER.to_owned(), _operator: None })
}

/// A contestant at work.
pub(crate) struct Running {
    pub(crate) pid: u32,
    /// Who it is to the API server.
    pub(crate) user: String,
    // Stops with this; kube-controller-manager stops with its control plane.
    _operator: Option<Operator>,
}
