//! PhasedRollout: a rolling update that waits between pods until checks have passed.

pub mod answer;
