//! A user with kubectl. Only where the cluster has a socket.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use k8s_openapi::api::rbac::v1::PolicyRule;
use sts_plus_harness::Assets;
use tokio::process::Command;

use crate::cluster::Cluster;

/// kubectl in the namespace of a scenario.
pub(crate) struct Kubectl {
    binary: PathBuf,
    kubeconfig: PathBuf,
    namespace: String,
}

impl Kubectl {
    /// Somebody who may get, list, create, patch, update and delete everything in this namespace.
    pub(crate) async fn new(cluster: &dyn Cluster, namespace: &str) -> Self {
        let user = cluster.newcomer("user").unwrap();
        let all = || Some(vec!["*".to_owned()]);
        let verbs = ["get", "list", "create", "patch", "update", "delete"].map(str::to_owned).to_vec();
        let rule = PolicyRule { api_groups: all(), resources: all(), verbs, ..PolicyRule::default() };
        cluster.grant(&user, Some(namespace), vec![rule]).await.unwrap();
        Self {
            binary: Assets::find().unwrap().binary("kubectl").unwrap(),
            kubeconfig: cluster.kubeconfig(&user).unwrap(),
            namespace: namespace.to_owned(),
        }
    }

    /// Runs a command, which has to succeed.
    pub(crate) async fn run(&self, arguments: &[&str]) -> String {
        let ended = self.attempt(arguments).await;
        ended.unwrap_or_else(|printed| panic!("kubectl {arguments:?}: {printed}"))
    }

    /// Runs a command; what it prints, as an error where it fails.
    pub(crate) async fn attempt(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(&self.binary);
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        command.arg("--cache-dir").arg(self.kubeconfig.with_extension("cache"));
        command.args(["--namespace", &self.namespace]).args(arguments);
        let output = command.stdin(Stdio::null()).output().await.unwrap();
        let printed =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        if output.status.success() { Ok(printed.concat()) } else { Err(printed.concat()) }
    }

    /// Applies a file, without a warning.
    pub(crate) async fn apply(&self, file: &Path) {
        let applied = self.run(&["apply", "--filename", file.to_str().unwrap()]).await;
        assert!(!applied.contains("Warning"), "{applied}");
    }
}
