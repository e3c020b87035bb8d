//! What cannot be done is told in one line.

use std::net::TcpListener;
use std::process::Output;

use crate::playground;

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
