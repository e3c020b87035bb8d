//! The page that says how far the embedded server is like the real one.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::sequence::Suite;

/// The page, given the names of the sequences in which both servers have said the same.
pub fn page(suite: &Suite, equal: &BTreeSet<String>) -> String {
    let mut page = String::from(INTRODUCTION);
    let (mut sequences, mut requests, mut same, mut excused) = (0, 0, 0, 0);
    let mut rows = String::new();
    let mut names = String::new();
    let mut reasons = String::new();
    for area in &suite.areas {
        let of_area = &area.sequences;
        let asked: usize = of_area.iter().map(crate::Sequence::requests).sum();
        let equal_here = of_area.iter().filter(|sequence| equal.contains(&sequence.name)).count();
        let out: Vec<_> = of_area.iter().filter(|sequence| sequence.out_of_scope.is_some()).collect();
        let _ =
            writeln!(rows, "| {} | {} | {asked} | {equal_here} | {} |", area.name, of_area.len(), out.len());
        let listed: Vec<String> = of_area.iter().map(|sequence| format!("`{}`", sequence.name)).collect();
        let _ = writeln!(names, "**{}**: {}\n", area.name, listed.join(", "));
        for sequence in &out {
            let why = sequence.out_of_scope.as_deref().unwrap_or_default();
            let _ = writeln!(reasons, "| `{}` | {} | {why} |", sequence.name, area.name);
        }
        sequences += of_area.len();
        requests += asked;
        same += equal_here;
        excused += out.len();
    }
    page.push_str("| area | sequences | requests | equal | out of scope |\n|---|---|---|---|---|\n");
    page.push_str(&rows);
    let _ = writeln!(page, "| **all** | **{sequences}** | **{requests}** | **{same}** | **{excused}** |");
    page.push_str(
        "\n## Out of scope\n\nEach of these differs; the run fails should one of them stop to.\n\n",
    );
    page.push_str("| sequence | area | reason |\n|---|---|---|\n");
    page.push_str(&reasons);
    page.push_str(UNCOMPARED);
    for area in &suite.areas {
        for sequence in area.sequences.iter().filter(|sequence| !sequence.ignored().is_empty()) {
            let places: Vec<String> = sequence.ignored().iter().map(|place| format!("`{place}`")).collect();
            let _ = writeln!(page, "| `{}` | {} |", sequence.name, places.join(", "));
        }
    }
    page.push_str("\n## The sequences\n\n");
    page.push_str(names.trim_end());
    page.push('\n');
    page
}

const UNCOMPARED: &str = "
## Not compared

In some steps of these sequences a part of the answer is left out: the status that a new definition gets a moment later,
and the finalizer that holds it (the embedded server has none: objects go with their definition); the words of parsers
that are not ours (YAML, CEL); messages that show an object as Go prints it, or a name that was drawn; the question ids
of webhooks, and who owns the fields of a binding that they are asked about; the version after an apply without effect,
which is a write or none depending on the second; the descriptions of the columns of built-in tables, which nothing shows;
who built the server; the paths and schemas of OpenAPI documents, which kubectl's own tests look at.

| sequence | not compared in some of its answers |
|---|---|
";

const INTRODUCTION: &str = "\
# The embedded API server beside the real one

`make fidelity` sends the sequences of `tests/fidelity/sequences` to the embedded API server and to the kube-apiserver
of the test bed, each in a namespace of its own, and compares status code, reason, message, details and causes, the body,
the order and content of watch events, `Warning` and `Retry-After` headers, and what webhooks are asked. UIDs, resource
versions, times of the run, allocated addresses and generated names are made neutral; the order of `managedFields`, which
is one of times, is not compared, nor is the order in which causes about custom resources are listed, which Kubernetes
leaves open, nor are the lines with changes of an object that some messages end with. A difference fails the run. This page is written by that command.

";
