//! A real node: kubelet, containerd and runc run real pods beside the control plane.
//!
//! All of it lives in one [`Sandbox`], whose network has no way out: the bridge that connects the pods, the
//! node's own address on it, and the address of the Service `kubernetes`, on which the API server itself
//! answers, as there is no kube-proxy. There is no cluster DNS either: pods are reached by address.

mod config;

use std::{
    env,
    ffi::OsString,
    fs::{self, File},
    io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
};

use k8s_openapi::api::{core::v1::Node, rbac::v1::PolicyRule};
use kube::Api;
use tokio::net::UnixStream;

use crate::{
    Scope,
    access::AccessError,
    assets::{Assets, AssetsMissing},
    control_plane::{self, ControlPlane, ControlPlaneError, ready},
    image::{self, Image},
    output::{OutputError, output},
    process::{Process, ProcessError},
    sandbox::{self, Sandbox, SandboxError},
    wait::NotYet,
};

const NODE: &str = "node";
const BRIDGE: &str = "pods";
const POD_SUBNET: &str = "10.88.7.0/24";
const NODE_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 88, 7, 1);
/// The first address of the range for Services, which Kubernetes gives to its own.
const SERVICE_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
const SERVICE_PORT: u16 = 443;
/// Holds the namespaces of a pod and does nothing.
const PAUSE_IMAGE: &str = "localhost/pause:1";
/// A folder that is made wherever it is said to be; this one is in the sandbox.
const VOLUME_PLUGINS: &str = "/run/volume-plugins";
/// containerd's name for what kubelet sees.
const CONTAINERD_NAMESPACE: &str = "k8s.io";

/// Besides the assets, these must be there.
const REQUIRED_FILES: [&str; 3] = [config::RUNC, config::NETWORK_PLUGINS, image::BUSYBOX];
const REQUIRED_ASSETS: [&str; 6] =
    ["kube-scheduler", "kubectl", "kubelet", "containerd", "containerd-shim-runc-v2", "ctr"];

/// A running cluster of one node. Dropping it stops the parts in order; pods end with the sandbox.
pub struct RealNode {
    // Fields are dropped in this order, which is the one in which the parts have to stop.
    kubelet: Process,
    containerd: Process,
    control_plane: ControlPlane,
    kubeconfig: PathBuf,
    assets: Assets,
    sandbox: Sandbox,
}

/// Why no real node can be started here.
#[derive(Debug, thiserror::Error)]
pub enum Unsupported {
    /// It needs a sandbox.
    #[error("a real node: {0}")]
    Sandbox(#[from] SandboxError),
    /// A program is missing.
    #[error(transparent)]
    Assets(#[from] AssetsMissing),
    /// Something of the machine is missing.
    #[error("a real node needs {0}: `make testbed` installs it as root on Debian")]
    File(&'static str),
}

/// Why there is no node.
#[derive(Debug, thiserror::Error)]
pub enum RealNodeError {
    /// A binary is missing.
    #[error(transparent)]
    Assets(#[from] AssetsMissing),
    /// A configuration or an image cannot be written.
    #[error("the node's folder: {0}")]
    Folder(#[from] io::Error),
    /// A process could not be started.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The control plane is not there, or a part of the node does not get ready.
    #[error(transparent)]
    ControlPlane(#[from] ControlPlaneError),
    /// kubelet could not be given its permissions.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The network or an image could not be set up.
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// Whether a real node can be started here, and with which programs.
pub fn supported() -> Result<Assets, Unsupported> {
    sandbox::supported()?;
    let assets = Assets::find()?;
    for binary in REQUIRED_ASSETS {
        assets.binary(binary)?;
    }
    match REQUIRED_FILES.iter().find(|path| !Path::new(path).exists()) {
        Some(path) => Err(Unsupported::File(path)),
        None => Ok(assets),
    }
}

impl RealNode {
    /// Starts everything and waits until the node is Ready. Its pods can run these images, if they never pull.
    pub async fn start(sandbox: Sandbox, assets: &Assets, images: &[Image]) -> Result<Self, RealNodeError> {
        connect().await?;
        let containerd = async {
            let folder = sandbox.folder().join("containerd");
            let mut containerd = start_containerd(assets, &folder)?;
            let up = || async { Ok(UnixStream::connect(socket(&folder)).await.map(drop)?) };
            ready(&mut [("containerd", &mut containerd)], up).await?;
            let pause = Image::new(PAUSE_IMAGE, &["/bin/sleep"], &["infinity"]).busybox(&["sleep"])?;
            for image in images.iter().chain([&pause]) {
                load(assets, &folder, image).await?;
            }
            Ok::<_, RealNodeError>(containerd)
        };
        let control_plane = async { Ok(ControlPlane::start(assets, control_plane_options()).await?) };
        let (containerd, control_plane) = tokio::try_join!(containerd, control_plane)?;

        let mut node = Self {
            kubelet: start_kubelet(assets, &sandbox, &control_plane).await?,
            containerd,
            kubeconfig: control_plane.admin_kubeconfig()?,
            control_plane,
            assets: assets.clone(),
            sandbox,
        };
        let nodes = Api::<Node>::all(node.control_plane.admin());
        let mut parts = [("kubelet", &mut node.kubelet), ("containerd", &mut node.containerd)];
        ready(&mut parts, || async {
            let found = nodes.get(NODE).await?;
            let conditions = found.status.and_then(|status| status.conditions).unwrap_or_default();
            let mut is_ready = conditions.iter().map(|condition| (&*condition.type_, &*condition.status));
            if is_ready.any(|condition| condition == ("Ready", "True")) {
                Ok(())
            } else {
                Err(NotYet::saw(conditions))
            }
        })
        .await?;
        Ok(node)
    }

    /// Clients, identities and the record of requests.
    pub fn control_plane(&self) -> &ControlPlane {
        &self.control_plane
    }

    /// Where pods reach what listens on the node.
    pub fn address(&self) -> Ipv4Addr {
        NODE_ADDRESS
    }

    /// What was built with the test bed.
    pub fn assets(&self) -> &Assets {
        &self.assets
    }

    /// For programs that may do everything.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A program that talks to this cluster as one that may do everything: a path, or the name of one that was
    /// built with the test bed.
    pub fn program(&self, program: impl AsRef<Path>) -> Command {
        // A path that is absolute replaces what it is joined to.
        let mut command = Command::new(self.assets.folder().join(program));
        command
            .env("KUBECONFIG", &self.kubeconfig)
            .env("KUBECACHEDIR", self.sandbox.folder().join("kubectl"));
        command
    }

    /// What kubectl answers.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String, OutputError> {
        self.kubectl_with(arguments, "").await
    }

    /// What kubectl answers when it reads this from its standard input.
    pub async fn kubectl_with(&self, arguments: &[&str], input: &str) -> Result<String, OutputError> {
        let mut command = self.program("kubectl");
        command.args(arguments);
        output(command, input).await
    }

    /// Starts kube-controller-manager anew with these controllers, as its flag names them.
    pub async fn run_controllers(&self, controllers: &[String]) -> Result<(), RealNodeError> {
        let flags = control_plane_options().controller_manager_flags;
        Ok(self.control_plane.start_controller_manager(&self.assets, controllers, &flags).await?)
    }

    /// Kills the first process of a container, by the id that its pod's status gives, behind kubelet's back.
    pub async fn kill_container(&self, id: &str) -> Result<(), RealNodeError> {
        let mut command = ctr(&self.assets, &self.sandbox.folder().join("containerd"))?;
        command.args(["tasks", "kill", "--signal", "SIGKILL", id.trim_start_matches("containerd://")]);
        output(command, "").await?;
        Ok(())
    }

    /// The ends of the logs of all parts, for when something went wrong.
    pub fn log_tails(&self) -> String {
        let parts = [("kubelet", &self.kubelet), ("containerd", &self.containerd)];
        let tails = parts.map(|(name, process)| format!("{name}:\n{}", process.log_tail()));
        tails.join("\n")
    }
}

/// Gives the sandbox its network.
async fn connect() -> Result<(), OutputError> {
    let service = format!("{SERVICE_ADDRESS}/32");
    let node = format!("{NODE_ADDRESS}/24");
    for step in [
        vec!["addr", "add", &service, "dev", "lo"],
        vec!["link", "add", BRIDGE, "type", "bridge"],
        vec!["addr", "add", &node, "dev", BRIDGE],
        vec!["link", "set", BRIDGE, "up"],
    ] {
        let mut command = Command::new("ip");
        command.args(step);
        output(command, "").await?;
    }
    Ok(())
}

fn control_plane_options() -> control_plane::Options {
    control_plane::Options {
        controllers: vec!["*".into()],
        scheduler: true,
        // Where pods look for it.
        endpoint: Some(SocketAddr::from((SERVICE_ADDRESS, SERVICE_PORT))),
        api_server_flags: vec![
            format!("--bind-address={}", Ipv4Addr::UNSPECIFIED),
            format!("--advertise-address={NODE_ADDRESS}"),
            // The node has no name that resolves, and Services have no addresses that lead anywhere.
            "--kubelet-preferred-address-types=InternalIP".into(),
            "--enable-aggregator-routing=true".into(),
        ],
        controller_manager_flags: vec![format!("--flex-volume-plugin-dir={VOLUME_PLUGINS}")],
        ..control_plane::Options::default()
    }
}

fn socket(containerd: &Path) -> PathBuf {
    containerd.join("containerd.sock")
}

fn start_containerd(assets: &Assets, folder: &Path) -> Result<Process, RealNodeError> {
    let network = folder.join("network");
    fs::create_dir_all(&network)?;
    fs::write(network.join("pods.conflist"), config::network().to_string())?;
    let config = folder.join("config.toml");
    fs::write(&config, config::containerd(folder, &socket(folder)))?;
    let mut command = Command::new(assets.binary("containerd")?);
    command.arg("--config").arg(config).env("PATH", path_with(assets)?);
    Ok(Process::spawn(&command, folder.join("containerd.log"))?)
}

/// containerd looks for its shim on the path.
fn path_with(assets: &Assets) -> io::Result<OsString> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::join_paths([assets.folder().to_owned()].into_iter().chain(env::split_paths(&path)))
        .map_err(io::Error::other)
}

/// Gives an image to containerd.
async fn load(assets: &Assets, containerd: &Path, image: &Image) -> Result<(), RealNodeError> {
    let archive = containerd.join("image.tar");
    image.write(File::create(&archive)?)?;
    let mut command = ctr(assets, containerd)?;
    command.args(["images", "import", "--local", "--snapshotter", "native"]).arg(&archive);
    output(command, "").await?;
    Ok(fs::remove_file(archive)?)
}

/// containerd's own client, for what kubelet sees.
fn ctr(assets: &Assets, containerd: &Path) -> Result<Command, AssetsMissing> {
    let mut command = Command::new(assets.binary("ctr")?);
    command.arg("--address").arg(socket(containerd)).args(["--namespace", CONTAINERD_NAMESPACE]);
    Ok(command)
}

async fn start_kubelet(
    assets: &Assets,
    sandbox: &Sandbox,
    control_plane: &ControlPlane,
) -> Result<Process, RealNodeError> {
    let folder = sandbox.folder().join("kubelet");
    fs::create_dir_all(&folder)?;
    let config = folder.join("config.json");
    let containerd = socket(&sandbox.folder().join("containerd"));
    fs::write(&config, config::kubelet(&containerd, &sandbox.cgroup()).to_string())?;

    let identity = control_plane.identity("kubelet")?;
    let everything = || Some(vec!["*".into()]);
    let rule = PolicyRule {
        api_groups: everything(),
        resources: everything(),
        verbs: vec!["*".into()],
        ..PolicyRule::default()
    };
    control_plane.grant(&identity, Scope::Cluster, vec![rule]).await?;

    let mut command = Command::new(assets.binary("kubelet")?);
    command
        .arg(format!("--config={}", config.display()))
        .arg(format!("--kubeconfig={}", control_plane.kubeconfig_for(&identity)?.display()))
        .arg(format!("--root-dir={}", folder.join("root").display()))
        .arg(format!("--cert-dir={}", folder.join("certificates").display()))
        .arg(format!("--hostname-override={NODE}"))
        .arg(format!("--node-ip={NODE_ADDRESS}"))
        .arg("--node-labels=topology.kubernetes.io/zone=a");
    Ok(Process::spawn(&command, folder.join("kubelet.log"))?)
}
