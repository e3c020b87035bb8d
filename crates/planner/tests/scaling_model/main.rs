//! An exhaustive check of scaling with hooks, on the real planner.
//!
//! ```text
//!  users, autoscalers, accidents,            what was seen, of any age; pods also as they are
//!  kubelets, StatefulSet controller                      |
//!              |                                         v
//!              v                             scaling::plan (the real one)
//!     set, policy, pods, applications                    |
//!              ^                                         v
//!              +---- writes one by one: answered, refused, lost, late ----+---- calls: done, pending, failed, late
//! ```
//!
//! The explorer visits every state of a small set, breadth first, and prints the shortest history into one that breaks a
//! [guarantee](guarantees::Guarantee). The operator may crash before and after each write. What it has in a cache may be from any
//! time; a pod that it reads is as it is. Of the executor it has the rules A to D: every write insists on a version, and no pass begins
//! before its own writes are seen, or read where they were not answered.
//!
//! Without a fence this is promised, and holds: at the last look before the replicas are lowered, every pod that is removed was drained,
//! unless `Force` gave it up; what is relied on was remembered before; a pod that stays is called back. Not promised, and not so:
//!
//! - A pod may restart, or be replaced, between that look and its end. No precondition on one object prevents that.
//! - A drained pod that is gone is not waited for, also where it was restarted and has served before it was evicted: nothing that is left of
//!   it says so. One eviction alone does no harm.
//! - A write that was sent and not answered may land when its pod is called again, or called back, until the set is written to: then its version is
//!   gone. What it has lowered counts as lowered by somebody else, and is restored.
//!
//! With the lock nothing starts in the place of a drained pod, and no claim is deleted without a drain, unless the node is behind:
//!
//! - Without the restart rule a drained pod may restart in its place until it is deleted. That is seen, and its hook runs again; not so where it is
//!   evicted before anybody looks.
//! - A node that shows a pod a key which is not in the lock any more lets it start. That is seen, and its hook runs again, unless it starts after the
//!   last look.
//!
//! A call that is given up, or whose operator has crashed, does not reach its pod any more: a call over HTTP has no other fence than its
//! connection.
//!
//! Then each rule is removed, one by one, and some history breaks a guarantee: see [`planted`].

#[cfg(test)]
mod checks;
#[cfg(test)]
mod explore;
#[cfg(test)]
mod guarantees;
#[cfg(test)]
mod lock_checks;
#[cfg(test)]
mod moves;
#[cfg(test)]
mod operator;
#[cfg(test)]
mod planted;
#[cfg(test)]
mod rename;
#[cfg(test)]
mod state;
#[cfg(test)]
mod view;
