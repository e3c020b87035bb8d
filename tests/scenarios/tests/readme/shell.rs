//! A reader's terminal, and what a page tells the reader to type.

use std::path::PathBuf;
use std::process::{Command, Output};

use sts_plus_harness::{Assets, checkout};
use sts_plus_scenarios::binary;

/// Runs commands at the top of the checkout, against one cluster.
pub(crate) struct Shell {
    folder: PathBuf,
    kubeconfig: PathBuf,
    programs: Vec<PathBuf>,
}

impl Shell {
    /// A terminal with the test bed's kubectl and helm, and our binary.
    pub(crate) fn new(assets: &Assets, kubeconfig: PathBuf) -> Self {
        Shell {
            folder: checkout(),
            kubeconfig,
            programs: vec![assets.folder().to_owned(), binary::find().unwrap().parent().unwrap().to_owned()],
        }
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, command: &str) -> Output {
        let machine = std::env::var_os("PATH").unwrap_or_default();
        let path = self.programs.iter().cloned().chain(std::env::split_paths(&machine));
        Command::new("sh")
            .args(["-ec", command])
            .current_dir(&self.folder)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("PATH", std::env::join_paths(path).unwrap())
            .output()
            .unwrap()
    }
}

/// The text of a page, by its path from the top of the checkout.
pub(crate) fn page(path: &str) -> String {
    std::fs::read_to_string(checkout().join(path)).unwrap()
}

/// The lines of all `sh` blocks.
pub(crate) fn commands(page: &str) -> impl Iterator<Item = &str> {
    let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split_once("```"));
    blocks.flat_map(|(block, _)| block.lines()).map(str::trim).filter(|line| !line.is_empty())
}

/// What stands under a heading, up to the next one.
pub(crate) fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("\n{heading}\n")).unwrap();
    rest.split("\n#").next().unwrap()
}

/// What a command has printed.
pub(crate) fn printed(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
