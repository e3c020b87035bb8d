//! An exhaustive check of the safety rules that the executor adds to the planner's decisions.
//!
//! ```text
//!   users, accidents, kubelets          watch streams, each up to K events late
//!              |                                        |
//!              v                                        v
//!         API objects  ------------------------>  the operator's view
//!              ^                                        |
//!              |  lands / lost answer / dropped         v
//!              +------------------------------  rollout_group::plan (the real one)
//! ```
//!
//! The explorer visits every state that a small group can get into, breadth first. Guarantee: pods that are down
//! because we deleted them while they served are never more than the budget of their zone, and never in two
//! zones; and no deletion is sent on a view that misses what happened since pods could no longer be followed, where the
//! planner would not have allowed it on the pods as they are. Five rules of the executor make it hold:
//!
//! - A: every deletion carries UID and resourceVersion;
//! - B: nothing is planned before the view shows our acknowledged deletions, by UID terminating or gone;
//! - C: a start begins with a consistent view;
//! - D: after an answer that was lost, a consistent read comes before the next plan;
//! - a stale view is confirmed: while pods cannot be followed, a consistent read comes before each deletion.
//!
//! With all of them no state breaks the guarantee; without any one of them the explorer finds a history that does.
//!
//! What no rule can stop is a request that lands after its sender has moved on: it was sent, its sender died or
//! stopped waiting, the state was read consistently and a new plan made, and only then it lands. Its precondition
//! speaks of the one pod it deletes, and that pod has not changed. It does no harm as long as the new plan wants
//! the same pod, which it does until a user changes a spec in between (or, where more than one pod may be down, a
//! pod of another zone fails). Then the guarantee is exceeded by the pods of that one batch and by no other. The
//! last tests state this window exactly; it is the same for two operators that work at once without a lease.

#[cfg(test)]
mod checks;
#[cfg(test)]
mod explore;
#[cfg(test)]
mod state;
#[cfg(test)]
mod view;
