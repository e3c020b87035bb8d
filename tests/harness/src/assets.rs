//! Where the binaries of the control plane are.

use std::{
    env,
    ffi::OsString,
    fmt::Display,
    io,
    path::{Path, PathBuf},
    process::Command,
};

use libtest_mimic::{Completion, Failed};

use crate::checkout;

/// Points to a folder with the binaries; the name is the one that controller tests everywhere use.
const ASSETS_VARIABLE: &str = "KUBEBUILDER_ASSETS";
/// Builds the test bed, and knows where it is.
const BUILD_SCRIPT: &str = "tests/testbed/build.sh";
/// Without these there is no control plane.
const REQUIRED: [&str; 3] = ["etcd", "kube-apiserver", "kube-controller-manager"];

/// A folder that holds at least etcd, kube-apiserver and kube-controller-manager.
#[derive(Clone, Debug)]
pub struct Assets {
    folder: PathBuf,
}

/// Why there is no control plane to test on.
#[derive(Debug, thiserror::Error)]
pub enum AssetsMissing {
    /// The folder is there, the binary is not.
    #[error("{} has no {binary} (the folder comes from {origin})", folder.display())]
    Binary {
        /// The folder that was searched.
        folder: PathBuf,
        /// What was looked for.
        binary: String,
        /// Who named the folder.
        origin: String,
    },
    /// The test bed has not been built.
    #[error("{ASSETS_VARIABLE} is not set and {reason}")]
    NotBuilt {
        /// What the build script says.
        reason: String,
    },
    /// The build script could not be asked.
    #[error("{ASSETS_VARIABLE} is not set and {BUILD_SCRIPT} does not run: {0}")]
    Script(#[source] io::Error),
}

/// True in CI, where a test that cannot run has failed.
pub fn must_run() -> bool {
    env::var("CI").is_ok_and(|value| value == "true")
}

/// What a test that lacks something has to report: a failure in CI, elsewhere that it was skipped.
pub fn cannot_run(reason: impl Display) -> Result<Completion, Failed> {
    if must_run() {
        Err(format!("must run in CI: {reason}").into())
    } else {
        Ok(Completion::ignored_with(reason))
    }
}

impl Assets {
    /// The folder named by `KUBEBUILDER_ASSETS`, else the built test bed.
    pub fn find() -> Result<Self, AssetsMissing> {
        match env::var_os(ASSETS_VARIABLE).filter(|value| !value.is_empty()) {
            Some(folder) => Self::in_folder(folder, ASSETS_VARIABLE),
            None => Self::in_folder(built_test_bed()?, BUILD_SCRIPT),
        }
    }

    fn in_folder(folder: impl Into<PathBuf>, origin: &str) -> Result<Self, AssetsMissing> {
        let assets = Self { folder: folder.into() };
        for binary in REQUIRED {
            assets.require(binary, origin)?;
        }
        Ok(assets)
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The path of a binary that only some tests need, such as `kubectl`, `helm` or `kubelet`.
    pub fn binary(&self, name: &str) -> Result<PathBuf, AssetsMissing> {
        self.require(name, "the control plane's assets")
    }

    fn require(&self, name: &str, origin: &str) -> Result<PathBuf, AssetsMissing> {
        let path = self.folder.join(name);
        if path.is_file() {
            return Ok(path);
        }
        Err(AssetsMissing::Binary { folder: self.folder.clone(), binary: name.into(), origin: origin.into() })
    }
}

impl AssetsMissing {
    /// What a test that needs the control plane has to report: a failure in CI, elsewhere that it was skipped.
    pub fn verdict(&self) -> Result<Completion, Failed> {
        cannot_run(self)
    }
}

fn built_test_bed() -> Result<OsString, AssetsMissing> {
    let answer =
        Command::new(checkout().join(BUILD_SCRIPT)).arg("--where").output().map_err(AssetsMissing::Script)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if answer.status.success() {
        Ok(text(&answer.stdout).into())
    } else {
        Err(AssetsMissing::NotBuilt { reason: text(&answer.stderr) })
    }
}

#[cfg(test)]
#[path = "assets_tests.rs"]
mod tests;
