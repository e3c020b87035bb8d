//! The binary of the image.

use std::path::Path;

use anyhow::{Context, Result};

use crate::table::{Row, Section};

/// In bytes.
const GOAL: u64 = 15_000_000;

pub(crate) fn measure(binary: &Path) -> Result<Section> {
    let bytes = std::fs::metadata(binary).with_context(|| binary.display().to_string())?.len();
    let size = format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000);
    let row = Row::limited(
        "static binary, stripped",
        size,
        "at most 15 MB",
        bytes <= GOAL,
        "kube-controller-manager: 94 MB, rollout-operator: 86 MB, measured elsewhere",
    );
    Ok(Section::of("size", vec![row]))
}
