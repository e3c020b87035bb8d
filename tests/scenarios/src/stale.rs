//! A client whose view of one kind stands still while the world moves.

use futures::StreamExt;
use http::Request;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use kube::Client;
use kube::client::Body;
use tokio::sync::watch;
use tower::service_fn;

/// A client whose watches of a resource, given by its plural, bring nothing while nothing flows.
pub fn stale(client: Client, plural: &'static str, flows: watch::Receiver<bool>) -> Client {
    let service = service_fn(move |request: Request<Body>| {
        let (client, flows) = (client.clone(), flows.clone());
        async move {
            let watches = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let concerned = request.uri().path().rsplit('/').next() == Some(plural);
            let answer = client.send(request).await?;
            if !(watches && concerned) {
                return Ok::<_, kube::Error>(answer.map(BodyExt::boxed_unsync));
            }
            Ok(answer.map(|body| {
                let frames = BodyStream::new(body).then(move |frame| {
                    let mut flows = flows.clone();
                    async move {
                        // The scenario is over when nobody lets it flow any more.
                        let _ = flows.wait_for(|flows| *flows).await;
                        frame
                    }
                });
                BodyExt::boxed_unsync(StreamBody::new(frames))
            }))
        }
    });
    Client::new(service, "default")
}
