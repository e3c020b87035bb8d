//! A client whose requests fail, get lost or hang as a plan says.
//!
//! [`Faults`] stands between a client and what it calls. For crash enumeration a test runs the code under
//! test on such a client with [`crash_at`], waits for [`Faults::blocked`], drops the code's tasks and starts
//! them again on a healthy client.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, Response, header::RETRY_AFTER};
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use tokio::sync::{Semaphore, watch};
use tower::{BoxError, service_fn};

/// A request that is about to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its place among all requests, from 0.
    pub index: usize,
    /// Its place among the requests that change something, from 0; none for a read.
    pub write: Option<usize>,
    /// HTTP method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// What it carries.
    pub body: Bytes,
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: it is forwarded and answered.
    None,
    /// It fails and never reaches the server.
    Refuse,
    /// The server acts on it, the caller gets an error instead of the answer.
    LoseAnswer,
    /// It never reaches the server; the caller gets an answer with this status and nothing else to say.
    Answer {
        /// The HTTP status.
        status: u16,
        /// The header with the seconds after which to come back.
        retry_after: Option<u32>,
    },
    /// It is forwarded later.
    Delay(Duration),
    /// It is forwarded when [`Faults::release`] is called, one request for each call.
    Hold,
    /// It never reaches the server and the caller never hears of it.
    Block,
    /// The server acts on it and the caller never hears of it.
    BlockAnswer,
}

/// On which side of a write a crash lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The write does not happen.
    Before,
    /// The write happens, its answer is not seen.
    After,
}

/// The error that a caller sees.
#[derive(Debug, thiserror::Error)]
pub enum InjectedFault {
    /// See [`Fault::Refuse`].
    #[error("injected fault: the request was not sent")]
    Refused,
    /// See [`Fault::LoseAnswer`].
    #[error("injected fault: the answer was lost")]
    AnswerLost,
}

/// A plan together with what it has seen so far; clones share both.
#[derive(Clone)]
pub struct Faults {
    shared: Arc<Shared>,
}

struct Shared {
    plan: Box<dyn Fn(&Call) -> Fault + Send + Sync>,
    calls: Mutex<Calls>,
    blocked: watch::Sender<bool>,
    releases: Semaphore,
}

#[derive(Default)]
struct Calls {
    seen: Vec<Call>,
    writes: usize,
}

/// The plan of a crash at one write, counted from 0: nothing that would come later reaches the server.
pub fn crash_at(write: usize, side: Side) -> impl Fn(&Call) -> Fault + Send + Sync + 'static {
    move |call| match (call.write, side) {
        (Some(this), Side::After) if this == write => Fault::BlockAnswer,
        (Some(this), _) if this >= write => Fault::Block,
        _ => Fault::None,
    }
}

impl Faults {
    /// The plan is asked once for each request, in the order in which they are made.
    pub fn new(plan: impl Fn(&Call) -> Fault + Send + Sync + 'static) -> Self {
        let shared = Shared {
            plan: Box::new(plan),
            calls: Mutex::default(),
            blocked: watch::Sender::new(false),
            releases: Semaphore::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// A client that reaches the server through `client`, as far as the plan lets it.
    pub fn client(&self, client: &Client) -> Client {
        let (faults, inner) = (self.clone(), client.clone());
        let service = service_fn(move |request| {
            let (faults, inner) = (faults.clone(), inner.clone());
            async move { faults.pass(&inner, request).await }
        });
        Client::new(service, client.default_namespace())
    }

    /// Every request so far, forwarded or not.
    pub fn calls(&self) -> Vec<Call> {
        self.calls_so_far().seen.clone()
    }

    /// Returns once a request hangs; where the server acts on it, it has done so.
    pub async fn blocked(&self) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.shared.blocked.subscribe().wait_for(|&blocked| blocked).await;
    }

    /// Forwards a request that is held, or the next one that would be.
    pub fn release(&self) {
        self.shared.releases.add_permits(1);
    }

    /// Holds nothing any more.
    pub fn release_all(&self) {
        self.shared.releases.close();
    }

    async fn pass(&self, inner: &Client, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let fault = self.decide(&head, &body);
        let request = Request::from_parts(head, Body::from(body));
        match fault {
            Fault::None => {}
            Fault::Refuse => return Err(InjectedFault::Refused.into()),
            Fault::Answer { status, retry_after } => {
                let mut answer = Response::builder().status(status);
                if let Some(seconds) = retry_after {
                    answer = answer.header(RETRY_AFTER, seconds);
                }
                return Ok(answer.body(Body::empty())?);
            }
            Fault::Delay(time) => tokio::time::sleep(time).await,
            Fault::Hold => {
                // Fails where nothing is held any more.
                if let Ok(release) = self.shared.releases.acquire().await {
                    release.forget();
                }
            }
            Fault::Block => self.block().await,
            Fault::LoseAnswer => {
                inner.send(request).await?;
                return Err(InjectedFault::AnswerLost.into());
            }
            Fault::BlockAnswer => {
                inner.send(request).await?;
                return self.block().await;
            }
        }
        Ok(inner.send(request).await?)
    }

    fn decide(&self, head: &http::request::Parts, body: &Bytes) -> Fault {
        let mut calls = self.calls_so_far();
        let writes = !head.method.is_safe();
        let call = Call {
            index: calls.seen.len(),
            write: writes.then_some(calls.writes),
            method: head.method.clone(),
            path: head.uri.path_and_query().map_or_else(String::new, ToString::to_string),
            body: body.clone(),
        };
        calls.writes += usize::from(writes);
        calls.seen.push(call.clone());
        // Still under the lock, so that the plan sees the calls in order.
        (self.shared.plan)(&call)
    }

    fn calls_so_far(&self) -> std::sync::MutexGuard<'_, Calls> {
        self.shared.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn block<T>(&self) -> T {
        self.shared.blocked.send_replace(true);
        std::future::pending().await
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Faults").field("calls", &self.calls_so_far().seen).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "faults_tests.rs"]
mod tests;
