//! The terminal: set up, drawn on, read from, and restored however the playground ends.

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
use super::layout::Layout;
use super::lines::lines;

/// How long the reader of keys waits for one before it checks whether its receiver still exists.
const POLL: Duration = Duration::from_millis(200);

/// Keys that may wait; those of a key that is held down beyond that are dropped.
const MAX_WAITING_KEYS: usize = 16;

/// An input of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    Key(char),
    Resized,
    Quit,
}

/// Where layouts are shown.
pub(super) enum Display {
    Screen(Screen),
    /// The layout that was reported last.
    Lines(Box<Layout>),
}

impl Display {
    /// The screen where standard input and output are a terminal, else lines.
    pub(super) fn open(address: &str, guide: &Guide) -> Result<Self> {
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        if is_dumb || !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            return match write(&greeting(address, guide)) {
                // A reader that has closed the pipe is noticed with the next line.
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("cannot write"),
                _ => Ok(Self::Lines(Box::default())),
            };
        }
        Screen::enter()
            .map(Self::Screen)
            .context("cannot draw on this terminal; for lines, try: sts-plus playground | cat")
    }

    /// Shows a layout. False: the reader has closed the pipe, as head does.
    pub(super) fn show(&mut self, layout: &Layout) -> io::Result<bool> {
        let shown = match self {
            Self::Screen(screen) => screen.show(layout),
            Self::Lines(reported) => {
                let lines = lines(reported, layout, jiff::Timestamp::now());
                **reported = layout.clone();
                write(&lines)
            }
        };
        match shown {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            shown => shown.map(|()| true),
        }
    }

    /// The inputs of the terminal; none ever without one.
    pub(super) fn inputs(&self) -> mpsc::Receiver<Input> {
        let (inputs, received) = mpsc::channel(MAX_WAITING_KEYS);
        match self {
            // Reading blocks, so it has a thread of its own, which ends with the receiver.
            Self::Screen(_) => drop(std::thread::spawn(move || read(&inputs))),
            // The task keeps the sender: a channel without one would be closed, which means quit.
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

/// The first lines where there is no screen.
fn greeting(address: &str, guide: &Guide) -> Vec<String> {
    let first = format!("sts-plus playground at {address}; Ctrl-C quits. Try in another terminal:");
    std::iter::once(first).chain(guide.long().map(|command| format!("  {command}"))).collect()
}

/// A terminal in raw mode with the alternate screen, restored when this is dropped.
pub(super) struct Screen {
    terminal: DefaultTerminal,
    look: Look,
}

impl Screen {
    fn enter() -> io::Result<Self> {
        let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Ok(Self { terminal: ratatui::try_init()?, look: Look { colour } })
    }

    fn show(&mut self, layout: &Layout) -> io::Result<()> {
        let look = self.look;
        self.terminal.draw(|frame| draw(frame, layout, look)).map(drop)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal. Harmless where it was never set up.
pub(super) fn restore() {
    // A terminal that was closed cannot be restored.
    ratatui::try_restore().ok();
    execute!(io::stdout(), Show).ok();
}

fn read(inputs: &mpsc::Sender<Input>) {
    while !inputs.is_closed() {
        let input = match event::poll(POLL) {
            Ok(false) => continue,
            Ok(true) => event::read().map(|event| input(&event)),
            Err(error) => Err(error),
        };
        match input {
            // Fails where the channel is full: a key is held down.
            Ok(Some(input)) => drop(inputs.try_send(input)),
            Ok(None) => {}
            // The terminal was closed.
            Err(_) => {
                inputs.blocking_send(Input::Quit).ok();
                return;
            }
        }
    }
}

fn input(event: &Event) -> Option<Input> {
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
