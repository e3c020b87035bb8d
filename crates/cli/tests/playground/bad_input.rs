//! What cannot be done is told in one line.

use std::net::TcpListener;
use std::process::Output;

use crate::playground;
use crate::pty::Terminal;

fn run(arguments: &[&str]) -> Output {
    playground(arguments).output().expect("the binary runs")
}

/// The one line that the failure is told in.
fn refusal(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.starts_with("sts-plus: ") && !error.contains("panicked"), "{error}");
    error
}

#[test]
fn a_port_that_is_taken_is_named_with_the_flag_to_choose_another() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("bound").port().to_string();
    let error = refusal(&run(&["--port", &port]));
    assert!(error.contains(&port) && error.contains("--port"), "{error}");
}

#[test]
fn a_data_folder_that_cannot_be_made_is_named() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let folder = file.path().join("data");
    let error = refusal(&run(&["--port", "0", "--data-dir", folder.to_str().expect("UTF-8")]));
    assert!(error.contains(folder.to_str().expect("UTF-8")), "{error}");
}

#[test]
fn an_identity_that_cannot_be_read_is_named_and_kept() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("identity.json");
    std::fs::write(&file, "{").expect("a temporary file");
    let error = refusal(&run(&["--port", "0", "--data-dir", folder.path().to_str().expect("UTF-8")]));
    assert!(error.contains("identity.json"), "{error}");
    assert_eq!(std::fs::read_to_string(&file).expect("still there"), "{");
}

#[test]
fn an_address_that_is_none_is_refused_by_its_name() {
    let output = run(&["--address", "nowhere"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("nowhere"));
}

/// A playground that has been left, in a folder of its own.
fn left() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut terminal = start(&folder);
    terminal.wait("a workload", |screen| screen.contains("GROUP store"));
    terminal.press("q");
    assert!(terminal.end().success());
    folder
}

fn start(folder: &tempfile::TempDir) -> Terminal {
    let folder = folder.path().to_str().expect("UTF-8");
    Terminal::start(&mut playground(&["--fast", "--port", "0", "--data-dir", folder]), (80, 24))
}

#[test]
fn a_damaged_data_file_is_refused_with_a_copy_kept_and_nothing_overwritten() {
    let folder = left();
    let file = folder.path().join("cluster.redb");
    std::fs::write(&file, "no database").expect("a file of the test's own");
    let error = refusal(&run(&["--port", "0", "--data-dir", folder.path().to_str().expect("UTF-8")]));
    assert!(error.contains("is damaged") && error.contains("a copy is in"), "{error}");
    assert_eq!(std::fs::read_to_string(&file).expect("still there"), "no database");
}

#[test]
fn a_data_file_of_a_newer_version_is_refused_and_left_as_it_is() {
    let folder = left();
    let file = folder.path().join("cluster.redb");
    let database = redb::Database::open(&file).expect("the file of a cluster");
    let write = database.begin_write().expect("a file of the test's own");
    let about = redb::TableDefinition::<&str, u64>::new("about");
    write
        .open_table(about)
        .and_then(|mut about| Ok(about.insert("format", 999).map(drop)?))
        .expect("its format");
    write.commit().expect("written");
    drop(database);
    let before = std::fs::read(&file).expect("a file");
    let error = refusal(&run(&["--port", "0", "--data-dir", folder.path().to_str().expect("UTF-8")]));
    assert!(error.contains("newer version") && error.contains("999"), "{error}");
    assert!(std::fs::read(&file).expect("still there") == before);
}

#[test]
fn a_data_folder_that_is_in_use_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut terminal = start(&folder);
    terminal.wait("a workload", |screen| screen.contains("GROUP store"));
    let error = refusal(&run(&["--port", "0", "--data-dir", folder.path().to_str().expect("UTF-8")]));
    assert!(error.contains("in use by another process"), "{error}");
    terminal.press("q");
    assert!(terminal.end().success());
}

#[test]
fn a_playground_goes_on_where_it_was_left() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // Events speak of outdated pods, too.
    let is_outdated = |line: &str| line.contains('●') && line.contains("outdated");
    let is_done = |screen: &str| screen.matches('●').count() == 12 && !screen.lines().any(is_outdated);
    let mut terminal = start(&folder);
    terminal.wait("the first rollout", |screen| screen.contains("VERSION=2"));
    terminal.wait("its end", is_done);
    terminal.press("q");
    assert!(terminal.end().success());
    let identity = std::fs::read(folder.path().join("identity.json")).expect("who it is");

    let mut terminal = start(&folder);
    terminal.wait("the same pods", is_done);
    terminal.press("n");
    // No rollout has started by itself: the next version is the third.
    let third = terminal.wait("the next rollout", |screen| screen.contains("$ kubectl set env"));
    assert!(third.contains("VERSION=3"), "{third}");
    terminal.wait("its end", |screen| screen.contains("VERSION=3") && is_done(screen));
    terminal.press("q");
    assert!(terminal.end().success());
    assert_eq!(std::fs::read(folder.path().join("identity.json")).expect("who it is"), identity);
    assert!(folder.path().join("kubeconfig").exists());
}
