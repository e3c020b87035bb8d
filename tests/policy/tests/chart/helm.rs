//! Helm as the test bed builds it, and the chart as it renders it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use serde_json::Value;

/// The namespace that the chart is rendered for.
pub(crate) const HOME: &str = "operators";

/// The ways people install it.
pub(crate) const DEFAULT: &[&str] = &[];
pub(crate) const NAMESPACED: &[&str] = &["--set", "namespaces={blue,green}"];
pub(crate) const EVERYTHING: &[&str] = &["--values", "tests/policy/tests/chart/everything.yaml"];
pub(crate) const MODES: [&[&str]; 3] = [DEFAULT, NAMESPACED, EVERYTHING];

pub(crate) fn root() -> PathBuf {
    PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../..").canonicalize().unwrap()
}

#[derive(Clone)]
pub(crate) struct Helm {
    binary: PathBuf,
    /// Keeps helm away from the user's own settings.
    home: Arc<tempfile::TempDir>,
}

impl Helm {
    /// The test bed's helm, or why there is none.
    pub(crate) fn find() -> Result<Self, String> {
        let script = root().join("tests/testbed/build.sh");
        let output = Command::new(&script)
            .arg("--where")
            .output()
            .map_err(|error| format!("{} does not run: {error}", script.display()))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
        let binary = Path::new(String::from_utf8_lossy(&output.stdout).trim()).join("helm");
        if !binary.is_file() {
            return Err(format!("There is no {}.", binary.display()));
        }
        let home = Arc::new(tempfile::tempdir().map_err(|error| error.to_string())?);
        Ok(Self { binary, home })
    }

    fn run(&self, args: &[&str]) -> Output {
        Command::new(&self.binary)
            .args(args)
            .current_dir(root())
            .env("HELM_CACHE_HOME", self.home.path().join("cache"))
            .env("HELM_CONFIG_HOME", self.home.path().join("config"))
            .env("HELM_DATA_HOME", self.home.path().join("data"))
            .output()
            .unwrap()
    }

    pub(crate) fn lint(&self, mode: &[&str]) -> Result<(), String> {
        let output = self.run(&[&["lint", "--strict", "charts/sts-plus"], mode].concat());
        let stdout = String::from_utf8_lossy(&output.stdout);
        if output.status.success() { Ok(()) } else { Err(format!("{mode:?}: {stdout}")) }
    }

    /// The objects of the chart, or what helm says against it.
    pub(crate) fn template(&self, args: &[&str]) -> Result<Vec<Value>, String> {
        let command = ["template", "sts-plus", "charts/sts-plus", "--namespace", HOME];
        let output = self.run(&[&command, args].concat());
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let text = String::from_utf8(output.stdout).unwrap();
        Ok(serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{args:?}: {error}\n{text}")))
    }

    pub(crate) fn render(&self, mode: &[&str]) -> Objects {
        Objects(self.template(mode).unwrap_or_else(|error| panic!("{mode:?}: {error}")))
    }
}

/// What one rendering gave.
pub(crate) struct Objects(Vec<Value>);

impl Objects {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Value> {
        self.0.iter()
    }

    pub(crate) fn of_kind(&self, kind: &str) -> Vec<&Value> {
        self.0.iter().filter(|object| object["kind"] == kind).collect()
    }

    /// The one object of a kind.
    #[track_caller]
    pub(crate) fn only(&self, kind: &str) -> &Value {
        let found = self.of_kind(kind);
        assert_eq!(found.len(), 1, "objects of kind {kind}");
        found[0]
    }
}

/// Compares fields, given as JSON pointer and JSON text.
#[track_caller]
pub(crate) fn assert_fields(object: &Value, fields: &[(&str, &str)]) {
    for (pointer, expected) in fields {
        let expected: Value = serde_json::from_str(expected).unwrap();
        assert_eq!(object.pointer(pointer), Some(&expected), "{} of {}", pointer, object["kind"]);
    }
}
