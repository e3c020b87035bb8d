//! Makes the recording of the README: drives the playground in a pseudo-terminal and prints its screens as an animated SVG.
//!
//! `make recording` runs it. Nothing is staged: what is drawn is what the program wrote.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a tool of the project's own, which stops where it cannot go on"
)]

#[path = "../../tests/playground/pty.rs"]
#[expect(dead_code, reason = "tests look at more than this")]
mod pty;
mod svg;

use std::process::Command;
use std::time::Duration;

use pty::Terminal;

/// The size of the terminal: what fits a README.
const SIZE: (u16, u16) = (100, 27);

/// The longest that a screen is shown: waiting is boring.
const LONGEST: Duration = Duration::from_millis(1500);

fn main() {
    let binary = std::env::current_exe().expect("a path of our own");
    let folder =
        binary.parent().and_then(|examples| examples.parent()).expect("the folder that cargo builds in");
    let mut command = Command::new(folder.join("sts-plus"));
    command.env("TERM", "xterm-256color").env_remove("NO_COLOR");
    let mut terminal = Terminal::start(command.args(["playground", "--port", "0"]), SIZE);
    terminal.wait("the first rollout in its second zone", |screen| screen.contains("store-zone-b Rolling"));
    terminal.press("b");
    let broken = |screen: &str| screen.contains(" PodBroken") && screen.contains("✗");
    terminal.wait("a broken version", broken);
    // Long enough to be read, and to see that the rest goes on.
    terminal.wait("the end of the gated rollout", |screen| {
        broken(screen) && screen.contains("of gated: Updated")
    });
    terminal.press("h");
    let healed = |screen: &str| screen.matches(" UpToDate").count() >= 3 && screen.matches('●').count() == 12;
    terminal.wait("the end of a healed one", healed);
    terminal.press("q");
    assert!(terminal.end().success(), "the playground ends well");
    let bytes = terminal.look(|seen| std::mem::take(&mut seen.chunks));
    print!("{}", svg::animate(&bytes, SIZE, LONGEST));
}
