//! The coordinator of the brokers, which answers one line with one line.

use sts_plus_operator::hooks::HookError;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// The longest answer, in bytes: a word and a number.
const MAX_ANSWER_BYTES: u64 = 256;

/// A client of it. The operator drops a call whose time is over, so that there is no time limit here.
pub(crate) struct Coordinator {
    /// Host and port.
    address: String,
}

impl Coordinator {
    pub(crate) fn new(address: String) -> Self {
        Self { address }
    }

    /// Has the partitions of a broker moved to the others. Returns how many are left on it.
    pub(crate) async fn drain(&self, broker: &str) -> Result<u32, HookError> {
        let answer = self.ask(&format!("drain {broker}")).await?;
        let left = answer.strip_prefix("left ").and_then(|left| left.parse().ok());
        left.ok_or_else(|| unexpected(&answer))
    }

    /// Lets a broker have partitions again.
    pub(crate) async fn keep(&self, broker: &str) -> Result<(), HookError> {
        let answer = self.ask(&format!("keep {broker}")).await?;
        if answer == "kept" { Ok(()) } else { Err(unexpected(&answer)) }
    }

    async fn ask(&self, request: &str) -> Result<String, HookError> {
        let mut stream = TcpStream::connect(&self.address).await.map_err(HookError::of)?;
        stream.write_all(format!("{request}\n").as_bytes()).await.map_err(HookError::of)?;
        let mut answer = String::new();
        let mut lines = BufReader::new(stream.take(MAX_ANSWER_BYTES));
        lines.read_line(&mut answer).await.map_err(HookError::of)?;
        Ok(answer.trim_end().to_owned())
    }
}

fn unexpected(answer: &str) -> HookError {
    HookError::new(format!("the coordinator answered {answer:?}"))
}
