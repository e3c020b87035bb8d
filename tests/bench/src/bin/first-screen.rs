//! Measures the playground as a newcomer meets it: how long until its first screen, and what it holds once nothing is left
//! to do.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Parser;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// How often the first screen is waited for.
const STARTS: usize = 10;
/// What stands in the first screen and in nothing before it.
const FIRST: &str = "zone-a";
/// How long the first rollout takes at most, and a while of nothing after it.
const REST: Duration = Duration::from_secs(90);
/// When a start that shows nothing is given up.
const DEADLINE: Duration = Duration::from_secs(30);

/// Measures the playground.
#[derive(Debug, Parser)]
struct Arguments {
    /// The binary to measure
    #[arg(long)]
    binary: PathBuf,
}

fn main() -> ExitCode {
    match run(&Arguments::parse().binary) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("first-screen: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(binary: &Path) -> Result<()> {
    let mut starts = Vec::new();
    for _ in 0..STARTS {
        let mut player = Player::start(binary)?;
        starts.push(player.first_screen()?);
    }
    starts.sort_unstable();
    let at = |rank: usize| starts.get(rank).map_or(0, Duration::as_millis);
    println!("| what | measured | goal |\n|---|---|---|");
    println!(
        "| first screen after the start, median of {STARTS} | {} ms ({} to {}) | 2000 ms |",
        at(STARTS / 2),
        at(0),
        at(STARTS - 1)
    );
    let mut player = Player::start(binary)?;
    player.first_screen()?;
    player.watch(REST)?;
    println!("| resident once the first rollout is over | {:.0} MiB | 60 MiB |", player.resident()?);
    Ok(())
}

/// A playground in a terminal of its own.
struct Player {
    child: Child,
    screen: Receiver<Vec<u8>>,
    began: Instant,
}

impl Player {
    fn start(binary: &Path) -> Result<Self> {
        let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&screen)?;
        unlockpt(&screen)?;
        tcsetwinsize(&screen, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 })?;
        let name = ptsname(&screen, Vec::new())?;
        let terminal = OpenOptions::new().read(true).write(true).open(name.to_str()?)?;
        let began = Instant::now();
        let child = Command::new(binary)
            .args(["playground", "--port", "0"])
            .env("TERM", "xterm-256color")
            .stdin(Stdio::from(terminal.try_clone()?))
            .stdout(Stdio::from(terminal.try_clone()?))
            .stderr(Stdio::from(terminal))
            .spawn()
            .with_context(|| binary.display().to_string())?;
        Ok(Self { child, screen: told(File::from(screen)), began })
    }

    fn first_screen(&mut self) -> Result<Duration> {
        let mut text = Vec::new();
        while let Some(left) = DEADLINE.checked_sub(self.began.elapsed()) {
            text.extend(self.screen.recv_timeout(left).unwrap_or_default());
            if text.windows(FIRST.len()).any(|window| window == FIRST.as_bytes()) {
                return Ok(self.began.elapsed());
            }
        }
        bail!("no screen: {}", String::from_utf8_lossy(&text))
    }

    /// Lets a measured stretch of time pass.
    fn watch(&mut self, length: Duration) -> Result<()> {
        let end = Instant::now() + length;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            if self.screen.recv_timeout(left) == Err(RecvTimeoutError::Disconnected) {
                bail!("the playground has gone");
            }
        }
        Ok(())
    }

    /// Memory in MiB.
    fn resident(&self) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kib: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kib / 1024.0)
    }
}

/// What is written to a terminal, as it comes.
fn told(mut screen: File) -> Receiver<Vec<u8>> {
    let (tell, told) = channel();
    // Ends with the terminal.
    thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(count @ 1..) = screen.read(&mut bytes) {
            if tell.send(bytes.iter().take(count).copied().collect()).is_err() {
                return;
            }
        }
    });
    told
}

impl Drop for Player {
    fn drop(&mut self) {
        // Asked first, so that it leaves nothing behind.
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if pid.is_none_or(|pid| kill_process(pid, Signal::TERM).is_err()) {
            self.child.kill().ok();
        }
        self.child.wait().ok();
    }
}
