//! The binary of sts-plus that is tested.

use std::{env, path::PathBuf};

/// Names the binary to test; without it, the one beside the folder of the test's own binary.
const VARIABLE: &str = "STS_PLUS_BIN";

/// Where the binary is, or why there is none.
pub fn find() -> Result<PathBuf, String> {
    let beside = || Some(env::current_exe().ok()?.parent()?.parent()?.join("sts-plus"));
    let path = env::var_os(VARIABLE).map(PathBuf::from).or_else(beside).unwrap_or_default();
    if path.is_file() {
        Ok(path)
    } else {
        let path = path.display();
        Err(format!(
            "there is no binary {path}: build it (cargo build -p sts-plus-cli) or name it in {VARIABLE}"
        ))
    }
}
