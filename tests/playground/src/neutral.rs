//! What programs print, without what differs from one run to the next.

use regex::Regex;

/// Patterns, and what to call what they match.
pub struct Neutral(Vec<(Regex, &'static str)>);

impl Neutral {
    /// Reads the patterns.
    pub fn new() -> Result<Self, regex::Error> {
        let patterns = [
            (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
            (r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z", "<time>"),
            (r"\w{3}, \d{2} \w{3} \d{4} \d{2}:\d{2}:\d{2} \+0000", "<time>"),
            (r"https://127\.0\.0\.1:\d+", "<server>"),
            (r"\b10\.\d+\.\d+\.\d+\b", "<address>"),
            (r"\bnode-([abc]|dal1[03])\b", "<node>"),
            (r"topology.kubernetes.io/zone=([abc]|dal1[03])", "<zone>"),
            (r#"(resourceVersion"?: )"\d+""#, "$1<version>"),
            (r"\b\d+[smhd](\d+[smhd])?\b", "<age>"),
            (r"/tmp/(LIVE|MERGED)-\d+/", "/tmp/$1/"),
            (r"(?m)^(---|\+\+\+) (\S+)\t.*$", "$1 $2"),
            // Columns are as wide as what is in them.
            (r"[ \t]+", " "),
            (r"(?m) $", ""),
        ];
        let read = |(pattern, name)| Ok((Regex::new(pattern)?, name));
        patterns.into_iter().map(read).collect::<Result<_, _>>().map(Neutral)
    }

    /// A text that two runs have in common.
    pub fn text(&self, text: &str) -> String {
        self.0
            .iter()
            .fold(text.to_owned(), |text, (pattern, name)| pattern.replace_all(&text, *name).into_owned())
    }
}
