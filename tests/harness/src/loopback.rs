//! HTTP on loopback: a server in the test process, on any network it has, and a request to one.

use std::{future::Future, io, net::SocketAddr};

use bytes::Bytes;
use http::{Request, Response, header::HOST};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, client, server, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, task::JoinSet};

use crate::network::{Network, Stream};

/// A server whose tasks, the ones that serve open connections included, end when it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    _task: JoinSet<()>,
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// Nobody listens.
    #[error("cannot connect: {0}")]
    Connect(#[from] io::Error),
    /// What came is no complete answer.
    #[error("no answer: {0}")]
    Answer(#[from] hyper::Error),
}

impl Server {
    /// Hands every connection to `serve`.
    pub(crate) async fn accept<F>(
        network: &Network,
        serve: impl Fn(Box<dyn Stream>) -> F + Send + 'static,
    ) -> io::Result<Self>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (address, task) = network.serve(serve).await?;
        Ok(Self { address, _task: task })
    }

    /// Answers every request with what `handler` says.
    pub(crate) async fn http<H, F>(network: &Network, handler: H) -> io::Result<Self>
    where
        H: Fn(Request<Bytes>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<Bytes>> + Send,
    {
        Self::accept(network, move |stream| {
            let handler = handler.clone();
            async move {
                let service = service_fn(|request: Request<Incoming>| async {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await?.to_bytes();
                    let answer = handler(Request::from_parts(head, body)).await;
                    Ok::<_, hyper::Error>(answer.map(Full::new))
                });
                let connection = server::conn::http1::Builder::new();
                // A client that goes away in the middle is what some tests are about.
                let _ = connection.serve_connection(TokioIo::new(stream), service).await;
            }
        })
        .await
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// One request on a connection of its own.
pub(crate) async fn send(
    endpoint: SocketAddr,
    mut request: Request<Bytes>,
) -> Result<Response<Bytes>, SendError> {
    if let Ok(host) = endpoint.to_string().parse() {
        request.headers_mut().insert(HOST, host);
    }
    let stream = TcpStream::connect(endpoint).await?;
    let (mut sender, connection) = client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    let (head, body) = sender.send_request(request.map(Full::new)).await?.into_parts();
    Ok(Response::from_parts(head, body.collect().await?.to_bytes()))
}
