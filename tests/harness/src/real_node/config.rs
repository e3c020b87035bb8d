//! What containerd, the network plugins and kubelet are told.

use std::path::Path;

use serde_json::{Value, json};

use super::{BRIDGE, NODE_ADDRESS, PAUSE_IMAGE, POD_SUBNET, VOLUME_PLUGINS};

/// Debian's places for what the node does not build itself.
pub(super) const RUNC: &str = "/usr/sbin/runc";
pub(super) const NETWORK_PLUGINS: &str = "/usr/lib/cni";

/// containerd's configuration; everything it keeps is in `folder`.
pub(super) fn containerd(folder: &Path, socket: &Path) -> String {
    let (folder, socket) = (folder.display(), socket.display());
    format!(
        r#"
version = 3
root = "{folder}/root"
state = "{folder}/state"

[grpc]
address = "{socket}"

[debug]
level = "warn"

# Copies files instead of stacking folders: slower, and works on any file system.
[plugins."io.containerd.cri.v1.images"]
snapshotter = "native"

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE_IMAGE}"

[plugins."io.containerd.cri.v1.runtime"]
# Where the machine's manager has lowered the score, only more of it is allowed.
restrict_oom_score_adj = true

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{NETWORK_PLUGINS}"]
conf_dir = "{folder}/network"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = "{RUNC}"
"#
    )
}

/// How pods are connected: a bridge without a way out.
pub(super) fn network() -> Value {
    json!({
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge",
                "bridge": BRIDGE,
                "isDefaultGateway": true,
                "ipam": {"type": "host-local", "ranges": [[{"subnet": POD_SUBNET}]]},
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    })
}

/// kubelet's configuration.
pub(super) fn kubelet(socket: &Path, cgroup: &str) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": NODE_ADDRESS,
        "containerRuntimeEndpoint": format!("unix://{}", socket.display()),
        // It is alone in its network.
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        // The machine's own processes are none of its business.
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup,
        "enforceNodeAllocatable": [],
        "failCgroupV1": false,
        "failSwapOn": false,
        // Nor is a disk that others have filled.
        "evictionHard": {},
        "imageGCHighThresholdPercent": 100,
        "localStorageCapacityIsolation": false,
        "resolvConf": "",
        "volumePluginDir": VOLUME_PLUGINS,
    })
}
