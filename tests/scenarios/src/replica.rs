//! The real binary as a process: one replica of a deployment.

use std::path::{Path, PathBuf};
use std::process::Command;

use sts_plus_harness::Process;
use sts_plus_harness::process::ProcessError;

use crate::cluster::Account;
use crate::scene::Scene;

/// The binary: named by the Makefile, or where cargo puts it beside this test.
pub fn binary() -> PathBuf {
    let named = std::env::var_os("STS_PLUS_BIN").map(PathBuf::from);
    named.unwrap_or_else(|| {
        let test = std::env::current_exe().unwrap_or_default();
        test.parent().map(|folder| folder.with_file_name("sts-plus")).unwrap_or_default()
    })
}

/// `sts-plus run` for the scene's namespace, with the lease in it too unless there is none.
pub fn start(
    scene: &Scene,
    account: &Account,
    pod: &str,
    elects: bool,
    logs: &Path,
) -> Result<Process, ProcessError> {
    let mut command = Command::new(binary());
    command
        .args(["run", "--server-port=0", "--namespace", &scene.namespace])
        .arg(format!("--leader-elect={elects}"))
        .arg("--kubeconfig")
        .arg(scene.cluster.kubeconfig(account).unwrap_or_default())
        .env("POD_NAMESPACE", &scene.namespace)
        .env("POD_NAME", pod);
    Process::spawn(&command, logs.join(format!("{}-{pod}.log", scene.namespace)))
}
