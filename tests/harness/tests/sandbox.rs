//! A sandbox keeps a node's traces from the machine, however the test ends.

#![expect(
    clippy::unwrap_used,
    reason = "a test, which clippy recognises by an attribute that this kind does not have"
)]

use std::{
    env, fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    thread,
    time::Duration,
};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use rustix::process::{Pid, Signal, kill_process};
use sts_plus_harness::{
    cannot_run,
    sandbox::{Place, Sandbox, supported},
    wait::{NotYet, until},
};
use tokio::runtime::Builder;

/// Set for the copies of this program that play a test in a sandbox.
const ROLE: &str = "SANDBOX_TEST_ROLE";
/// How a role ends that has nothing to complain about; no failure of anything else looks like it.
const CONTENT: i32 = 7;
const DEADLINE: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    if let Ok(role) = env::var(ROLE) {
        return match Sandbox::enter().unwrap() {
            Place::Outside(code) => code,
            Place::Inside(sandbox) => {
                match role.as_str() {
                    "hang" => hang(&sandbox),
                    "scribble" => scribble(),
                    _ => {}
                }
                ExitCode::from(u8::try_from(CONTENT).unwrap())
            }
        };
    }
    let trials = vec![
        trial("what_is_written_to_the_machine_is_gone_afterwards", scribbles),
        trial("the_next_sandbox_removes_what_a_killed_one_left", killed),
        trial("a_sandbox_that_is_asked_to_stop_leaves_nothing", stopped),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial(name: &str, test: fn()) -> Trial {
    Trial::ignorable_test(name, move || -> Result<Completion, Failed> {
        if let Err(error) = supported() {
            return cannot_run(error);
        }
        test();
        Ok(Completion::Completed)
    })
}

const FILES: [&str; 3] = ["/run/sts-plus-scribble", "/var/lib/sts-plus-scribble", "/opt/sts-plus-scribble"];
const SETTING: &str = "/proc/sys/kernel/panic";

/// Does what containerd and kubelet do.
fn scribble() {
    for file in FILES {
        fs::write(file, "").unwrap();
    }
    let other = fs::read_to_string(SETTING).unwrap().trim().parse::<i32>().unwrap() + 1;
    fs::write(SETTING, other.to_string()).unwrap();
    assert_eq!(fs::read_to_string(SETTING).unwrap(), other.to_string());
    let interfaces = fs::read_to_string("/proc/net/dev").unwrap();
    assert_eq!(interfaces.matches(':').count(), 1, "no way out but lo: {interfaces}");
}

fn scribbles() {
    let setting = fs::read_to_string(SETTING).unwrap();
    assert_eq!(play("scribble").wait().unwrap().code(), Some(CONTENT));
    assert_eq!(fs::read_to_string(SETTING).unwrap(), setting);
    for file in FILES {
        assert!(!Path::new(file).exists(), "{file}");
    }
}

/// Starts a process that nobody waits for, as a container's shim does, and hangs.
fn hang(sandbox: &Sandbox) {
    let name = sandbox.cgroup();
    let own = cgroups(name.trim_start_matches('/')).pop().unwrap().join("container");
    fs::create_dir(&own).unwrap();
    let script = format!("(echo 0 >{}/cgroup.procs; exec setsid sleep 1000) &", own.display());
    assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
    eventually("the process to be in its cgroup", || !processes(&own).is_empty());
    println!("{}", sandbox.folder().display());
    loop {
        thread::park();
    }
}

struct Hanging {
    guard: Child,
    folder: PathBuf,
    /// As seen from here.
    orphan: u32,
}

impl Hanging {
    fn start() -> Self {
        let mut guard = play("hang");
        let mut folder = String::new();
        BufReader::new(guard.stdout.take().unwrap()).read_line(&mut folder).unwrap();
        let folder = PathBuf::from(folder.trim());
        assert!(folder.is_dir());
        let orphan = cgroups(&name(&folder)).iter().find_map(|at| processes(&at.join("container")).pop());
        Self { guard, folder, orphan: orphan.unwrap() }
    }

    fn remains(&self) -> bool {
        self.folder.exists() || !cgroups(&name(&self.folder)).is_empty()
    }

    fn runs(&self) -> bool {
        Path::new("/proc").join(self.orphan.to_string()).exists()
    }
}

fn killed() {
    let mut killed = Hanging::start();
    let mut alive = Hanging::start();
    assert!(killed.runs() && alive.runs());

    killed.guard.kill().unwrap();
    killed.guard.wait().unwrap();
    eventually("the kernel to kill what was inside", || !killed.runs());

    assert_eq!(play("nothing").wait().unwrap().code(), Some(CONTENT));
    assert!(!killed.remains());
    assert!(alive.remains() && alive.runs(), "another's is left alone");
    stop(&mut alive);
}

fn stopped() {
    let mut stopped = Hanging::start();
    stop(&mut stopped);
    assert!(!stopped.remains() && !stopped.runs());
}

fn stop(hanging: &mut Hanging) {
    kill_process(Pid::from_child(&hanging.guard), Signal::TERM).unwrap();
    let status = hanging.guard.wait().unwrap();
    assert_eq!(status.code(), Some(1), "it did not end by itself, and cleared away before it did");
}

/// Runs this program in the given role.
fn play(role: &str) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.env(ROLE, role).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
}

fn name(folder: &Path) -> String {
    folder.file_name().unwrap().to_string_lossy().into_owned()
}

/// The cgroups of this name, one or none in each hierarchy.
fn cgroups(name: &str) -> Vec<PathBuf> {
    let root = PathBuf::from("/sys/fs/cgroup");
    let hierarchies = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path()).chain([root.clone()]);
    hierarchies.map(|hierarchy| hierarchy.join(name)).filter(|cgroup| cgroup.is_dir()).collect()
}

fn processes(cgroup: &Path) -> Vec<u32> {
    let ids = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    ids.lines().map(|id| id.parse().unwrap()).collect()
}

fn eventually(what: &str, condition: impl Fn() -> bool) {
    let look = || async { if condition() { Ok(()) } else { Err(NotYet::saw("it is not so")) } };
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(until(DEADLINE, what, look));
}
