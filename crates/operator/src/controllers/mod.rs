//! The controllers, one file each: world in, plan out.

pub mod rollout_group;
