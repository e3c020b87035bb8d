//! Changes to fields of a StatefulSet that the API server does not let anybody change: what each needs, the lightest way first.
//!
//! ```text
//! spec as it is ─┐
//!                ├─> classify ─> ExpandClaims: claims are grown in place
//! as it shall be ┘               Recreate:     and the object is created again around its pods, from a record
//!                                Rotate:       it needs other pods, or other volumes: refused
//! ```
//!
//! The object is deleted only when its successor is stored as a record, so that a crash in between loses nothing. Its pods and
//! claims are left as they are (orphaned), and adopted by the successor.

pub mod canonical;
pub mod claim;
pub mod classify;
pub mod manifest;
pub mod record;
pub mod sizes;
