//! Where the playground keeps its files: a folder of the user's, or a temporary one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result};
use tempfile::TempDir;
use tracing_subscriber::EnvFilter;

/// The largest size of the log, in bytes; what comes after is dropped. A quiet playground writes a few kilobytes a day.
const MAX_LOG_BYTES: usize = 16 << 20;

/// A folder that can be written to.
pub(super) enum Folder {
    /// Deleted with everything in it when it is dropped.
    Temporary(TempDir),
    Kept(PathBuf),
}

impl Folder {
    /// The user's folder, created where it does not exist; without one, a temporary one.
    pub(super) fn open(kept: Option<&Path>) -> Result<Self> {
        let Some(path) = kept else {
            let created = tempfile::Builder::new().prefix("sts-plus-").tempdir();
            return created.map(Self::Temporary).context("cannot create a temporary folder");
        };
        fs::create_dir_all(path)
            .with_context(|| format!("cannot create the data folder {}", path.display()))?;
        Ok(Self::Kept(path.to_owned()))
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Temporary(folder) => folder.path(),
            Self::Kept(path) => path,
        }
    }

    /// The absolute path of a file in the folder, since a command with it may be run anywhere.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        let path = self.path().join(name);
        std::path::absolute(&path).unwrap_or(path)
    }

    /// Writes a file that only its owner can read.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.file(name);
        let written = secret(&path).and_then(|mut file| file.write_all(text.as_bytes()));
        written.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    /// Writes the log into a file in the folder, so that it does not disturb the screen.
    pub(super) fn log(&self) -> Result<()> {
        let path = self.file("playground.log");
        let file = secret(&path).with_context(|| format!("cannot write {}", path.display()))?;
        let filter = EnvFilter::try_from_env("STS_PLUS_LOG")
            .unwrap_or_else(|_| EnvFilter::new("info,kube_client=off"));
        let log = Mutex::new(Bounded { file, left: MAX_LOG_BYTES });
        // Fails only where a subscriber is installed already, as in tests.
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(log).try_init().ok();
        Ok(())
    }
}

fn secret(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// A file that takes so many bytes and silently drops the rest.
struct Bounded {
    file: File,
    left: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self.left.saturating_sub(bytes.len());
        if self.left > 0 {
            self.file.write_all(bytes)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
