//! Container images without a registry and without a builder: one layer, written as the archive that
//! `docker save` makes and every runtime can import.

use std::{
    env, fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::Command,
};

use ring::digest::{SHA256, digest};
use serde_json::json;
use tar::{Builder, EntryType, Header};

/// One static program that is a shell, a web server and much else, by the name it is called with.
pub(crate) const BUSYBOX: &str = "/bin/busybox";

const CONFIG: &str = "config.json";
const LAYER: &str = "layer.tar";

/// An image: files, and what to run.
#[derive(Clone, Debug)]
pub struct Image {
    name: String,
    files: Vec<(PathBuf, Content)>,
    entrypoint: Vec<String>,
    arguments: Vec<String>,
    user: String,
    stop_signal: Option<String>,
}

#[derive(Clone, Debug)]
enum Content {
    File { bytes: Vec<u8>, mode: u32 },
    Link(PathBuf),
}

impl Image {
    /// An empty image that runs `entrypoint`, by default with these arguments.
    pub fn new(name: &str, entrypoint: &[&str], arguments: &[&str]) -> Self {
        let owned = |words: &[&str]| words.iter().map(|&word| word.into()).collect();
        Self {
            name: name.into(),
            files: Vec::new(),
            entrypoint: owned(entrypoint),
            arguments: owned(arguments),
            user: String::new(),
            stop_signal: None,
        }
    }

    /// The name by which pods ask for it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The user, and group after a colon, that it runs as; root by default.
    #[must_use]
    pub fn user(mut self, user: &str) -> Self {
        self.user = user.into();
        self
    }

    /// The signal that ends it, SIGTERM by default, which a first process ignores unless it expects it.
    #[must_use]
    pub fn stop_signal(mut self, signal: &str) -> Self {
        self.stop_signal = Some(signal.into());
        self
    }

    /// Adds a file that everybody may read.
    #[must_use]
    pub fn file(self, path: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.with(path, Content::File { bytes: bytes.into(), mode: 0o644 })
    }

    /// Adds a program of this machine, with the shared libraries that it is linked with.
    pub fn program(self, path: &str, source: &Path) -> io::Result<Self> {
        // It fails, and prints nothing of use, for what is linked statically or is no binary at all.
        let linked = Command::new("ldd").arg(source).output()?.stdout;
        let program = self.executable(path, source)?;
        libraries(&String::from_utf8_lossy(&linked))
            .into_iter()
            .try_fold(program, |image, library| image.executable(library, Path::new(library)))
    }

    fn executable(self, path: &str, source: &Path) -> io::Result<Self> {
        Ok(self.with(path, Content::File { bytes: fs::read(source)?, mode: 0o755 }))
    }

    /// Adds busybox under these names, in `/bin`.
    pub fn busybox(self, names: &[&str]) -> io::Result<Self> {
        let with_program = self.program(BUSYBOX, Path::new(BUSYBOX))?;
        Ok(names.iter().fold(with_program, |image, name| {
            image.with(&format!("/bin/{name}"), Content::Link(BUSYBOX.into()))
        }))
    }

    fn with(mut self, path: &str, content: Content) -> Self {
        self.files.push((path.trim_start_matches('/').into(), content));
        self
    }

    /// Writes the archive.
    pub fn write(&self, archive: impl Write) -> io::Result<()> {
        let layer = self.layer()?;
        let mut run = json!({"Entrypoint": self.entrypoint, "Cmd": self.arguments, "User": self.user});
        if let (Some(signal), Some(run)) = (&self.stop_signal, run.as_object_mut()) {
            run.insert("StopSignal".into(), json!(signal));
        }
        let config = json!({
            "architecture": architecture(),
            "os": "linux",
            "config": run,
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", sha256(&layer))]},
        });
        let manifest = json!([{"Config": CONFIG, "RepoTags": [self.name], "Layers": [LAYER]}]);
        let mut archive = Builder::new(archive);
        append(&mut archive, Path::new(CONFIG), config.to_string().as_bytes(), 0o644)?;
        append(&mut archive, Path::new(LAYER), &layer, 0o644)?;
        append(&mut archive, Path::new("manifest.json"), manifest.to_string().as_bytes(), 0o644)?;
        archive.finish()
    }

    fn layer(&self) -> io::Result<Vec<u8>> {
        let mut layer = Builder::new(Vec::new());
        for (path, content) in &self.files {
            match content {
                Content::File { bytes, mode } => append(&mut layer, path, bytes, *mode)?,
                Content::Link(target) => {
                    let mut header = Header::new_gnu();
                    header.set_entry_type(EntryType::Symlink);
                    header.set_size(0);
                    header.set_mode(0o777);
                    layer.append_link(&mut header, path, target)?;
                }
            }
        }
        layer.into_inner()
    }
}

/// The files that `ldd` names: each line has one, after an arrow where it was searched for, before its address.
fn libraries(linked: &str) -> Vec<&str> {
    let lines = linked.lines().filter(|line| line.ends_with(')'));
    lines.filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/'))).collect()
}

fn append(archive: &mut Builder<impl Write>, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_size(bytes.len() as u64);
    header.set_mode(mode);
    archive.append_data(&mut header, path, bytes)
}

/// What images call this machine's processor.
fn architecture() -> &'static str {
    match env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn sha256(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

#[cfg(test)]
#[path = "image_tests.rs"]
mod tests;
