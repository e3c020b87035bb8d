//! An exhaustive check of how versions share the ordinals of a place, on the real decision.
//!
//! ```text
//!   users, accidents, StatefulSet controllers, kubelets ──> sets, pods ──> what the operator has seen of each, of any age
//!                                                              ^                             v
//!                                                              +── writes, also late ── ranges::next (the real one)
//! ```
//!
//! The explorer visits every state of a place with three ordinals and three versions, breadth first. The operator sees sets and pods
//! through two caches that lag independently, may crash at any time, and a write that it has sent may land any time later, if its set is
//! still at the version that it carries. A StatefulSet controller acts on a spec that it saw a while ago, until it has observed the
//! present one. A person changes which version is asked for and how many ordinals there are, deletes a pod, or a whole set whose pods
//! end later.
//!
//! What is promised: no ordinal ever has pods in two sets, on their way out or not. Then each rule that this rests on is taken away, and
//! some history breaks it.

#[cfg(test)]
mod checks;
#[cfg(test)]
mod state;
