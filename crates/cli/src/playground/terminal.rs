//! The terminal: entered, drawn on, read from, and left as it was found, however the playground ends.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anyhow::{Context, Result};
use ratatui::DefaultTerminal;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use tokio::sync::mpsc;

use super::draw::{Look, draw};
use super::guide::Guide;
use super::lines::lines;
use super::picture::Picture;

/// How long the reader of keys waits before it looks whether anybody still wants them.
const POLL: Duration = Duration::from_millis(200);

/// Keys that may wait; somebody who leans on one is not heard more often than that.
const MAX_WAITING_KEYS: usize = 16;

/// What somebody at the terminal does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    Key(char),
    Resized,
    Quit,
}

/// Where pictures go.
pub(super) enum Display {
    Screen(Screen),
    /// The picture that was told last.
    Lines(Box<Picture>),
}

impl Display {
    /// The screen if there is one that somebody looks at, else lines.
    pub(super) fn open(address: &str, guide: &Guide) -> Result<Self> {
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        if is_dumb || !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            return match write(&greeting(address, guide)) {
                // Whoever has seen enough already is noticed with the next line.
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("cannot write"),
                _ => Ok(Self::Lines(Box::default())),
            };
        }
        Screen::enter()
            .map(Self::Screen)
            .context("cannot draw on this terminal; for lines, try: sts-plus playground | cat")
    }

    /// Shows a picture. False: nobody looks any more, such as when lines go to head.
    pub(super) fn show(&mut self, picture: &Picture) -> io::Result<bool> {
        let shown = match self {
            Self::Screen(screen) => screen.show(picture),
            Self::Lines(told) => {
                let lines = lines(told, picture, jiff::Timestamp::now());
                **told = picture.clone();
                write(&lines)
            }
        };
        match shown {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            shown => shown.map(|()| true),
        }
    }

    /// What is done at the terminal; nothing ever where there is none.
    pub(super) fn inputs(&self) -> mpsc::Receiver<Input> {
        let (inputs, received) = mpsc::channel(MAX_WAITING_KEYS);
        match self {
            // Reading blocks, so it has a thread of its own, which ends with the receiver.
            Self::Screen(_) => drop(std::thread::spawn(move || read(&inputs))),
            // The thread keeps the sender: a channel without one would say that all is over.
            Self::Lines(_) => drop(tokio::spawn(async move { inputs.closed().await })),
        }
        received
    }
}

fn write(lines: &[String]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in lines {
        writeln!(out, "{line}")?;
    }
    out.flush()
}

/// What somebody without a screen has to know.
fn greeting(address: &str, guide: &Guide) -> Vec<String> {
    let first = format!("sts-plus playground at {address}; Ctrl-C ends it. Try in another terminal:");
    std::iter::once(first).chain(guide.long().map(|command| format!("  {command}"))).collect()
}

/// A terminal in our hands until this is dropped.
pub(super) struct Screen {
    terminal: DefaultTerminal,
    look: Look,
}

impl Screen {
    fn enter() -> io::Result<Self> {
        let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Ok(Self { terminal: ratatui::try_init()?, look: Look { colour } })
    }

    fn show(&mut self, picture: &Picture) -> io::Result<()> {
        let look = self.look;
        self.terminal.draw(|frame| draw(frame, picture, look)).map(drop)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

/// Gives the terminal back. Harmless where it was never taken.
pub(super) fn leave() {
    // A terminal that is gone needs nothing back.
    ratatui::try_restore().ok();
    execute!(io::stdout(), Show).ok();
}

fn read(inputs: &mpsc::Sender<Input>) {
    while !inputs.is_closed() {
        let input = match event::poll(POLL) {
            Ok(false) => continue,
            Ok(true) => event::read().map(|event| understand(&event)),
            Err(error) => Err(error),
        };
        match input {
            // A full channel: somebody leans on a key.
            Ok(Some(input)) => drop(inputs.try_send(input)),
            Ok(None) => {}
            // The terminal is gone.
            Err(_) => {
                inputs.blocking_send(Input::Quit).ok();
                return;
            }
        }
    }
}

fn understand(event: &Event) -> Option<Input> {
    match event {
        Event::Key(key) if key.kind == KeyEventKind::Press => match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(Input::Quit),
            KeyCode::Char('q') | KeyCode::Esc => Some(Input::Quit),
            KeyCode::Char(key) => Some(Input::Key(key)),
            _ => None,
        },
        Event::Resize(..) => Some(Input::Resized),
        _ => None,
    }
}
