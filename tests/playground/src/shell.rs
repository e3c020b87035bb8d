//! Commands, run as people run them.

use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Where commands run, and which cluster they mean.
#[derive(Clone, Debug)]
pub struct Shell {
    /// The folder that commands run in.
    pub folder: PathBuf,
    /// Which cluster they mean, and which namespace.
    pub kubeconfig: PathBuf,
    /// Where programs are found before anywhere else.
    pub programs: PathBuf,
}

/// What a command said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Whether it succeeded.
    pub success: bool,
    /// What it printed, errors last.
    pub text: String,
}

/// How long any command may take: most take a fraction of a second.
const DEADLINE: Duration = Duration::from_mins(2);

impl Shell {
    fn command(&self, line: &str) -> io::Result<Command> {
        let machine = std::env::var_os("PATH").unwrap_or_default();
        let path = std::iter::once(self.programs.clone()).chain(std::env::split_paths(&machine));
        let mut command = Command::new("timeout");
        command
            .args([&DEADLINE.as_secs().to_string(), "sh", "-c", line])
            .current_dir(&self.folder)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", self.kubeconfig.parent().unwrap_or(Path::new("/")))
            .env("PATH", std::env::join_paths(path).map_err(io::Error::other)?);
        Ok(command)
    }

    /// Runs a line of shell.
    pub fn run(&self, line: &str) -> io::Result<Said> {
        let output = self.command(line)?.stdin(Stdio::null()).output()?;
        let text = [output.stdout, output.stderr].concat();
        Ok(Said { success: output.status.success(), text: String::from_utf8_lossy(&text).into_owned() })
    }

    /// Runs a program that does not end by itself until what it has printed is enough, and then ends it; `begun` happens
    /// once it has printed something.
    pub fn until(
        &self,
        line: &str,
        begun: impl FnOnce(),
        enough: impl Fn(&str) -> bool,
    ) -> io::Result<String> {
        let mut child = self.command(&format!("exec {line}"))?.stdout(Stdio::piped()).spawn()?;
        let Some(output) = child.stdout.take() else {
            return Err(io::Error::other("a program without output"));
        };
        let (sender, lines) = mpsc::channel();
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let (end, mut text) = (Instant::now() + DEADLINE, String::new());
        let mut begun = Some(begun);
        while !enough(&text)
            && let Ok(line) = lines.recv_timeout(end.saturating_duration_since(Instant::now()))
        {
            text.push_str(&line);
            text.push('\n');
            if let Some(begun) = begun.take() {
                begun();
            }
        }
        // `timeout` passes it on to the program that it runs.
        let ended = Command::new("kill").arg(child.id().to_string()).status();
        let (waited, read) = (child.wait(), reader.join());
        ended.and(waited)?;
        read.map_err(|_| io::Error::other("what was printed could not be read"))?;
        if enough(&text) {
            Ok(text)
        } else {
            Err(io::Error::other(format!("only this was printed:\n{text}")))
        }
    }
}
