//! A child process that never outlives the test.

use std::{
    fs::{self, OpenOptions},
    io,
    path::{Path, PathBuf},
    process::{self, Child, Command, ExitStatus, Stdio},
    sync::{LazyLock, mpsc},
    thread,
    time::{Duration, Instant},
};

pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};

/// How long a process may take to stop by itself. The API server drains watches for much longer, for which
/// no test needs to wait.
pub const STOP_GRACE: Duration = Duration::from_secs(1);

/// Between two looks whether a process has ended.
const EXIT_POLL: Duration = Duration::from_millis(5);

/// How much of a log is worth printing when something went wrong.
const TAIL_LINES: usize = 30;

/// The kernel was asked to kill the child with its parent; a parent that died before that is not noticed.
const START_UNLESS_ORPHANED: &str = r#"[ "$PPID" = "$0" ] && exec "$@""#;

/// A running child with its output in a file; dropping it stops it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
}

/// What went wrong with a child process.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// Its log file could not be opened.
    #[error("log {} cannot be written: {source}", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It could not be started.
    #[error("{program} cannot be started (through setpriv of util-linux): {source}")]
    Spawn {
        /// What was to run.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// It could not be sent a signal.
    #[error("process {pid} cannot be signalled: {source}")]
    Signal {
        /// Its id.
        pid: u32,
        /// Why.
        source: io::Error,
    },
    /// It has already ended.
    #[error("process {pid} has ended: {status}")]
    Ended {
        /// The id that it had.
        pid: u32,
        /// How it ended.
        status: ExitStatus,
    },
}

type Spawn = (Command, mpsc::SyncSender<io::Result<Child>>);

/// The kernel kills a child when the *thread* that started it ends, and a test's thread may end long before
/// the test run does; this one never ends before the process.
static SPAWNER: LazyLock<mpsc::Sender<Spawn>> = LazyLock::new(|| {
    let (sender, receiver) = mpsc::channel::<Spawn>();
    thread::spawn(move || {
        for (mut command, reply) in receiver {
            // Whoever asked may have been dropped meanwhile; the child then goes with the reply.
            let _ = reply.send(command.spawn());
        }
    });
    sender
});

impl Process {
    /// Starts program, arguments, environment and folder of `command` with standard output and error
    /// appended to `log`. The process has the id of the program itself, no wrapper stays between.
    pub fn spawn(command: &Command, log: impl Into<PathBuf>) -> Result<Self, ProcessError> {
        let log = log.into();
        let failed = |source| ProcessError::Log { path: log.clone(), source };
        let output = OpenOptions::new().create(true).append(true).open(&log).map_err(failed)?;
        let errors = output.try_clone().map_err(failed)?;

        let mut bound = bound(command);
        bound.stdin(Stdio::null()).stdout(output).stderr(errors);

        let (reply, answer) = mpsc::sync_channel(1);
        let gone = || io::Error::other("the thread that starts processes is gone");
        let child = SPAWNER
            .send((bound, reply))
            .map_err(|_| gone())
            .and_then(|()| answer.recv().unwrap_or_else(|_| Err(gone())))
            .map_err(|source| ProcessError::Spawn {
                program: command.get_program().to_string_lossy().into_owned(),
                source,
            })?;
        Ok(Self { child, log })
    }

    /// The id of the program.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The file with everything it printed.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The last lines of its log.
    pub fn log_tail(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().collect();
        lines.get(lines.len().saturating_sub(TAIL_LINES)..).unwrap_or_default().join("\n")
    }

    /// How it ended, if it has.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Sends a signal to exactly this process.
    pub fn signal(&mut self, signal: Signal) -> Result<(), ProcessError> {
        let pid = self.pid();
        // Once its end has been collected, the id may belong to somebody else.
        if let Some(status) = self.exited() {
            return Err(ProcessError::Ended { pid, status });
        }
        kill_process(Pid::from_child(&self.child), signal)
            .map_err(|source| ProcessError::Signal { pid, source: source.into() })
    }

    /// Blocks until it has ended or the time is over.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let end = Instant::now() + limit;
        loop {
            let status = self.exited();
            if status.is_some() || Instant::now() >= end {
                return status;
            }
            thread::sleep(EXIT_POLL);
        }
    }

    /// Asks it to stop and kills it when it has not within [`STOP_GRACE`]; blocks until it is gone.
    pub fn stop(&mut self) {
        if self.signal(Signal::TERM).is_ok() && self.wait(STOP_GRACE).is_none() {
            self.kill();
        }
    }

    /// Kills it; blocks until it is gone.
    pub fn kill(&mut self) {
        if self.signal(Signal::KILL).is_ok() {
            let _ = self.child.wait();
        }
    }
}

/// The same command, as a process that the kernel kills when the thread that starts it ends.
pub(crate) fn bound(command: &Command) -> Command {
    let mut bound = Command::new("setpriv");
    bound
        .args(["--pdeathsig", "KILL", "--", "sh", "-c", START_UNLESS_ORPHANED])
        .arg(process::id().to_string());
    bound.arg(command.get_program()).args(command.get_args());
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => bound.env(key, value),
            None => bound.env_remove(key),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        bound.current_dir(folder);
    }
    bound
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}
