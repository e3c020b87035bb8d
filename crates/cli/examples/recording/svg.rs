//! Screens as an animated SVG: each row of text is drawn once for each time in which it stays the same.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// What arrives within this time is one screen: a program draws one in several writes.
const SETTLE: Duration = Duration::from_millis(30);

/// Width and height of a character, in pixels.
const CELL: (f64, f64) = (8.4, 18.0);

/// Space around the text, in pixels.
const MARGIN: f64 = 12.0;

/// How long the last screen stays before it begins anew.
const PAUSE: Duration = Duration::from_secs(3);

/// A row of the screen as SVG, and the time in which it is to be seen.
struct Strip {
    row: u16,
    text: String,
    from: Duration,
    until: Duration,
}

/// Draws what was written, when it was written; no screen stays longer than `longest`.
pub(crate) fn animate(
    written: &[(Instant, Vec<u8>)],
    (columns, rows): (u16, u16),
    longest: Duration,
) -> String {
    let mut parser = vt100::Parser::new(rows, columns, 0);
    let mut strips: Vec<Strip> = Vec::new();
    let mut showing: BTreeMap<u16, (String, Duration)> = BTreeMap::new();
    let mut now = Duration::ZERO;
    for (index, (at, bytes)) in written.iter().enumerate() {
        parser.process(bytes);
        let gap = written.get(index + 1).map_or(PAUSE, |(next, _)| next.duration_since(*at));
        // Only the program's own screen is its picture: not what came before it, not what is left when it has ended.
        if gap < SETTLE || !parser.screen().alternate_screen() {
            continue;
        }
        for row in 0..rows {
            let text = draw(parser.screen(), row, columns);
            match showing.get(&row) {
                Some((shown, _)) if *shown == text => {}
                _ => {
                    if let Some((text, from)) = showing.insert(row, (text, now)) {
                        strips.push(Strip { row, text, from, until: now });
                    }
                }
            }
        }
        now += gap.min(longest);
    }
    let end = now + PAUSE;
    strips.extend(showing.into_iter().map(|(row, (text, from))| Strip { row, text, from, until: end }));
    strips.retain(|strip| !strip.text.is_empty());
    page(&strips, end, (columns, rows))
}

/// A row as text in colours.
fn draw(screen: &vt100::Screen, row: u16, columns: u16) -> String {
    let mut runs: Vec<(String, String)> = Vec::new();
    for column in 0..columns {
        let Some(cell) = screen.cell(row, column) else { continue };
        let text = if cell.has_contents() { cell.contents() } else { " " };
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        let class = class(cell);
        match runs.last_mut() {
            Some((of, run)) if *of == class => run.push_str(&text),
            _ => runs.push((class, text)),
        }
    }
    while runs.last().is_some_and(|(class, run)| class.is_empty() && run.trim().is_empty()) {
        runs.pop();
    }
    let mut svg = String::new();
    for (class, run) in runs {
        // Writing to a string does not fail.
        match class.as_str() {
            "" => svg.push_str(&run),
            class => write!(svg, "<tspan class='{class}'>{run}</tspan>").unwrap_or_default(),
        }
    }
    svg
}

/// How a cell looks, as names of the style sheet.
fn class(cell: &vt100::Cell) -> String {
    let colour = match cell.fgcolor() {
        vt100::Color::Idx(1) => "r",
        vt100::Color::Idx(2) => "g",
        vt100::Color::Idx(3) => "y",
        vt100::Color::Idx(6) => "c",
        _ => "",
    };
    let mut names = vec![colour];
    names.extend(cell.bold().then_some("b"));
    names.extend(cell.dim().then_some("d"));
    names.extend(cell.inverse().then_some("i"));
    names.extend(cell.underline().then_some("u"));
    names.retain(|name| !name.is_empty());
    names.join(" ")
}

fn page(strips: &[Strip], end: Duration, (columns, rows): (u16, u16)) -> String {
    let width = f64::from(columns) * CELL.0 + 2.0 * MARGIN;
    let height = f64::from(rows) * CELL.1 + 2.0 * MARGIN;
    let total = end.as_secs_f64();
    let mut times: Vec<(Duration, Duration)> = strips.iter().map(|strip| (strip.from, strip.until)).collect();
    times.sort_unstable();
    times.dedup();
    // Where nothing moves, the middle of the recording is what is seen.
    let still = end / 2;
    let mut style = String::from(
        "svg{background:#14161b}text{font:14px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#d6d9e0;white-space:pre}\
         .r{fill:#ff6b6b}.g{fill:#7fd88f}.y{fill:#f2c55c}.c{fill:#6fc3df}.b{font-weight:bold}.d{opacity:.6}\
         .i{fill:#14161b}.u{text-decoration:underline}",
    );
    for (number, (from, until)) in times.iter().enumerate() {
        let percent = |time: &Duration| time.as_secs_f64() / total * 100.0;
        let hidden = if *from <= still && still < *until { "visible" } else { "hidden" };
        let (from, until) = (percent(from), percent(until));
        write!(
            style,
            "@keyframes k{number}{{0%{{visibility:hidden}}{from:.3}%{{visibility:visible}}{until:.3}%{{visibility:hidden}}}}\
             .t{number}{{visibility:{hidden};animation:k{number} {total:.2}s step-end infinite}}"
        )
        .unwrap_or_default();
    }
    let mut body = String::new();
    for strip in strips {
        let number = times.binary_search(&(strip.from, strip.until)).unwrap_or_default();
        let y = MARGIN + f64::from(strip.row) * CELL.1;
        if strip.text.contains("class='i'") {
            let (bar, text) = (CELL.1, y);
            write!(
                body,
                "<rect class='t{number}' x='{MARGIN}' y='{text:.0}' width='{:.0}' height='{bar}' fill='#d6d9e0'/>",
                width - 2.0 * MARGIN
            )
            .unwrap_or_default();
        }
        writeln!(
            body,
            "<text class='t{number}' x='{MARGIN}' y='{:.0}' xml:space='preserve'>{}</text>",
            y + 13.0,
            strip.text
        )
        .unwrap_or_default();
    }
    format!(
        "<svg xmlns='http://www.w3.org/2000/svg' width='{width:.0}' height='{height:.0}' viewBox='0 0 {width:.0} {height:.0}'>\n\
         <title>sts-plus playground</title>\n<style>{style}</style>\n\
         <rect width='100%' height='100%' rx='6' fill='#14161b'/>\n{body}</svg>\n"
    )
}
