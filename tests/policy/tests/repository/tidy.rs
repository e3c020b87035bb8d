//! Style that can be counted.

use std::path::Path;

use crate::{assert_none, files, root, texts};

/// Lines after which a source file is two files; the aim is 500.
const MAX_LINES: usize = 700;

/// Something that no line of certain files may hold.
struct Rule {
    why: &'static str,
    applies: fn(&Path) -> bool,
    found_in: fn(&str) -> bool,
    /// Files that may, with the reason.
    except: &'static [(&'static str, &'static str)],
}

const RULES: [Rule; 3] = [
    Rule {
        why: "tests wait for conditions, they do not sleep",
        applies: is_test_source,
        found_in: sleeps,
        except: &[
            ("tests/policy/tests/repository/tidy.rs", "samples for this rule"),
            ("tests/harness/src/wait.rs", "the loop that waits for conditions"),
            ("tests/harness/src/process.rs", "the same for the end of a process, where nothing is async"),
            ("tests/harness/src/faults.rs", "a delay is one of the faults"),
            ("tests/harness/src/proxy.rs", "a delay is one of the things it can be told to do"),
            ("tests/bench/src/main.rs", "a measured stretch of time"),
            (
                "tests/harness/src/bin/store.rs",
                "an application of tests that opens late, when its pod is Ready",
            ),
            ("crates/operator/src/shell/events_tests.rs", "virtual time, on a paused clock"),
            ("tests/scenarios/tests/embedded/group.rs", "virtual time, on a paused clock"),
            ("crates/operator/src/controllers/statefulset_tests.rs", "virtual time, on a paused clock"),
            ("crates/operator/src/controllers/rollout_group_tests.rs", "virtual time, on a paused clock"),
            ("crates/operator/src/controllers/phased_rollout_tests.rs", "virtual time, on a paused clock"),
            ("crates/operator/src/controllers/scaling_flow_tests.rs", "virtual time, on a paused clock"),
            ("crates/operator/src/runtime/example_tests.rs", "virtual time, on a paused clock"),
            ("crates/operator/src/shell/cache/undefined_tests.rs", "virtual time, on a paused clock"),
            ("crates/operator/src/shell/confirmation_tests.rs", "virtual time, on a paused clock"),
            ("crates/operator/src/webhook/files_tests.rs", "virtual time, on a paused clock"),
            ("crates/operator/src/shell/informing_tests.rs", "virtual time, on a paused clock"),
            ("tests/simulate/src/link.rs", "virtual time: the delays of the wire"),
            ("tests/simulate/src/endings.rs", "virtual time: what people do at the end of a run"),
            ("tests/simulate/src/people.rs", "virtual time: from one thing that people do to the next"),
            (
                "tests/simulate/src/extended/people.rs",
                "virtual time: from one thing that people do to the next",
            ),
            (
                "crates/operator/src/outbound/prober_tests.rs",
                "virtual time, on a paused clock: the turns of probes",
            ),
            (
                "crates/operator/src/runtime/digests_following_tests.rs",
                "virtual time, on a paused clock: pauses",
            ),
            (
                "tests/simulate/src/scaling/people.rs",
                "virtual time: from one thing that people do to the next",
            ),
            ("tests/simulate/src/scaling/apps.rs", "virtual time: a slow answer"),
            ("crates/cli/src/lock_check_tests.rs", "virtual time, on a paused clock: a key that comes late"),
            ("tests/simulate/src/prometheus.rs", "virtual time: a slow answer"),
            ("tests/simulate/src/run.rs", "virtual time: the length of a run"),
            ("tests/simulate/src/bin/bench-cluster.rs", "virtual time, on a paused clock"),
        ],
    },
    Rule {
        why: "where the package was when it was compiled, perhaps for a checkout that is gone: ask when the test runs",
        applies: |path| path.extension().is_some_and(|found| found == "rs"),
        found_in: |line| line.contains(concat!("env!(\"CARGO_", "MANIFEST_DIR\")")),
        except: &[],
    },
    Rule {
        why: "a path of somebody's machine",
        applies: |_| true,
        found_in: names_a_machine_path,
        except: &[],
    },
];

fn is_test_source(path: &Path) -> bool {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let in_tests = path.components().any(|part| part.as_os_str() == "tests");
    path.extension().is_some_and(|found| found == "rs")
        && (in_tests || stem.ends_with("_tests") || stem == "tests")
}

/// A call of anything whose whole name is `sleep`, however it was imported.
fn sleeps(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    code.match_indices("sleep(")
        .any(|(at, _)| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// An absolute path into a folder that only exists on one machine.
fn names_a_machine_path(line: &str) -> bool {
    ["home", "root", "work", "Users"].into_iter().any(|folder| {
        let path = format!("/{folder}/");
        // Further up the path or the address something else stands before it.
        line.match_indices(&path)
            .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-/~$}*>)".contains(c)))
    })
}

#[test]
fn no_line_breaks_a_rule() {
    let mut violations = Vec::new();
    let mut unused: Vec<_> = RULES.iter().flat_map(|rule| rule.except).collect();
    for path in files() {
        // Not text: nothing to read.
        let Ok(text) = std::fs::read_to_string(root().join(&path)) else {
            continue;
        };
        for rule in RULES.iter().filter(|rule| (rule.applies)(&path)) {
            let breaks = |(_, line): &(usize, &str)| (rule.found_in)(line);
            let mut found = text.lines().enumerate().filter(breaks).peekable();
            if let Some(exception) = rule.except.iter().find(|(except, _)| path == Path::new(except)) {
                if found.peek().is_some() {
                    unused.retain(|other| *other != exception);
                }
                continue;
            }
            violations.extend(found.map(|(at, _)| format!("{}:{}: {}", path.display(), at + 1, rule.why)));
        }
    }
    violations.extend(unused.iter().map(|(path, why)| format!("{path} needs no exception any more: {why}")));
    assert_none(&violations);
}

#[test]
fn no_source_file_is_too_long() {
    let long = texts("rs").filter_map(|(path, text)| {
        let lines = text.lines().count();
        (lines > MAX_LINES).then(|| format!("{}: {lines} lines, at most {MAX_LINES}", path.display()))
    });
    assert_none(&long.collect::<Vec<_>>());
}

#[test]
fn sleeping_is_recognised() {
    for line in ["std::thread::sleep(long);", "tokio::time::sleep(x).await", "    sleep(x).await"] {
        assert!(sleeps(line), "{line}");
    }
    for line in ["tokio::time::sleep_until(x)", "// sleep(x)", "fn no_sleep(x: u8)", "let sleep = 1;"] {
        assert!(!sleeps(line), "{line}");
    }
}

#[test]
fn tests_are_recognised() {
    for path in
        ["tests/a/src/lib.rs", "crates/a/src/b_tests.rs", "crates/a/tests/b.rs", "crates/a/src/tests.rs"]
    {
        assert!(is_test_source(Path::new(path)), "{path}");
    }
    for path in ["crates/a/src/b.rs", "tests/a/b.sh"] {
        assert!(!is_test_source(Path::new(path)), "{path}");
    }
}

#[test]
fn machine_paths_are_recognised() {
    for folder in ["home", "root", "work", "Users"] {
        for (before, after, found) in [
            ("", "me/file", true),
            ("cd ", "x", true),
            ("\"", "x\"", true),
            ("PATH=", "x", true),
            ("https://example.org", "x", false),
            ("$HOME", "x", false),
            ("docs", "x", false),
        ] {
            let line = format!("{before}/{folder}/{after}");
            assert_eq!(names_a_machine_path(&line), found, "{line}");
        }
    }
}
