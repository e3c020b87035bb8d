//! The far end of a connection.

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tracing::debug;

use super::{Asked, Handler, Reset};

/// The largest body that a hollow pod reads; hooks and probes send a few hundred bytes.
const MAX_BODY_BYTES: usize = 1 << 20;

/// Answers the requests of a connection until it is closed, or reset by the handler.
pub(super) async fn http(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    handler: Handler,
    asked: Option<Asked>,
) {
    let service = service_fn(move |request: http::Request<Incoming>| {
        let (handler, asked) = (Handler::clone(&handler), asked.clone());
        async move { answer(request, handler, asked).await }
    });
    // The time of day would make two runs differ.
    let served =
        http1::Builder::new().auto_date_header(false).serve_connection(TokioIo::new(stream), service).await;
    if let Err(error) = served {
        debug!(%error, "a connection to a hollow pod ended early");
    }
}

async fn answer(
    request: http::Request<Incoming>,
    handler: Handler,
    asked: Option<Asked>,
) -> Result<http::Response<Full<Bytes>>, Reset> {
    let (mut head, body) = request.into_parts();
    let Ok(body) = Limited::new(body, MAX_BODY_BYTES).collect().await else {
        return Ok(too_large());
    };
    if let Some(asked) = asked {
        head.extensions.insert(asked);
    }
    let response = handler(http::Request::from_parts(head, body.to_bytes())).await?;
    Ok(response.map(Full::new))
}

fn too_large() -> http::Response<Full<Bytes>> {
    let mut response = http::Response::new(Full::default());
    *response.status_mut() = http::StatusCode::PAYLOAD_TOO_LARGE;
    response
}
