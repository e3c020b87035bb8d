//! A real Kubernetes control plane for tests.
//!
//! A test binary owns one [`ControlPlane`]: etcd, kube-apiserver and kube-controller-manager on free
//! loopback ports, with everything they write in one temporary folder. It hands out identities, each a
//! user of its own that may do nothing until it is granted something, so that the requests of one
//! scenario or component can be counted from the server's audit log.
//!
//! ```text
//! Assets ──> ControlPlane ──> Identity ──> kube::Client ──(faults)──> code under test
//!                │ Process                                                  │
//!                └─ audit log <──────────── requests(&identity) ────────────┘
//! ```
//!
//! Nothing outlives the test: dropping the control plane stops its processes, and should the test die
//! without dropping anything, the kernel kills them. Statics are never dropped, so a binary that owns a
//! control plane is built with `harness = false` and keeps it in `main`. The same `main` keeps the one
//! multi-threaded runtime in which all clients are made: a client's connections die with its runtime.
//!
//! A [`RealNode`] adds kubelet, containerd and runc. Containers are not children of the test, so all of it
//! runs in a [`Sandbox`] of namespaces that the kernel clears away:
//!
//! ```text
//! Sandbox ──> RealNode ──> pods <── Image
//! Assets  ──┘     └─ ControlPlane
//! ```
//!
//! What looks at metrics gets a real [`Prometheus`] that scrapes a [`Target`] in the test itself, and can be
//! made to reach it through an [`AuthProxy`], which wants a credential, or to run into a [`BlackHole`]:
//!
//! ```text
//! code under test ──(AuthProxy)──> Prometheus ──> Target <── the test turns its gauges
//! ```

pub mod access;
pub mod assets;
pub mod audit;
pub mod binary;
pub mod checkout;
pub mod control_plane;
pub mod credential;
pub mod faults;
pub mod identity;
pub mod image;
mod layout;
pub mod loopback;
pub mod network;
pub mod output;
mod ports;
pub mod process;
pub mod prometheus;
pub mod proxy;
pub mod real_node;
pub mod sandbox;
pub mod schemas;
pub mod target;
pub mod wait;

pub use access::Scope;
pub use assets::{Assets, AssetsMissing, cannot_run, must_run};
pub use audit::AuditEntry;
pub use checkout::{checkout, package};
pub use control_plane::{ControlPlane, Options};
pub use credential::Credential;
pub use identity::Identity;
pub use image::Image;
pub use network::Network;
pub use process::Process;
pub use prometheus::Prometheus;
pub use proxy::{AuthProxy, BlackHole};
pub use real_node::RealNode;
pub use sandbox::Sandbox;
pub use target::Target;
