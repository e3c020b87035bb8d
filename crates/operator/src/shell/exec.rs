//! A command in a container, over a WebSocket. What it prints is counted and thrown away.

use futures::StreamExt;
use http::{Request, StatusCode};
use serde::Deserialize;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::api::{Api, ApiError, describe, escape};
use super::metrics::RequestLabels;

/// How much a command may print, in bytes: its exit code is what matters, and one that prints for ever is ended.
const MAX_OUTPUT_BYTES: usize = 64 * 1024;

/// The largest message of the server, in bytes: the output of a command comes in pieces of some 32 KiB, and its end is a
/// few hundred bytes.
const MAX_MESSAGE_BYTES: usize = 256 * 1024;

/// The channel that the server reports the end of the command on.
const STATUS_CHANNEL: u8 = 3;

/// The end of a command, as the server reports it.
#[derive(Deserialize)]
struct Ended {
    #[serde(default)]
    status: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    #[serde(default)]
    causes: Vec<Cause>,
}

#[derive(Deserialize)]
struct Cause {
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
}

impl Api {
    /// Runs a command in a container; an exit code of 0 is a success, anything else is an error in words. The caller limits
    /// its time.
    pub async fn exec(
        &self,
        (namespace, pod): (&str, &str),
        container: &str,
        command: &[String],
    ) -> Result<(), String> {
        let words = command.iter().flat_map(|word| ["&command=".to_owned(), escape(word).to_string()]);
        let words: String = words.collect();
        let path = format!(
            "/api/v1/namespaces/{}/pods/{}/exec?container={}&stdout=true&stderr=true{words}",
            escape(namespace),
            escape(pod),
            escape(container)
        );
        let request = Request::get(path)
            .body(Vec::new())
            .map_err(|error| format!("the request cannot be made: {error}"))?;
        let connected = self.client().connect(request).await;
        let code = match &connected {
            Ok(_) => StatusCode::SWITCHING_PROTOCOLS.as_u16().to_string(),
            Err(kube::Error::Api(status)) => status.code.to_string(),
            Err(_) => "unanswered".to_owned(),
        };
        let labels = RequestLabels { verb: "get", resource: "pods/exec", code };
        self.metrics().requests.get_or_create(&labels).inc();
        // Nothing has been read yet, so nothing is lost with the stream whose messages may be larger.
        let upgraded = connected.map_err(|error| refused(&error))?.into_stream().into_inner();
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE_BYTES))
            .max_frame_size(Some(MAX_MESSAGE_BYTES));
        let mut stream = WebSocketStream::from_raw_socket(upgraded, Role::Client, Some(config)).await;
        let mut printed = 0_usize;
        while let Some(message) = stream.next().await {
            let message = message.map_err(|error| format!("the connection broke: {}", describe(&error)))?;
            let data = match message {
                Message::Binary(data) => data,
                Message::Close(_) => break,
                // What keeps the connection alive has no channel.
                _ => continue,
            };
            match data.split_first() {
                // The first message of a channel may be empty.
                Some((&STATUS_CHANNEL, status)) if !status.is_empty() => return verdict(status),
                Some((_, output)) => printed = printed.saturating_add(output.len()),
                None => {}
            }
            if printed > MAX_OUTPUT_BYTES {
                return Err(format!("the command printed more than {} KiB", MAX_OUTPUT_BYTES / 1024));
            }
        }
        Err("the connection ended before the command did".to_owned())
    }
}

fn refused(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if ApiError::Forbidden(status.message.clone()).lacks_right() => {
            "the operator may not run commands in pods: the chart's execProbes.enabled grants it".to_owned()
        }
        kube::Error::Api(status) => format!("the command could not be started: {}", status.message),
        error => format!("the command could not be started: {}", describe(error)),
    }
}

fn verdict(status: &[u8]) -> Result<(), String> {
    let ended: Ended =
        serde_json::from_slice(status).map_err(|_| "an answer that cannot be read".to_owned())?;
    if ended.status == "Success" {
        return Ok(());
    }
    let causes = ended.details.map(|details| details.causes).unwrap_or_default();
    let code = causes.iter().find(|cause| cause.reason == "ExitCode").map(|cause| &cause.message);
    Err(match code {
        Some(code) => format!("exit code {code}"),
        None if ended.message.is_empty() => "the command failed without a message".to_owned(),
        None => ended.message,
    })
}

#[cfg(test)]
mod tests {
    use super::verdict;

    #[test]
    fn the_end_of_a_command_is_its_exit_code() {
        assert_eq!(verdict(br#"{"status":"Success"}"#), Ok(()));
        let failed = br#"{"status":"Failure","reason":"NonZeroExitCode","message":"command terminated with non-zero exit code","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#;
        assert_eq!(verdict(failed), Err("exit code 3".to_owned()));
        assert_eq!(
            verdict(br#"{"status":"Failure","message":"container not found"}"#),
            Err("container not found".to_owned())
        );
        assert!(verdict(b"nonsense").is_err());
    }
}
