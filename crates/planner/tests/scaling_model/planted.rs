//! Rules that a model can be without. The product has all of them: each is removed here, from the executor's part of the model or
//! from what the planner is shown and decides.

/// A rule that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    /// Rule A: a write to the set insists on no version.
    NoPrecondition,
    /// Rule B: a pass begins before the view shows our own writes.
    OwnWritesUnseen,
    /// Rule C: a start begins with the view from before.
    StaleStart,
    /// Rule D: after a lost answer nothing is read.
    NoReadAfterUnknown,
    /// A pod is called in the pass that finds that it leaves, before that is remembered.
    CalledFirst,
    /// The UID of the pod is not compared before the replicas are lowered.
    UidNotCompared,
    /// The restarts of its containers are not.
    RestartsNotCompared,
    /// Pods are looked at in the cache, not in the API server.
    LookedAtCache,
    /// The replicas are lowered in the pass that has seen the answer, before the status says so.
    LoweredUnremembered,
    /// A pod that is wanted again is forgotten, and its call not taken back.
    CancelForgotten,
    /// The set does not say which pods leave.
    NotAnnounced,
    /// The key of a pod is in the lock while it is called.
    KeyNotRemoved,
    /// A key does not come back before the replicas are raised.
    KeyNotRestored,
    /// A drained pod is deleted whatever became of it.
    DeletedUnchecked,
    /// When containers were started, and have ended, is not looked at.
    ExitTimesNotCompared,
    /// Nothing is told to keep the claims of pods that are removed by force.
    ClaimsNotRetained,
    /// A pod that is removed by force counts as drained.
    ForcedAsDrained,
}
