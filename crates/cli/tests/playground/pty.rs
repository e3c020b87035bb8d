//! A program in a pseudo-terminal, and what a person in front of it would see.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

/// Bounds a hang; what is waited for takes a few seconds.
pub(crate) const DEADLINE: Duration = Duration::from_mins(2);

/// What the screen of the terminal has at least, whatever size the program is told: vt100 cannot wrap a line where there is no
/// other line, nor draw a wide character where there is one column, and output for the size before may still be on its way.
const LEAST: u16 = 2;

/// A program and the terminal that it runs in.
pub(crate) struct Terminal {
    child: Child,
    master: File,
    slave: File,
    seen: Arc<(Mutex<Seen>, Condvar)>,
}

/// What has been on the screen.
pub(crate) struct Seen {
    /// The screen as it is.
    pub(crate) parser: vt100::Parser,
    /// Every screen there was, the last one last.
    pub(crate) frames: Vec<String>,
    /// All that was written, and when.
    pub(crate) chunks: Vec<(Instant, Vec<u8>)>,
}

impl Terminal {
    /// Starts the program in a terminal of this size.
    pub(crate) fn start(command: &mut Command, (columns, rows): (u16, u16)) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
        grantpt(&master).expect("a pseudo-terminal that may be used");
        unlockpt(&master).expect("a pseudo-terminal that may be opened");
        let name = ptsname(&master, Vec::new()).expect("its name");
        let slave = Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
        let slave = OpenOptions::new().read(true).write(true).open(slave).expect("its other end");
        let master = File::from(master);
        resize(&master, columns, rows);
        let end = || slave.try_clone().expect("a copy of the terminal");
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().expect("the program runs");
        let parser = vt100::Parser::new(rows, columns, 0);
        let seen =
            Arc::new((Mutex::new(Seen { parser, frames: Vec::new(), chunks: Vec::new() }), Condvar::new()));
        let (source, sink) = (master.try_clone().expect("a copy of the terminal"), Arc::clone(&seen));
        // Ends with the terminal.
        drop(std::thread::spawn(move || read(source, &sink)));
        Self { child, master, slave, seen }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("a terminal that takes keys");
    }

    /// Gives the terminal another size, and tells the program as the kernel would.
    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        self.look(|seen| seen.parser.screen_mut().set_size(rows.max(LEAST), columns.max(LEAST)));
        resize(&self.master, columns, rows);
        self.signal("WINCH");
    }

    pub(crate) fn signal(&self, name: &str) {
        let killed = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(killed.expect("kill runs").success());
    }

    /// How the terminal is set: canonical, echoing, and so on.
    pub(crate) fn settings(&self) -> Termios {
        tcgetattr(&self.slave).expect("a terminal")
    }

    pub(crate) fn look<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.seen.0.lock().expect("nobody panicked"))
    }

    /// Now, for [`Terminal::wait_since`].
    pub(crate) fn mark(&self) -> usize {
        self.look(|seen| seen.frames.len())
    }

    /// Waits for a screen that is as described, and returns it.
    pub(crate) fn wait(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        self.wait_since(self.mark().saturating_sub(1), what, is_so)
    }

    /// Waits for a screen that is or was as described since a mark, and returns it.
    pub(crate) fn wait_since(&self, mark: usize, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let found = self.find_since(mark, DEADLINE, is_so);
        assert!(found.is_ok(), "{what} was not seen:\n{}", found.unwrap_or_else(|last| last));
        found.unwrap_or_default()
    }

    /// Looks for a screen that is or was as described since a mark for so long; the last one, where there is none.
    pub(crate) fn find_since(
        &self,
        mark: usize,
        limit: Duration,
        is_so: impl Fn(&str) -> bool,
    ) -> Result<String, String> {
        let (seen, changed) = &*self.seen;
        let mut seen = seen.lock().expect("nobody panicked");
        let (mut next, until) = (mark, Instant::now() + limit);
        loop {
            if let Some(frame) = seen.frames.iter().skip(next).find(|frame| is_so(frame)) {
                return Ok(frame.clone());
            }
            next = seen.frames.len();
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(seen.frames.last().cloned().unwrap_or_default());
            }
            seen = changed.wait_timeout(seen, left).expect("nobody panicked").0;
        }
    }

    /// Waits for the program to end, and for all that it wrote.
    pub(crate) fn end(&mut self) -> ExitStatus {
        const OVER: &str = "that was all";
        let status = self.child.wait().expect("a program that was started");
        let mark = self.mark();
        // Behind whatever the program wrote last.
        write!(self.slave, "\r\n{OVER}\r\n").expect("a terminal that can be written to");
        self.wait_since(mark, OVER, |screen| screen.contains(OVER));
        status
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn resize(terminal: &File, columns: u16, rows: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).expect("a terminal of that size");
}

fn read(mut source: File, (seen, changed): &(Mutex<Seen>, Condvar)) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(read @ 1..) = source.read(&mut bytes) {
        let mut seen = seen.lock().expect("nobody panicked");
        seen.parser.process(&bytes[..read]);
        let frame = seen.parser.screen().contents();
        seen.frames.push(frame);
        seen.chunks.push((Instant::now(), bytes[..read].to_vec()));
        changed.notify_all();
    }
}

#[test]
fn a_screen_that_shrinks_takes_what_was_written_for_the_one_before() {
    let mut program = Command::new("sleep");
    let mut terminal = Terminal::start(program.arg("1000"), (80, 24));
    for (columns, rows) in [(40, 10), (1, 1), (0, 0), (80, 24)] {
        let mark = terminal.mark();
        terminal.resize(columns, rows);
        let last_line = format!("\u{1b}[24;1H{}", "\u{4e16}wide".repeat(16));
        terminal.slave.write_all(last_line.as_bytes()).expect("a terminal that can be written to");
        terminal.wait_since(mark, "what was written", |_| true);
    }
}
