//! What a program printed that ended well.

use std::{
    io,
    process::{Command, ExitStatus, Stdio},
};

use tokio::io::AsyncWriteExt;

/// Why there is no output.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The program could not be run.
    #[error("{program} cannot be run: {source}")]
    Run {
        /// Which one.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// The program ended badly.
    #[error("{command:?} ended with {status}: {errors}")]
    Failed {
        /// The program with its arguments.
        command: Vec<String>,
        /// How it ended.
        status: ExitStatus,
        /// What it printed as errors.
        errors: String,
    },
}

/// Runs a program to its end with this standard input.
pub async fn output(command: Command, input: &str) -> Result<String, OutputError> {
    let words: Vec<_> = [command.get_program()]
        .into_iter()
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let failed = |source| OutputError::Run { program: words.first().cloned().unwrap_or_default(), source };
    let mut command = tokio::process::Command::from(command);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(failed)?;
    let pipe = child.stdin.take();
    let feed = async {
        if let Some(mut pipe) = pipe {
            // A program that does not care for all of it is no failure.
            let _ = pipe.write_all(input.as_bytes()).await;
        }
    };
    let ((), ended) = tokio::join!(feed, child.wait_with_output());
    let ended = ended.map_err(failed)?;
    if ended.status.success() {
        return Ok(String::from_utf8_lossy(&ended.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
    Err(OutputError::Failed { command: words, status: ended.status, errors })
}
