//! Processes started by a test die with it, however it ends.

#![expect(
    clippy::unwrap_used,
    reason = "a test, which clippy recognises by an attribute that this kind does not have"
)]

use std::{
    env,
    fs::{self, File},
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, ExitCode, Stdio},
    thread,
    time::Duration,
};

use libtest_mimic::{Arguments, Failed, Trial};
use sts_plus_harness::{
    process::{Process, ProcessError, Signal},
    wait::{NotYet, until},
};
use tokio::runtime::Builder;

/// Set for the copy of this program that plays a test which is killed.
const VICTIM: &str = "HARNESS_TEST_VICTIM";
const DEADLINE: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    if env::var_os(VICTIM).is_some() {
        victim();
    }
    let trials = vec![
        Trial::test("a_killed_test_takes_its_processes_with_it", killed_test),
        Trial::test("a_process_outlives_the_thread_that_asked_for_it", ended_thread),
        Trial::test("drop_stops_a_process_that_ignores_sigterm", || {
            stubborn();
            Ok(())
        }),
        Trial::test("signals_reach_the_program_itself", signals),
        Trial::test("environment_folder_and_output_are_passed_on", output),
        Trial::test("a_program_that_does_not_exist_ends_and_says_so", absent),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A test that starts a process and hangs.
fn victim() -> ! {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::spawn(Command::new("sleep").arg("1000"), folder.path().join("log")).unwrap();
    println!("{}", process.pid());
    loop {
        thread::park();
    }
}

fn killed_test() -> Result<(), Failed> {
    let mut test = Command::new(env::current_exe()?)
        .env(VICTIM, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(test.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    let pid: u32 = line.trim().parse()?;
    assert!(runs(pid));
    test.kill()?;
    test.wait()?;
    eventually("the process of a killed test to be gone", || !runs(pid));
    Ok(())
}

fn ended_thread() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("log");
    let asking = thread::spawn(move || {
        let process = Process::spawn(Command::new("sleep").arg("1000"), log).unwrap();
        eventually("setpriv to become sleep", || name(process.pid()).as_deref() == Some("sleep"));
        process
    });
    let mut process = asking.join().map_err(|_| "the thread panicked")?;
    // Were it bound to that thread, the signal would have been sent before the join returned.
    assert!(process.wait(Duration::from_millis(200)).is_none());
    process.kill();
    Ok(())
}

fn stubborn() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let script = "trap '' TERM; echo ready; while true; do sleep 0.1; done";
    let process = Process::spawn(Command::new("bash").args(["-c", script]), &log).unwrap();
    eventually("the trap to be set", || fs::read_to_string(&log).is_ok_and(|text| text == "ready\n"));
    let pid = process.pid();
    drop(process);
    assert!(!runs(pid));
}

fn signals() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let mut process = Process::spawn(Command::new("sleep").arg("1000"), folder.path().join("log"))?;
    eventually("setpriv to become sleep", || name(process.pid()).as_deref() == Some("sleep"));
    process.signal(Signal::STOP)?;
    eventually("sleep to be stopped", || state(process.pid()) == Some('T'));
    process.signal(Signal::CONT)?;
    eventually("sleep to go on", || state(process.pid()) == Some('S'));
    process.signal(Signal::TERM)?;
    let status = process.wait(DEADLINE).ok_or("it did not end")?;
    assert!(!status.success());
    assert!(matches!(process.signal(Signal::TERM), Err(ProcessError::Ended { .. })));
    Ok(())
}

fn output() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let mut command = Command::new("sh");
    command.args(["-c", "pwd; echo $WORD >&2"]).env("WORD", "hello").current_dir("/");
    let mut process = Process::spawn(&command, folder.path().join("log"))?;
    assert!(process.wait(DEADLINE).is_some_and(|status| status.success()));
    assert_eq!(process.log_tail(), "/\nhello");
    Ok(())
}

fn absent() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let mut process = Process::spawn(&Command::new("/nonexistent/program"), folder.path().join("log"))?;
    assert!(process.wait(DEADLINE).is_some_and(|status| !status.success()));
    assert!(process.log_tail().contains("/nonexistent/program"), "{}", process.log_tail());
    Ok(())
}

fn runs(pid: u32) -> bool {
    // A zombie that nobody has collected yet no longer runs.
    state(pid).is_some_and(|state| state != 'Z')
}

fn state(pid: u32) -> Option<char> {
    field(pid, "State:")?.chars().next()
}

fn name(pid: u32) -> Option<String> {
    field(pid, "Name:")
}

fn field(pid: u32, key: &str) -> Option<String> {
    let status = File::open(Path::new("/proc").join(pid.to_string()).join("status")).ok()?;
    let line = BufReader::new(status).lines().map_while(Result::ok).find(|line| line.starts_with(key))?;
    Some(line.trim_start_matches(key).trim().to_owned())
}

fn eventually(what: &str, condition: impl Fn() -> bool) {
    let look = || async { if condition() { Ok(()) } else { Err(NotYet::saw("it is not so")) } };
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(until(DEADLINE, what, look));
}
