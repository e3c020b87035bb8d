//! The playground's own metrics endpoint, which answers the queries of the gated set in place of a Prometheus.
//!
//! Its metrics are the numbers in a ConfigMap, so that a key and a kubectl command change them in the same way. Of PromQL
//! it knows a metric's name, alone or compared with a number.

use std::collections::BTreeMap;

use futures::FutureExt;
use http::{Response, StatusCode};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};
use sts_plus_cluster::nodes::network::{Answer, Handler, Network, handler};

use super::objects::Name;

/// The endpoint's host name within the playground, and its port.
const HOST: (&str, u16) = ("metrics.playground", 9090);

/// The name of the ConfigMap with the numbers.
const SETTINGS: &str = "playground-metrics";

/// The metric that the check of the gated set reads, and its values for which the check passes and fails.
pub(super) const ERRORS: &str = "errors_per_second";
pub(super) const GOOD: &str = "0";
pub(super) const BAD: &str = "9";

/// The namespace and name of the ConfigMap.
pub(super) fn config_map() -> Name {
    ("default".to_owned(), SETTINGS.to_owned())
}

/// Adds the endpoint to the pod network.
pub(super) fn start(network: &Network, client: kube::Client) {
    let (name, port) = HOST;
    network.add_host(name, port, endpoint(client));
}

fn endpoint(client: kube::Client) -> Handler {
    handler(move |request: http::Request<_>| {
        let client = client.clone();
        async move { answer(client, request).await }.boxed()
    })
}

async fn answer<B: AsRef<[u8]>>(client: kube::Client, request: http::Request<B>) -> Answer {
    let (code, body) = match request.uri().path() {
        "/api/v1/query" => match query_of(&request) {
            Some(query) => judge(&query, &numbers(client).await),
            None => refused("the form has no query"),
        },
        path => (StatusCode::NOT_FOUND, error("not_found", &format!("there is no {path} here"))),
    };
    let mut response = Response::new(body.to_string().into());
    *response.status_mut() = code;
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    Ok(response)
}

/// The query, from the address or from a form.
fn query_of<B: AsRef<[u8]>>(request: &http::Request<B>) -> Option<String> {
    let asked = request.uri().query().unwrap_or_default().as_bytes();
    let mut pairs = form_urlencoded::parse(asked).chain(form_urlencoded::parse(request.body().as_ref()));
    pairs.find(|(name, _)| name == "query").map(|(_, query)| query.into_owned())
}

async fn numbers(client: kube::Client) -> BTreeMap<String, String> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
    let (namespace, name) = config_map();
    // Without the ConfigMap there are no metrics, and every query is answered with no data.
    let settings = Api::<DynamicObject>::namespaced_with(client, &namespace, &resource).get(&name).await;
    let data = settings.ok().and_then(|settings| settings.data.get("data").cloned());
    data.and_then(|data| serde_json::from_value(data).ok()).unwrap_or_default()
}

/// The answer to a query: the series, where there is one and the comparison holds.
fn judge(query: &str, numbers: &BTreeMap<String, String>) -> (StatusCode, Value) {
    let words: Vec<&str> = query.split_whitespace().collect();
    let (name, compared) = match *words.as_slice() {
        [name] => (name, None),
        [name, operator, threshold] => match threshold.parse::<f64>() {
            Ok(threshold) => (name, Some((operator, threshold))),
            Err(_) => return refused(&format!("{threshold} is not a number")),
        },
        _ => return refused("write METRIC, or METRIC > NUMBER: this is the playground, not Prometheus"),
    };
    let value = numbers.get(name).and_then(|value| value.trim().parse::<f64>().ok());
    let holds = match (value, compared) {
        (None, _) => Ok(false),
        (Some(_), None) => Ok(true),
        (Some(value), Some((operator, threshold))) => holds(value, operator, threshold),
    };
    match holds {
        Err(unknown) => refused(&format!("{unknown} is none of > >= < <=")),
        Ok(holds) => {
            let series = value.filter(|_| holds).map(|value| {
                let now = jiff::Timestamp::now().as_second();
                json!({ "metric": { "__name__": name, "job": "playground" }, "value": [now, value.to_string()] })
            });
            let result: Vec<Value> = series.into_iter().collect();
            let data = json!({ "resultType": "vector", "result": result });
            (StatusCode::OK, json!({ "status": "success", "data": data }))
        }
    }
}

fn holds(value: f64, operator: &str, threshold: f64) -> Result<bool, &str> {
    match operator {
        ">" => Ok(value > threshold),
        ">=" => Ok(value >= threshold),
        "<" => Ok(value < threshold),
        "<=" => Ok(value <= threshold),
        unknown => Err(unknown),
    }
}

fn refused(why: &str) -> (StatusCode, Value) {
    (StatusCode::BAD_REQUEST, error("bad_data", why))
}

fn error(kind: &str, why: &str) -> Value {
    json!({ "status": "error", "errorType": kind, "error": why })
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
