//! The folder of a control plane, and the command lines that refer to it.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    assets::{Assets, AssetsMissing},
    audit,
    control_plane::Options,
    identity::Identities,
};

/// The audit log must stay one file; the unit is MB.
const AUDIT_LOG_MAX_SIZE: &str = "--audit-log-maxsize=100000";

/// Paths in the control plane's folder.
#[derive(Clone, Copy)]
pub(crate) struct Layout<'a>(pub(crate) &'a Path);

impl Layout<'_> {
    /// Writes what the API server reads when it starts.
    pub(crate) fn write(self, identities: &Identities) -> io::Result<()> {
        fs::write(self.tokens(), identities.token_file())?;
        fs::write(self.audit_policy(), audit::POLICY)
    }

    pub(crate) fn log(self, part: &str) -> PathBuf {
        self.0.join(format!("{part}.log"))
    }

    pub(crate) fn audit_log(self) -> PathBuf {
        self.0.join("audit.log")
    }

    /// The certificates that the API server makes for itself when it starts for the first time.
    pub(crate) fn certificate(self) -> PathBuf {
        self.certificates().join("apiserver.crt")
    }

    /// Signs service account tokens; the server's own key, made with its certificate, saves another.
    pub(crate) fn service_account_key(self) -> PathBuf {
        self.certificates().join("apiserver.key")
    }

    pub(crate) fn kubeconfig(self, user: &str) -> PathBuf {
        self.0.join(format!("{}.kubeconfig", user.replace(':', "-")))
    }

    fn tokens(self) -> PathBuf {
        self.0.join("tokens.csv")
    }

    fn audit_policy(self) -> PathBuf {
        self.0.join("audit-policy.json")
    }

    fn certificates(self) -> PathBuf {
        self.0.join("certificates")
    }

    pub(crate) fn etcd(self, assets: &Assets, url: &str) -> Result<Command, AssetsMissing> {
        let mut command = Command::new(assets.binary("etcd")?);
        command
            .arg(format!("--data-dir={}", self.0.join("etcd").display()))
            .arg(format!("--listen-client-urls={url}"))
            .arg(format!("--advertise-client-urls={url}"))
            // It has no peers, and any port will do to wait for none.
            .arg("--listen-peer-urls=http://127.0.0.1:0")
            // The data need not survive the machine.
            .args(["--unsafe-no-fsync", "--log-level=error"]);
        Ok(command)
    }

    pub(crate) fn api_server(
        self,
        assets: &Assets,
        options: &Options,
        etcd_url: &str,
        endpoint: SocketAddr,
    ) -> Result<Command, AssetsMissing> {
        let mut command = Command::new(assets.binary("kube-apiserver")?);
        command
            .arg(format!("--etcd-servers={etcd_url}"))
            .arg(format!("--bind-address={}", endpoint.ip()))
            .arg(format!("--secure-port={}", endpoint.port()))
            // Else it looks for an address to announce, which a machine without a route does not have.
            .arg(format!("--advertise-address={}", endpoint.ip()))
            .arg("--endpoint-reconciler-type=none")
            .arg(format!("--cert-dir={}", self.certificates().display()))
            .arg("--service-cluster-ip-range=10.96.0.0/16")
            .arg(format!("--service-account-key-file={}", self.service_account_key().display()))
            .arg(format!("--service-account-signing-key-file={}", self.service_account_key().display()))
            .arg("--service-account-issuer=https://kubernetes.default.svc")
            .arg(format!("--token-auth-file={}", self.tokens().display()))
            .args(["--authorization-mode=RBAC", "--allow-privileged=true"])
            .arg(format!("--audit-policy-file={}", self.audit_policy().display()))
            .arg(format!("--audit-log-path={}", self.audit_log().display()))
            .arg(AUDIT_LOG_MAX_SIZE);
        if !options.streaming_lists {
            command.arg("--feature-gates=WatchList=false");
        }
        command.args(&options.api_server_flags);
        Ok(command)
    }
}
