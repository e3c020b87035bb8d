//! Specs that are accepted and specs that are refused, each with what the user reads.

use kube::Error;
use serde_json::{Value, json};

use crate::bed::{Bed, object};
use crate::samples::least;

/// The least spec, changed by a merge patch.
fn changed(patch: &Value) -> Value {
    let mut spec = least();
    merge(&mut spec, patch);
    spec
}

fn merge(target: &mut Value, patch: &Value) {
    let (Some(fields), true) = (patch.as_object(), target.is_object()) else {
        *target = patch.clone();
        return;
    };
    for (name, value) in fields {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut target[name], value);
        }
    }
}

fn check(fields: Value) -> Value {
    json!({"check": fields})
}

fn query(fields: Value) -> Value {
    check(json!({"query": fields}))
}

fn url(url: &str) -> Value {
    query(json!({"url": url}))
}

fn header(fields: Value) -> Value {
    query(json!({"headers": [fields]}))
}

/// A spec with `checks` of these names instead of `check`.
fn checks(names: &[&str]) -> Value {
    let check = |name: &&str| json!({"name": name, "query": {"expr": "up", "url": "prom"}});
    json!({"check": null, "checks": names.iter().map(check).collect::<Vec<_>>()})
}

fn many(name: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{name}{number}")).collect()
}

pub(crate) async fn good_specs(bed: &Bed) {
    bed.install().await;
    let names = many("check-", 16);
    let headers: Vec<_> = many("x-", 16).iter().map(|name| json!({"name": name, "value": ""})).collect();
    let compare = |reduce: &str| json!({"operator": "!=", "threshold": -1, "reduce": reduce});
    let mut good = vec![
        json!({"targetRef": "a".repeat(253)}),
        checks(&["one"]),
        checks(&names.iter().map(String::as_str).collect::<Vec<_>>()),
        check(json!({"passWhen": "Data", "noDataPolicy": "Wait"})),
        check(json!({"passWhen": "Compare", "noDataPolicy": "Pass", "compare": compare("Any")})),
        query(json!({"expr": "a".repeat(16384)})),
        query(json!({"headers": headers})),
        query(json!({"secretRef": "prom", "headers": [{"name": "X-Scope-OrgID", "value": "a"}]})),
        query(json!({"insecureSkipVerify": true, "clientCertSecretRef": "client"})),
        header(json!({"name": "authorization", "secretKeyRef": {"name": "a", "key": "b"}})),
    ];
    let path = "a".repeat(2048 - "http://prom/".len());
    let addresses = [
        "prom",
        "prom:9000/xx",
        "http://prom",
        "https://prom.monitoring.svc:9090/prefix/",
        "10.0.0.1:9090",
        "http://[2001:db8::1]:9090/x",
        "[::1]:9090",
        "http://prom/a@b:c",
        "my_prom/x%20y",
    ];
    good.extend(addresses.map(url));
    good.push(url(&format!("http://prom/{path}")));
    for patch in good {
        if let Err(error) = bed.try_out(&object("good", changed(&patch))).await {
            panic!("{patch} was refused: {error}");
        }
    }
}

pub(crate) async fn bad_specs(bed: &Bed) {
    bed.install().await;
    for (patch, words) in shapes().into_iter().chain(rules()) {
        match bed.try_out(&object("bad", changed(&patch))).await {
            Err(Error::Api(status)) => {
                let told = status.code == 422 && words.iter().all(|word| status.message.contains(word));
                assert!(told, "{patch}: {words:?} not in {} {}", status.code, status.message);
            }
            other => panic!("{patch}: {other:?}"),
        }
    }
}

type Refusal = (Value, Vec<&'static str>);

/// Bounds of single fields.
fn shapes() -> Vec<Refusal> {
    let too_many = many("check-", 17);
    let headers: Vec<_> = many("x-", 17).iter().map(|name| json!({"name": name, "value": ""})).collect();
    let long = |length: usize| "a".repeat(length);
    vec![
        (json!({"targetRef": null}), vec!["spec.targetRef", "Required"]),
        (json!({"targetRef": ""}), vec!["spec.targetRef", "at least 1"]),
        (json!({"targetRef": long(254)}), vec!["spec.targetRef", "253"]),
        (
            json!({"progressDeadlineSeconds": 0}),
            vec!["spec.progressDeadlineSeconds", "greater than or equal to 1"],
        ),
        (json!({"approval": "Sometimes"}), vec!["spec.approval", "\"FirstPod\""]),
        (json!({"onFailure": "Abort"}), vec!["spec.onFailure", "\"Rollback\""]),
        (json!({"deletionPolicy": "freeze"}), vec!["spec.deletionPolicy", "\"Freeze\""]),
        (json!({"suspendPolicy": "Stop"}), vec!["spec.suspendPolicy", "\"Resume\""]),
        (json!({"skipCheck": "yes"}), vec!["spec.skipCheck", "boolean"]),
        (
            check(json!({"initialDelaySeconds": -1})),
            vec!["check.initialDelaySeconds", "greater than or equal to 0"],
        ),
        (
            check(json!({"initialDelaySeconds": 2_147_483_648_i64})),
            vec!["check.initialDelaySeconds", "int32"],
        ),
        (check(json!({"periodSeconds": -1})), vec!["check.periodSeconds", "greater than or equal to 0"]),
        (check(json!({"successThreshold": 0})), vec!["check.successThreshold", "greater than or equal to 1"]),
        (check(json!({"failureThreshold": 0})), vec!["check.failureThreshold", "greater than or equal to 1"]),
        (
            check(json!({"consecutiveErrorLimit": 0})),
            vec!["consecutiveErrorLimit", "greater than or equal to 1"],
        ),
        (check(json!({"passWhen": "Empty"})), vec!["check.passWhen", "\"NoData\""]),
        (check(json!({"requireData": ""})), vec!["check.requireData", "at least 1"]),
        (check(json!({"query": null})), vec!["check.query", "Required"]),
        (query(json!({"expr": null})), vec!["query.expr", "Required"]),
        (query(json!({"expr": ""})), vec!["query.expr", "at least 1"]),
        (query(json!({"expr": long(16385)})), vec!["query.expr", "16384"]),
        (query(json!({"url": null})), vec!["query.url", "Required"]),
        (url(""), vec!["query.url", "at least 1"]),
        (url(&long(2049)), vec!["query.url", "2048"]),
        (query(json!({"timeoutSeconds": 0})), vec!["query.timeoutSeconds", "greater than or equal to 1"]),
        (query(json!({"timeoutSeconds": 61})), vec!["query.timeoutSeconds", "less than or equal to 60"]),
        (query(json!({"secretRef": ""})), vec!["query.secretRef", "at least 1"]),
        (query(json!({"caSecretRef": long(254)})), vec!["query.caSecretRef", "253"]),
        (query(json!({"clientCertSecretRef": ""})), vec!["query.clientCertSecretRef", "at least 1"]),
        (query(json!({"headers": headers})), vec!["query.headers", "16"]),
        (header(json!({"name": "X Y", "value": "a"})), vec!["headers[0].name", "should match"]),
        (header(json!({"name": "X", "value": "a\r\nHost: b"})), vec!["headers[0].value", "should match"]),
        (header(json!({"name": long(129), "value": "a"})), vec!["headers[0].name", "128"]),
        (header(json!({"name": "X", "value": long(4097)})), vec!["headers[0].value", "4096"]),
        (header(json!({"name": "X", "secretKeyRef": {"name": "a"}})), vec!["secretKeyRef.key", "Required"]),
        (checks(&["One"]), vec!["checks[0].name", "should match"]),
        (checks(&["-"]), vec!["checks[0].name", "should match"]),
        (checks(&["one", "one"]), vec!["checks[1]", "Duplicate"]),
        (checks(&too_many.iter().map(String::as_str).collect::<Vec<_>>()), vec!["spec.checks", "16"]),
    ]
}

/// What one field means for another.
fn rules() -> Vec<Refusal> {
    let one = "exactly one of check and checks";
    let scheme = "the scheme of url must be http or https";
    let user = "url must not carry a user or a password";
    let host = "url must be a host";
    let base = "without ? and #";
    let either = "exactly one of value and secretKeyRef";
    let compare = json!({"operator": ">", "threshold": 1});
    let mut both = checks(&["one"]);
    both.as_object_mut().unwrap().remove("check");
    let mut in_checks = checks(&["one"]);
    in_checks["checks"][0]["noDataPolicy"] = json!("Fail");
    let mut refusals = vec![
        (json!({"check": null}), vec![one]),
        (checks(&[]), vec![one]),
        (both, vec![one]),
        (
            check(json!({"noDataPolicy": "Pass"})),
            vec!["noDataPolicy is only for", "an empty answer is the pass itself"],
        ),
        (in_checks, vec!["checks[0]", "noDataPolicy is only for"]),
        (check(json!({"passWhen": "Compare"})), vec!["compare must be given with passWhen Compare"]),
        (check(json!({"compare": compare})), vec!["and only with it"]),
        (check(json!({"passWhen": "Data", "compare": compare})), vec!["and only with it"]),
        (
            query(json!({"insecureSkipVerify": true, "caSecretRef": "ca"})),
            vec!["insecureSkipVerify and caSecretRef"],
        ),
        (
            query(json!({"secretRef": "a", "headers": [{"name": "AUTHORIZATION", "value": "Bearer x"}]})),
            vec!["a header Authorization and secretRef exclude each other"],
        ),
        (header(json!({"name": "X"})), vec![either]),
        (header(json!({"name": "X", "value": "", "secretKeyRef": {"name": "a", "key": "b"}})), vec![either]),
    ];
    for reserved in ["Host", "content-length", "Content-Type", "TRANSFER-ENCODING", "Connection"] {
        let reserved = header(json!({"name": reserved, "value": "a"}));
        refusals.push((reserved, vec!["headers[0]", "this header is set by the query itself"]));
    }
    for (address, words) in [
        ("ftp://prom", scheme),
        ("unix:///run/prom", scheme),
        ("HTTP://prom", scheme),
        ("http://me:secret@prom", user),
        ("me@prom:9090/x", user),
        ("http://prom\\@10.0.0.1", user),
        ("prom/x?query=up", base),
        ("prom#x", base),
        ("http://", host),
        ("http:///x", host),
        ("/x", host),
        (":9090", host),
        ("http:/prom", host),
        ("prom:port", host),
        ("prom 1", host),
        ("prom/a b", host),
        ("http://[::1", host),
    ] {
        refusals.push((url(address), vec![words]));
    }
    refusals
}
