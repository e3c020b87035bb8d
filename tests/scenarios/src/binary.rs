//! The operator as users run it: a process, with leader election.

use std::process::{Command, ExitStatus};

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use sts_plus_api::keys;
pub use sts_plus_harness::binary::find;
use sts_plus_harness::process::{Process, Signal};
use sts_plus_harness::wait::{NotYet, until};

use crate::cluster::{Account, Request};
use crate::observer::DEADLINE;
use crate::rules;
use crate::scene::Scene;

/// One replica of the operator, with a name and an account of its own.
pub struct Replica {
    /// What it calls itself.
    pub name: &'static str,
    /// Who the API server takes it for.
    pub account: Account,
    process: Process,
}

impl Replica {
    /// Starts a replica that shares the lease in the scene's namespace with all others.
    pub async fn start(scene: &Scene, name: &'static str) -> Self {
        let rules = [rules::by_default(), rules::home()].concat();
        let account = scene.account_with(name, rules).await;
        Self::with(scene, name, account, &["--leader-elect"])
    }

    /// Starts a replica that asks nobody.
    pub async fn start_alone(scene: &Scene, name: &'static str) -> Self {
        let account = scene.account(name).await;
        Self::with(scene, name, account, &["--leader-elect=false"])
    }

    /// Starts it again under the same name, after it was killed.
    #[must_use]
    pub fn restart_alone(self, scene: &Scene) -> Self {
        Self::with(scene, self.name, self.account.clone(), &["--leader-elect=false"])
    }

    fn with(scene: &Scene, name: &'static str, account: Account, flags: &[&str]) -> Self {
        let kubeconfig = scene.cluster.kubeconfig(&account).unwrap();
        let mut command = Command::new(find().unwrap());
        command.arg("run").arg("--kubeconfig").arg(&kubeconfig).args(["--server-port", "0"]);
        command.args(["--namespace", &scene.namespace, "--lease-namespace", &scene.namespace]).args(flags);
        command.env("POD_NAME", name);
        let process = Process::spawn(&command, kubeconfig.with_extension(format!("{name}.log"))).unwrap();
        Self { name, account, process }
    }

    /// Sends it a signal.
    pub fn signal(&mut self, scene: &Scene, signal: Signal) {
        scene.view().note(format!("{} gets {signal:?}", self.name));
        self.process.signal(signal).unwrap();
    }

    /// Waits until it has ended by itself.
    pub async fn ended(&mut self) -> ExitStatus {
        let process = std::sync::Mutex::new(&mut self.process);
        until(DEADLINE, format!("{} to end", self.name), || async {
            process.lock().unwrap().exited().ok_or_else(|| NotYet::saw("it runs"))
        })
        .await
    }

    /// What it has asked for so far.
    pub fn requests(&self, scene: &Scene) -> Vec<Request> {
        scene.cluster.requests(&self.account).unwrap()
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("---- the end of the log of {}\n{}\n----", self.name, self.process.log_tail());
        }
        // A stopped process would not hear anything else.
        self.process.kill();
    }
}

/// Two replicas, the one that leads first.
pub async fn leader_and_standby(scene: &Scene) -> [Replica; 2] {
    let (one, two) = (Replica::start(scene, "one").await, Replica::start(scene, "two").await);
    let leader = until(DEADLINE, "somebody to lead", || async {
        let holder = holder(scene).await?;
        if holder.is_empty() { Err(NotYet::saw("nobody")) } else { Ok(holder) }
    })
    .await;
    if leader.starts_with(one.name) { [one, two] } else { [two, one] }
}

/// Who holds the lease; empty when nobody does.
pub async fn holder(scene: &Scene) -> kube::Result<String> {
    let leases = Api::<Lease>::namespaced(scene.cluster.user(), &scene.namespace);
    let lease = leases.get_opt(keys::LEASE).await?;
    Ok(lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default())
}
