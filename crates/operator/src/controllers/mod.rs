//! The controllers, one file each: world in, plan out.
