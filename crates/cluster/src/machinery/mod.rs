//! What an API server does with objects, whatever their kind.
//!
//! ```text
//! request ──> service ──> read ───────────────────────────> store ──> watch ──> show ──> answer
//!                └──────> write ──> admission ──> delete ──┘
//!                           └── schema  <-  patch, apply
//! ```
//!
//! [`store`] keeps objects and their past, [`service`] turns requests into reads and writes of it. [`schema`] knows
//! the shape of a kind, [`patch`] changes an object as a client asks, [`apply`] does so by who owns which field. These
//! three are pure: JSON in, JSON out, time handed in.

pub mod admission;
pub mod answer;
pub mod apply;
#[cfg(test)]
mod arbitrary;
pub mod bell;
pub mod chronicle;
pub(crate) mod decode;
pub(crate) mod delete;
pub(crate) mod discovery;
pub(crate) mod draft;
pub mod field_selector;
mod go;
pub(crate) mod hollow;
pub mod journal;
pub(crate) mod json;
pub(crate) mod label_rules;
pub mod logs;
pub(crate) mod object;
pub(crate) mod openapi;
pub(crate) mod packed;
pub mod patch;
#[cfg(feature = "persist")]
pub mod persist;
pub(crate) mod protobuf;
pub(crate) mod read;
pub(crate) mod request;
pub(crate) mod reviews;
pub(crate) mod scale;
pub mod schema;
pub mod selector;
pub mod service;
pub(crate) mod show;
pub(crate) mod state;
pub mod store;
pub mod stored;
pub(crate) mod table;
pub mod watch;
pub(crate) mod write;
