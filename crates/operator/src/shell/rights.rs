//! Rights that the API server has denied. Where a write only informs, the rollout goes on without it; the denied right is
//! reported once and retried more and more rarely, each time by one request for all that would use it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use tokio::time::Instant;

use super::api::CALL_TIMEOUT;
use super::metrics::PermissionLabels;

/// How long a right is taken for denied at first, doubled with each denial: an API server that has just started denies what
/// it grants a few seconds later, when it has read the roles.
pub const FIRST_RETRY_AFTER: Duration = Duration::from_secs(2);

/// How long a right is taken for denied at most: an administrator who grants it sees it used within this time, and one who
/// does not has six refused requests an hour in the audit log.
pub const LAST_RETRY_AFTER: Duration = Duration::from_mins(10);

/// How long one attempt keeps others from trying a denied right: longer than its request may take, so that an attempt whose
/// answer is not noted, because its term has ended or nothing was answered, is left to another.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(2 * CALL_TIMEOUT.as_secs());

/// Denied rights that are remembered; beyond that those of which it is time to ask again are dropped.
const MAX_REMEMBERED: usize = 4096;

/// A verb on a resource of a namespace, as RBAC has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Right {
    pub verb: &'static str,
    /// The plural, with the subresource if there is one.
    pub resource: Cow<'static, str>,
    pub namespace: Arc<str>,
}

/// A right that is denied.
#[derive(Clone, Copy, Debug)]
struct Denial {
    until: Instant,
    /// How long that was, when it began.
    pause: Duration,
    /// Whether the pause is over and one request is finding out.
    attempted: bool,
}

/// The denied rights; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Rights {
    denied: Arc<Mutex<HashMap<Right, Denial>>>,
    gauge: Family<PermissionLabels, Gauge>,
}

impl Rights {
    /// No right is known to be denied; those that are will be shown in this series.
    pub fn new(gauge: Family<PermissionLabels, Gauge>) -> Self {
        Self { denied: Arc::default(), gauge }
    }

    /// When a denied right may be asked for again; `None` where it may be used.
    pub fn denied_until(&self, right: &Right) -> Option<Instant> {
        self.denied().get(right).map(|denial| denial.until).filter(|until| *until > Instant::now())
    }

    /// Whether a right may be used now. Of a denied one that is due again only the first caller hears so, until the answer to
    /// its request is noted.
    pub fn attempt(&self, right: &Right) -> bool {
        let now = Instant::now();
        let mut denied = self.denied();
        let Some(denial) = denied.get_mut(right) else { return true };
        let is_due = denial.until <= now;
        if is_due {
            (denial.until, denial.attempted) = (now + ATTEMPT_LIMIT, true);
        }
        is_due
    }

    /// Remembers that a right was denied, and reports it the first time.
    pub fn deny(&self, right: &Right, words: &str) {
        let now = Instant::now();
        let mut denied = self.denied();
        if denied.len() >= MAX_REMEMBERED {
            denied.retain(|_, denial| denial.until > now);
        }
        let pause = match denied.get(right) {
            // Requests that were under way together are one denial.
            Some(denial) if denial.until > now && !denial.attempted => return,
            Some(denial) => (denial.pause * 2).min(LAST_RETRY_AFTER),
            None => FIRST_RETRY_AFTER,
        };
        if denied.insert(right.clone(), Denial { until: now + pause, pause, attempted: false }).is_none() {
            let Right { verb, resource, namespace } = right;
            tracing::warn!(
                %namespace,
                verb,
                %resource,
                "a permission is missing; what needs it is not done: {words}"
            );
            self.gauge.get_or_create(&labels(right)).set(1);
        }
    }

    /// Notes that a right was used.
    pub fn grant(&self, right: &Right) {
        if self.denied().remove(right).is_some() {
            let Right { verb, resource, namespace } = right;
            tracing::info!(%namespace, verb, %resource, "a permission that was missing has been granted");
            self.gauge.remove(&labels(right));
        }
    }

    fn denied(&self) -> MutexGuard<'_, HashMap<Right, Denial>> {
        self.denied.lock()
    }
}

fn labels(right: &Right) -> PermissionLabels {
    PermissionLabels {
        verb: right.verb,
        resource: right.resource.clone(),
        namespace: Arc::clone(&right.namespace),
    }
}

#[cfg(test)]
#[path = "rights_tests.rs"]
mod tests;
