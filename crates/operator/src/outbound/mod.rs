//! Calls to whom the user names.
//!
//! ```text
//!   Question --> endpoint (url) --> slots (served in turn) --> credentials (Secrets) --> call (address, TLS, HTTP)
//!                                                                                            |
//!   Response <-- secrets hidden <-- reply (class) <-- reading (what decides, as it comes) <--+
//! ```
//!
//! Nothing here is trusted: not the address (it may lead into the node or the cloud's metadata), not the server
//! (it may hang, redirect, answer without end or repeat a credential). So each call has a time limit, a size limit
//! and a slot of its namespace, keeps no more of an answer than decides, follows no redirect and connects
//! only to an address that was checked; the answer is cut, and searched for what the Secrets hold, before anybody else sees it.

mod call;
mod credentials;
mod dial;
pub mod endpoint;
mod hook;
mod hook_http;
mod json;
mod prober;
mod prometheus;
pub mod promql;
mod reach;
mod reading;
mod reply;
mod secrets;
mod slots;
mod tls;

#[cfg(test)]
mod test_server;

pub use dial::{Dial, Dialled, Stream, Tcp};
pub use hook::HookCaller;
pub use prober::Prober;
pub use prometheus::{Prometheus, Question, Response};
pub use reach::Reach;
