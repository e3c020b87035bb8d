//! Draws a layout on a terminal of any size. Nothing is shown by colour alone: marks and words show it as well.

use ratatui::Frame;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use sts_plus_operator::view::PodState;

use super::commands::help;
use super::layout::{Cell, Column, Layout, Workload, clock};

/// Lines that a sentence may take before it is cut.
const MAX_SENTENCE_LINES: usize = 2;

/// Lines that the last command may take: the longest one takes three of 80 columns.
const MAX_COMMAND_LINES: usize = 3;

/// Lines of reasons below which no commands to try are shown.
const MIN_REASON_LINES: usize = 3;

/// The space between two columns.
const GUTTER: &str = " ";

/// How states are styled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) colour: bool,
}

impl Look {
    fn state(self, state: PodState) -> Style {
        let (colour, modifier) = match state {
            PodState::Ready => (Color::Green, Modifier::empty()),
            PodState::NotReady | PodState::Settling => (Color::Yellow, Modifier::empty()),
            PodState::Terminating => (Color::Cyan, Modifier::DIM),
            PodState::Leaving => (Color::Cyan, Modifier::empty()),
            PodState::Broken => (Color::Red, Modifier::BOLD),
        };
        self.style(colour, modifier)
    }

    fn style(self, colour: Color, modifier: Modifier) -> Style {
        let style = Style::new().add_modifier(modifier);
        if self.colour { style.fg(colour) } else { style }
    }
}

/// Draws over the whole terminal: workloads at the top, keys at the bottom, reasons between them.
pub(super) fn draw(frame: &mut Frame<'_>, layout: &Layout, look: Look) {
    let (width, height) = (usize::from(frame.area().width), usize::from(frame.area().height));
    let mut bottom = Vec::new();
    if let Some(last) = &layout.last {
        let lines = wrap(last, width, MAX_COMMAND_LINES).into_iter();
        bottom.extend(lines.map(|line| Line::styled(line, Style::new().add_modifier(Modifier::BOLD))));
    }
    bottom.extend(
        wrap(help(layout.demo), width, MAX_COMMAND_LINES)
            .into_iter()
            .map(|line| Line::styled(line, Style::new().add_modifier(Modifier::REVERSED))),
    );
    let mut top = vec![header(layout, width, look), zones(layout, width)];
    for workload in &layout.workloads {
        top.extend(rows(workload, layout.zones.len(), width, look));
    }
    top.truncate(height.saturating_sub(bottom.len()));
    let left = height.saturating_sub(top.len() + bottom.len());
    let mut tries = tries(layout, width);
    // Where there is no room for commands, the kubeconfig is still shown.
    for kept in [1, 0] {
        if left.saturating_sub(tries.len()) <= MIN_REASON_LINES {
            tries.truncate(kept);
        }
    }
    let room = left.saturating_sub(tries.len());
    let mut lines = top;
    lines.extend(reasons(layout, width, room));
    lines.extend(tries);
    lines.extend(bottom);
    frame.render_widget(Paragraph::new(lines), frame.area());
}

fn header(layout: &Layout, width: usize, look: Look) -> Line<'static> {
    let words =
        ["sts-plus playground", &layout.address].into_iter().chain(layout.metrics.iter().map(String::as_str));
    let text = words.collect::<Vec<_>>().join("  ");
    Line::styled(fit(&text, width), look.style(Color::Cyan, Modifier::BOLD))
}

/// The names of the columns.
fn zones(layout: &Layout, width: usize) -> Line<'static> {
    let column = column_width(layout.zones.len(), width);
    let names: String = layout.zones.iter().map(|zone| fit(zone, column)).collect();
    let words = if names.is_empty() { "no nodes yet".to_owned() } else { names };
    Line::styled(fit(&words, width), Style::new().add_modifier(Modifier::UNDERLINED))
}

fn column_width(zones: usize, width: usize) -> usize {
    width.checked_div(zones).unwrap_or(width)
}

/// A workload: its title, its pods zone by zone, its messages.
fn rows(workload: &Workload, zones: usize, width: usize, look: Look) -> Vec<Line<'static>> {
    let title = format!("─ {} ", workload.title);
    let mut lines = vec![Line::styled(rule(&title, width), Style::new().add_modifier(Modifier::BOLD))];
    let column_width = column_width(zones, width);
    let room = column_width.saturating_sub(GUTTER.len());
    let headings = Headings::of(workload, room);
    let columns: Vec<Vec<Span<'static>>> =
        workload.columns.iter().map(|column| column_lines(column, room, headings, look)).collect();
    let rows = columns.iter().map(Vec::len).max().unwrap_or(0);
    for row in 0..rows {
        let cell =
            |column: &Vec<Span<'static>>| column.get(row).cloned().unwrap_or_else(|| " ".repeat(room).into());
        let cells = columns.iter().flat_map(|column| [cell(column), GUTTER.into()]);
        lines.push(Line::from(cells.collect::<Vec<_>>()));
    }
    for cell in &workload.unplaced {
        lines.push(Line::from(fit(&format!("{} {} {}", cell.mark(), cell.pod, cell.word), width)));
    }
    for sentence in &workload.messages {
        lines.extend(wrap(sentence, width, MAX_SENTENCE_LINES).into_iter().map(Line::from));
    }
    lines
}

/// How sets are named above their pods: the same in all columns, so that pods are aligned.
#[derive(Clone, Copy)]
enum Headings {
    /// There is one set, which the title names, and it has no state.
    None,
    /// Name and state.
    OneLine,
    /// The state below the name, since one of them would not fit beside it.
    TwoLines,
}

impl Headings {
    fn of(workload: &Workload, room: usize) -> Self {
        let strips = || workload.columns.iter().flat_map(|column| &column.strips);
        let first = strips().next().map(|strip| &strip.set);
        if strips().all(|strip| strip.state.is_empty() && Some(&strip.set) == first) {
            Self::None
        } else if strips().any(|strip| strip.set.len() + 1 + strip.state.len() > room) {
            Self::TwoLines
        } else {
            Self::OneLine
        }
    }
}

fn column_lines(column: &Column, width: usize, headings: Headings, look: Look) -> Vec<Span<'static>> {
    let mut lines = Vec::new();
    for strip in &column.strips {
        match headings {
            Headings::None => {}
            Headings::OneLine => lines.push(fit(&format!("{} {}", strip.set, strip.state), width).into()),
            Headings::TwoLines => {
                lines.extend([&strip.set, &strip.state].map(|text| fit(text, width).into()));
            }
        }
        lines.extend(strip.cells.iter().map(|cell| cell_span(cell, width, look)));
    }
    lines
}

/// `● 0 7d9c ready`, or `● 0 58aa ready outdated`. Of a pod that is terminating it does not matter any more.
fn cell_span(cell: &Cell, width: usize, look: Look) -> Span<'static> {
    let Cell { ordinal, revision, word, .. } = cell;
    let is_shown = cell.outdated && cell.state != PodState::Terminating;
    let outdated = if is_shown { " outdated" } else { "" };
    let text = format!("{} {ordinal} {revision} {word}{outdated}", cell.mark());
    Span::styled(fit(&text, width), look.state(cell.state))
}

/// The latest reasons that fit, under a heading.
fn reasons(layout: &Layout, width: usize, height: usize) -> Vec<Line<'static>> {
    let Some(room) = height.checked_sub(1) else {
        return Vec::new();
    };
    let mut shown: Vec<String> = Vec::new();
    for reason in layout.reasons.iter().rev() {
        let mut lines = wrap(&format!("{} {}", clock(reason.at), reason.text), width, MAX_SENTENCE_LINES);
        if shown.len() + lines.len() > room {
            break;
        }
        lines.reverse();
        shown.extend(lines);
    }
    shown.reverse();
    shown.resize(room, String::new());
    let heading = Line::from(rule("─ events ", width));
    std::iter::once(heading).chain(shown.into_iter().map(Line::from)).collect()
}

/// Commands to try. The setting of the environment is part of the heading where it fits.
fn tries(layout: &Layout, width: usize) -> Vec<Line<'static>> {
    let Some((setting, commands)) = layout.tries.split_first() else {
        return Vec::new();
    };
    let heading = format!("─ try in another terminal: {setting} ");
    let mut lines = if heading.chars().count() <= width {
        vec![rule(&heading, width)]
    } else {
        vec![rule("─ try in another terminal ", width), fit(setting, width)]
    };
    lines.extend(commands.iter().map(|command| fit(&format!("  {command}"), width)));
    lines.into_iter().map(Line::from).collect()
}

/// The text, then a rule to the edge.
fn rule(text: &str, width: usize) -> String {
    let length = text.chars().count();
    fit(&format!("{text}{}", "─".repeat(width.saturating_sub(length))), width)
}

/// The text in exactly so many columns: cut or padded.
fn fit(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return format!("{text:width$}");
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    if width > 0 {
        cut.push('…');
    }
    cut
}

/// The text in lines of so many columns, and at most so many lines; the rest is cut. Words that are longer than a line are
/// broken, so that a command can be read to its end.
fn wrap(text: &str, width: usize, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let mut word: Vec<char> = word.chars().collect();
        let mut is_first = true;
        while is_first || !word.is_empty() {
            let used = lines.last().map_or(0, |line| line.chars().count());
            let gap = usize::from(is_first && used > 0);
            let fits = used + gap + word.len() <= width;
            let Some(line) = lines.last_mut() else { break };
            if fits || used == 0 {
                let rest = word.split_off(word.len().min(width.max(1)));
                line.extend(std::iter::repeat_n(' ', gap).chain(word));
                (word, is_first) = (rest, false);
            } else {
                lines.push(String::new());
            }
        }
    }
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            *last = fit(&format!("{last:width$}…"), width);
        }
    }
    lines
}

#[cfg(test)]
#[path = "draw_tests.rs"]
mod tests;
