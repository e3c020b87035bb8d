//! Tables, and the page that they are written into.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Result, bail};

/// One measure.
pub(crate) struct Row {
    pub(crate) measure: String,
    pub(crate) ours: String,
    pub(crate) goal: String,
    pub(crate) peers: String,
}

impl Row {
    /// A measure with a limit.
    pub(crate) fn limited(
        measure: &str,
        ours: String,
        limit: &str,
        met: bool,
        peers: impl Into<String>,
    ) -> Self {
        let verdict = if met { "met" } else { "**missed**" };
        Self { measure: measure.to_owned(), ours, goal: format!("{limit}: {verdict}"), peers: peers.into() }
    }

    /// A measure without one.
    pub(crate) fn plain(measure: &str, ours: String, peers: impl Into<String>) -> Self {
        Self { measure: measure.to_owned(), ours, goal: "-".to_owned(), peers: peers.into() }
    }
}

/// What one part of the benchmark found: a table.
pub(crate) struct Section {
    /// Its name in the page's markers.
    pub(crate) name: &'static str,
    pub(crate) header: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Section {
    /// Measures of ours, one a row.
    pub(crate) fn of(name: &'static str, rows: Vec<Row>) -> Self {
        let header = ["measure", "ours", "goal", "peers"].map(str::to_owned).to_vec();
        let cells = |Row { measure, ours, goal, peers }| vec![measure, ours, goal, peers];
        Self { name, header, rows: rows.into_iter().map(cells).collect() }
    }

    /// The table, with a line that says how it came about.
    pub(crate) fn render(&self, circumstances: &str) -> String {
        let rule = "---|".repeat(self.header.len());
        let mut text = format!("{circumstances}\n\n| {} |\n|{rule}\n", self.header.join(" | "));
        for row in &self.rows {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
        text
    }
}

/// Puts `content` between the markers of a section of the page.
pub(crate) fn replace(page: &str, name: &str, content: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- measured: {name} -->"), "<!-- end -->");
    let Some((before, rest)) = page.split_once(&begin) else { bail!("the page has no line {begin}") };
    let Some((_, after)) = rest.split_once(end) else { bail!("the page has no line {end} after {begin}") };
    Ok(format!("{before}{begin}\n{content}{end}{after}"))
}

pub(crate) fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

/// From KiB.
pub(crate) fn mebibytes(kibibytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "no process has so much memory")]
    let mebibytes = kibibytes as f64 / 1024.0;
    format!("{mebibytes:.1} MiB")
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
