//! What a ScalingPolicy calls by the name `drain-broker`.

use sts_plus_operator::hooks::{HookContext, HookError, HookProgress, PodTarget, ScaleDown};

use crate::coordinator::Coordinator;

/// Has the partitions of a broker moved to the others before its pod is removed.
pub(crate) struct DrainBroker {
    coordinator: Coordinator,
}

impl DrainBroker {
    pub(crate) fn new(coordinator: Coordinator) -> Self {
        Self { coordinator }
    }
}

/// Nothing is kept between calls: the coordinator knows what is under way, and each request may be made again.
impl ScaleDown for DrainBroker {
    async fn prepare(&self, pod: &PodTarget, context: &HookContext) -> Result<HookProgress, HookError> {
        self.poll(pod, context).await
    }

    async fn poll(&self, pod: &PodTarget, _: &HookContext) -> Result<HookProgress, HookError> {
        // Asking twice to drain a broker is the same as asking once, so that one request begins the drain and follows it.
        match self.coordinator.drain(&pod.name).await? {
            0 => Ok(HookProgress::Done),
            left => Ok(HookProgress::pending(format!("{left} partitions are left on {}", pod.name))),
        }
    }

    async fn cancel(&self, pod: &PodTarget, _: &HookContext) -> Result<HookProgress, HookError> {
        self.coordinator.keep(&pod.name).await?;
        Ok(HookProgress::Done)
    }
}
