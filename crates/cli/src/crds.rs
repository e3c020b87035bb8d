//! `sts-plus crds`: the CustomResourceDefinitions, as the chart installs them.

use std::io::{Write, stdout};

use anyhow::{Context, Result};
use sts_plus_api::crds;

/// Prints one YAML document for each kind.
pub(crate) fn print() -> Result<()> {
    let documents: Result<Vec<_>, _> = crds::all().iter().map(serde_saphyr::to_string).collect();
    let text = documents.context("cannot serialise a CustomResourceDefinition")?.join("---\n");
    stdout().write_all(text.as_bytes()).context("cannot write to the standard output")
}
