//! Writes that are not answered again and again. The API server gives an admission webhook twice the time that we give the API
//! server, so one that hangs is never named to us: all there is to see is that the same write is lost each time.

use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};

use sts_plus_planner::plan::{Action, Object, Verb};
use sts_plus_planner::reason::Refusal;

use crate::shell::api::ApiError;

/// After so many consecutive writes without an answer it is reported: the first ones may be an API server that restarts.
pub const UNANSWERED_REPORTED_AFTER: u32 = 3;

/// How many consecutive writes of one sort were not answered, by their object. Kept in memory only: losing it delays a
/// message.
#[derive(Debug, Default)]
pub(super) struct Streaks(HashMap<(Object, Discriminant<Verb>), u32>);

impl Streaks {
    /// Takes in what was answered; any answer ends a streak.
    pub(super) fn note<T>(&mut self, action: &Action, answer: &Result<T, ApiError>) {
        let sort = (action.object().clone(), discriminant(action.verb()));
        if matches!(answer, Err(ApiError::Unanswered(_))) {
            let streak = self.0.entry(sort).or_default();
            *streak = streak.saturating_add(1);
        } else {
            self.0.remove(&sort);
        }
    }

    /// Drops what is known of objects that are not there any more.
    pub(super) fn retain(&mut self, is_there: impl Fn(&Object) -> bool) {
        self.0.retain(|(object, _), _| is_there(object));
    }

    /// What to report of a write that failed: a refusal, or that it has not been answered for some time.
    pub(super) fn refusal(&self, action: &Action, error: &ApiError) -> Option<Refusal> {
        let streak = self.0.get(&(action.object().clone(), discriminant(action.verb())));
        let lasts = streak.is_some_and(|streak| *streak >= UNANSWERED_REPORTED_AFTER);
        error.refusal().or_else(|| error.silence().filter(|_| lasts))
    }
}
