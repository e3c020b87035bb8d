//! A place that the kernel clears away: its processes, mounts and network end with it.
//!
//! The test binary runs itself again inside. Out there stays a guard that waits, passes the verdict on and
//! removes the little that no namespace holds:
//!
//! ```text
//! test binary (guard: folder, cgroup) ── unshare ── init.sh ── test binary ── etcd, kubelet, containerd, ...
//!                                        └──────────── network, mounts, processes ────────────────┘
//! ```
//!
//! Should even the guard be killed, the kernel kills the rest, and the next guard finds the folder unlocked.

mod cgroups;

use std::{
    env,
    ffi::OsString,
    fs::{self, DirBuilder, File, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    process::{self, Command, ExitCode, ExitStatus},
    time::Duration,
};

use rustix::process::geteuid;
use tokio::{
    runtime::Builder,
    signal::unix::{SignalKind, signal},
};

use crate::{
    process::bound,
    wait::{TimedOut, try_until},
};

/// Names folder and cgroup of every sandbox.
const PREFIX: &str = "sts-plus-node-";
/// Set inside: the folder.
const FOLDER: &str = "STS_PLUS_SANDBOX";
/// Set inside: the network that must not be touched.
const OUTER_NETWORK: &str = "STS_PLUS_SANDBOX_OUTER_NETWORK";
const OWN_NETWORK: &str = "/proc/self/ns/net";
const INIT: &str = include_str!("sandbox/init.sh");
/// What a sandbox has of its own, as arguments of unshare.
const NAMESPACES: [&str; 6] = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
/// Sets up the sandbox's network, in init.sh.
const IP: &str = "ip";
/// A cgroup is free some milliseconds after its last process has gone.
const CGROUP_DEADLINE: Duration = Duration::from_secs(30);

/// Proof of being inside.
#[derive(Debug)]
pub struct Sandbox {
    folder: PathBuf,
    name: String,
}

/// Where this process is.
#[derive(Debug)]
pub enum Place {
    /// Inside: go on.
    Inside(Sandbox),
    /// Outside; the program has run inside and ended like this.
    Outside(ExitCode),
}

/// Why there is no sandbox, or why something of it is left.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// Only root may make namespaces.
    #[error("a sandbox needs root")]
    NotRoot,
    /// Its folder cannot be made or removed.
    #[error("folder {}: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Its cgroup cannot be made.
    #[error("cgroup {name}: {source}")]
    Cgroup {
        /// Its name in every hierarchy.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// Its cgroup cannot be removed.
    #[error(transparent)]
    CgroupInUse(#[from] TimedOut),
    /// The program could not be run inside.
    #[error("the program cannot be run in a sandbox: {0}")]
    Run(#[source] io::Error),
    /// The machine does not let root make namespaces, as in most containers, or a program is missing.
    #[error("a sandbox cannot be made here: {0}")]
    Unsupported(String),
    /// The environment says inside, the network says outside.
    #[error("{FOLDER} is set but this is not a sandbox")]
    NotInside,
}

impl Sandbox {
    /// Goes inside. To be called first thing in `main`: outside, it runs this program again, with the same
    /// arguments, inside.
    pub fn enter() -> Result<Place, SandboxError> {
        if let Some(folder) = env::var_os(FOLDER) {
            return inside(folder.into()).map(Place::Inside);
        }
        let runtime = Builder::new_current_thread().enable_all().build().map_err(SandboxError::Run)?;
        runtime.block_on(outside()).map(Place::Outside)
    }

    /// A folder that goes with the sandbox; temporary files are made there by default.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The cgroup under which everything belongs that needs one, in every hierarchy.
    pub fn cgroup(&self) -> String {
        format!("/{}", self.name)
    }
}

/// Whether a sandbox can be made here, or this is one.
pub fn supported() -> Result<(), SandboxError> {
    if env::var_os(FOLDER).is_some() {
        return Ok(());
    }
    if !geteuid().is_root() {
        return Err(SandboxError::NotRoot);
    }
    try_namespaces(&[IP, "link", "set", "lo", "up"])
}

/// Runs a command in namespaces of its own.
fn try_namespaces(command: &[&str]) -> Result<(), SandboxError> {
    let answer = Command::new("unshare").args(NAMESPACES).arg("--").args(command).output();
    let answer = answer.map_err(|error| SandboxError::Unsupported(format!("unshare: {error}")))?;
    if answer.status.success() {
        return Ok(());
    }
    Err(SandboxError::Unsupported(String::from_utf8_lossy(&answer.stderr).trim().to_owned()))
}

fn inside(folder: PathBuf) -> Result<Sandbox, SandboxError> {
    let outer = env::var_os(OUTER_NETWORK).ok_or(SandboxError::NotInside)?;
    if network().map_err(SandboxError::Run)? == outer {
        return Err(SandboxError::NotInside);
    }
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Sandbox { folder, name })
}

async fn outside() -> Result<ExitCode, SandboxError> {
    if !geteuid().is_root() {
        return Err(SandboxError::NotRoot);
    }
    remove_leftovers().await;
    let remains = Remains::create()?;
    let status = match cgroups::create(&remains.name) {
        Ok(()) => run_inside(&remains.folder).await.map_err(SandboxError::Run),
        Err(source) => Err(SandboxError::Cgroup { name: remains.name.clone(), source }),
    };
    remains.remove().await?;
    // Ended by a signal is ended badly.
    let code = status?.code().unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// Runs this program in new namespaces until it ends or this process is asked to.
async fn run_inside(folder: &Path) -> io::Result<ExitStatus> {
    let mut command = Command::new("unshare");
    command
        .args(NAMESPACES)
        .args(["--", "sh", "-c", INIT, "init"])
        .arg(env::current_exe()?)
        .args(env::args_os().skip(1))
        .env(FOLDER, folder)
        .env(OUTER_NETWORK, network()?)
        .env("TMPDIR", folder);
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut child = tokio::process::Command::from(bound(&command)).spawn()?;
    tokio::select! {
        status = child.wait() => return status,
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    child.kill().await?;
    child.wait().await
}

fn network() -> io::Result<OsString> {
    fs::read_link(OWN_NETWORK).map(PathBuf::into_os_string)
}

/// What no namespace holds. Its lock tells that somebody still needs it.
#[derive(Debug)]
struct Remains {
    folder: PathBuf,
    name: String,
    _lock: File,
}

impl Remains {
    fn create() -> Result<Self, SandboxError> {
        let name = format!("{PREFIX}{}-{:08x}", process::id(), rand::random::<u32>());
        let folder = env::temp_dir().join(&name);
        let failed = |source| SandboxError::Folder { path: folder.clone(), source };
        // It gets its name once it is locked: one with the name and without a lock is a leftover.
        let unnamed = env::temp_dir().join(format!(".{name}"));
        DirBuilder::new().mode(0o700).create(&unnamed).map_err(failed)?;
        let lock = File::open(&unnamed).map_err(failed)?;
        lock.lock().map_err(failed)?;
        fs::rename(&unnamed, &folder).map_err(failed)?;
        Ok(Self { folder, name, _lock: lock })
    }

    /// Takes over what a guard left behind that was killed.
    fn leftover(folder: PathBuf) -> Result<Option<Self>, SandboxError> {
        let failed = |source| SandboxError::Folder { path: folder.clone(), source };
        let lock = File::open(&folder).map_err(failed)?;
        if lock.metadata().map_err(failed)?.uid() != geteuid().as_raw() {
            return Ok(None);
        }
        match lock.try_lock() {
            Ok(()) => {
                let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
                Ok(Some(Self { folder, name, _lock: lock }))
            }
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    async fn remove(&self) -> Result<(), SandboxError> {
        let what = format!("the cgroup {} to be free", self.name);
        try_until(CGROUP_DEADLINE, what, || async { Ok(cgroups::remove(&self.name)?) }).await?;
        fs::remove_dir_all(&self.folder)
            .map_err(|source| SandboxError::Folder { path: self.folder.clone(), source })
    }
}

/// A leftover that resists is told about, and does not keep a new sandbox from being made.
async fn remove_leftovers() {
    let entries = fs::read_dir(env::temp_dir()).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    for entry in named {
        let removed = match Remains::leftover(entry.path()) {
            Ok(Some(leftover)) => leftover.remove().await,
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = removed {
            eprintln!("a leftover of an earlier run: {error}");
        }
    }
}

#[cfg(test)]
#[path = "sandbox_tests.rs"]
mod tests;
