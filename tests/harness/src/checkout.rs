//! Where the files of the checkout are, looked up when a test runs: what is compiled outlives a checkout and serves the next
//! one, elsewhere.

use std::env;
use std::path::{Path, PathBuf};

/// What only the top of the checkout has.
const MARK: &str = "tests/testbed/build.sh";

/// The folder of the package whose test or program runs, as cargo names it.
pub fn package() -> PathBuf {
    let here = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    here.or_else(|| env::current_dir().ok()).unwrap_or_default()
}

/// The top of the checkout.
pub fn checkout() -> PathBuf {
    let package = package();
    package.ancestors().find(|folder| folder.join(MARK).is_file()).unwrap_or(Path::new(".")).to_owned()
}
