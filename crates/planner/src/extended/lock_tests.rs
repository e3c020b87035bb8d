use super::*;

fn set(spec: &Value) -> Value {
    json!({ "spec": { "template": { "spec": spec } } })
}

#[test]
fn a_lock_in_a_template_stays_when_the_rest_of_the_template_is_replaced() {
    let rules =
        json!([{ "action": "RestartAllContainers", "exitCodes": { "operator": "In", "values": [0] } }]);
    let live = set(&json!({
        "initContainers": [{ "name": keys::LOCK, "image": "sts-plus:1" }, { "name": "old" }],
        "volumes": [{ "name": "data" }, { "name": keys::LOCK, "configMap": { "name": "db-lock" } }],
        "containers": [
            { "name": "app", "image": "a", "restartPolicy": "Always", "restartPolicyRules": rules },
            { "name": "own", "image": "a", "restartPolicy": "Always", "restartPolicyRules": rules },
        ],
    }));
    let mut body = set(&json!({
        "initContainers": [{ "name": "new" }],
        "containers": [
            { "name": "app", "image": "b" },
            { "name": "own", "image": "b", "restartPolicy": "Never" },
            { "name": "added", "image": "b" },
        ],
    }));
    keep(&live, &mut body);
    let expected = set(&json!({
        "initContainers": [{ "name": keys::LOCK, "image": "sts-plus:1" }, { "name": "new" }],
        "volumes": [{ "name": keys::LOCK, "configMap": { "name": "db-lock" } }],
        "containers": [
            { "name": "app", "image": "b", "restartPolicy": "Always", "restartPolicyRules": rules },
            { "name": "own", "image": "b", "restartPolicy": "Never" },
            { "name": "added", "image": "b" },
        ],
    }));
    assert_eq!(body, expected);
    keep(&live, &mut body);
    assert_eq!(body, expected, "twice is once");
}

#[test]
fn a_template_without_a_lock_is_replaced_as_it_is() {
    let live = set(&json!({ "volumes": [{ "name": "data" }], "containers": [{ "name": "app" }] }));
    let wanted = set(&json!({ "containers": [{ "name": "app", "image": "b" }] }));
    let mut body = wanted.clone();
    keep(&live, &mut body);
    assert_eq!(body, wanted);
    keep(&Value::Null, &mut body);
    assert_eq!(body, wanted);
    let mut empty = json!({});
    keep(&live, &mut empty);
    assert_eq!(empty, json!({}));
}
