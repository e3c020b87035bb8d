//! How pods get claims with stable names.

use serde_json::{Value, json};
use sts_plus_api::keys::{CLAIM_PLACEHOLDER, POD_INDEX, STABLE_CLAIMS, STABLE_CLAIMS_ON};
use sts_plus_operator::webhook::paths::PATHS;

use crate::helm::{DEFAULT, EVERYTHING, HOME, Helm, NAMESPACED, Objects, assert_fields};

const POLICY: &str = "MutatingAdmissionPolicy";
const BINDING: &str = "MutatingAdmissionPolicyBinding";
const WEBHOOK: &str = "MutatingWebhookConfiguration";

/// What Helm knows of a server with policies that mutate.
const SERVED: [&str; 2] = ["--api-versions", "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"];
const BY_WEBHOOK: [&str; 2] = ["--set", "stableClaims.mode=Webhook"];

/// Which of the ways there are.
fn ways(objects: &Objects) -> Vec<&'static str> {
    [POLICY, BINDING, WEBHOOK].into_iter().filter(|kind| !objects.of_kind(kind).is_empty()).collect()
}

fn arguments(objects: &Objects) -> String {
    objects.only("Deployment")["spec"]["template"]["spec"]["containers"][0]["args"].to_string()
}

pub(crate) fn claims_are_given_in_the_way_that_the_server_has(helm: &Helm) {
    let policy = vec![POLICY, BINDING];
    let without = ["--set", "controllers={rollout-group,scaling}"];
    for (args, expected) in [
        (SERVED.to_vec(), policy.clone()),
        (DEFAULT.to_vec(), vec![WEBHOOK]),
        ([NAMESPACED, &SERVED].concat(), policy.clone()),
        // A webhook needs a ClusterRole, which nobody gets who has not asked for it.
        (NAMESPACED.to_vec(), vec![]),
        ([NAMESPACED, &BY_WEBHOOK].concat(), vec![WEBHOOK]),
        ([&SERVED[..], &BY_WEBHOOK].concat(), vec![WEBHOOK]),
        (vec!["--set", "stableClaims.mode=Policy"], policy.clone()),
        (vec!["--set", "stableClaims.mode=None"], vec![]),
        (EVERYTHING.to_vec(), policy),
        ([&without[..], &SERVED].concat(), vec![]),
        ([&without[..], &BY_WEBHOOK].concat(), vec![]),
    ] {
        let objects = helm.render(&args);
        assert_eq!(ways(&objects), expected, "{args:?}");
        let serves = expected == [WEBHOOK];
        assert_eq!(arguments(&objects).contains("--webhook-port"), serves, "{args:?}");
        let ports = objects.only("Service")["spec"]["ports"].as_array().unwrap();
        assert_eq!(ports.len(), if serves { 2 } else { 1 }, "{args:?}");
    }
}

/// Only our own pods, only when they are created, only where sts-plus works; and nothing that fails refuses a pod.
pub(crate) fn both_ways_select_the_same_pods(helm: &Helm) {
    for mode in [DEFAULT, NAMESPACED] {
        let (policy, webhook) =
            (helm.render(&[mode, &SERVED].concat()), helm.render(&[mode, &BY_WEBHOOK].concat()));
        let binding = &policy.only(BINDING)["spec"];
        let (policy, webhook) = (policy.only(POLICY), &webhook.only(WEBHOOK)["webhooks"][0]);
        assert_eq!(binding["policyName"], policy["metadata"]["name"]);
        let matches = &policy["spec"]["matchConstraints"];
        let selector = json!({ "matchLabels": { STABLE_CLAIMS: STABLE_CLAIMS_ON } });
        assert_eq!([&matches["objectSelector"], &webhook["objectSelector"]], [&selector, &selector]);
        let rule = json!({ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"] });
        assert_eq!(matches["resourceRules"], json!([rule]));
        let mut asked = rule;
        asked["scope"] = "Namespaced".into();
        assert_eq!(webhook["rules"], json!([asked]));
        assert_eq!([&policy["spec"]["failurePolicy"], &webhook["failurePolicy"]], ["Ignore", "Ignore"]);
        assert_eq!(webhook["sideEffects"], "None");
        let namespaces = (mode == NAMESPACED).then(|| {
            json!({ "matchExpressions": [{ "key": "kubernetes.io/metadata.name", "operator": "In", "values": ["blue", "green"] }] })
        });
        assert_eq!(binding.pointer("/matchResources/namespaceSelector"), namespaces.as_ref());
        assert_eq!(webhook.get("namespaceSelector"), namespaces.as_ref());
        let text = policy["spec"].to_string();
        assert!(text.contains(&format!("'{POD_INDEX}'")) && text.contains(&format!("'{CLAIM_PLACEHOLDER}'")));
        assert_eq!(policy["metadata"]["annotations"], json!({ "helm.sh/resource-policy": "keep" }));
    }
}

pub(crate) fn the_webhook_is_reached_and_trusted(helm: &Helm) {
    let release = ["--set", "fullnameOverride=plus,webhook.port=9443"];
    let objects = helm.render(&[&release[..], &BY_WEBHOOK].concat());
    let (service, webhook) = (objects.only("Service"), objects.only(WEBHOOK));
    let config = &webhook["webhooks"][0]["clientConfig"];
    assert_fields(
        config,
        &[
            ("/service/name", r#""plus""#),
            ("/service/namespace", &format!("{HOME:?}")),
            ("/service/port", "443"),
            ("/service/path", r#""/stable-claims""#),
        ],
    );
    assert!(PATHS.iter().any(|row| row.path == config["service"]["path"]));
    // sts-plus writes the bundle: Helm must not take it away again.
    assert!(config.get("caBundle").is_none());
    assert_eq!(service["metadata"]["name"], "plus");
    assert_fields(service, &[("/spec/ports/1/port", "443"), ("/spec/ports/1/targetPort", r#""webhook""#)]);
    let container = &objects.only("Deployment")["spec"]["template"]["spec"]["containers"][0];
    assert_fields(container, &[("/ports/1/name", r#""webhook""#), ("/ports/1/containerPort", "9443")]);
    let arguments = arguments(&objects);
    for argument in ["--webhook-port=9443", "--webhook-service=plus"] {
        assert!(arguments.contains(argument), "{arguments}");
    }
    let closed = helm.render(&[&BY_WEBHOOK[..], &["--set", "networkPolicy.enabled=true"]].concat());
    let ingress = json!({ "ports": [{ "port": "webhook", "protocol": "TCP" }] });
    assert_eq!(closed.only("NetworkPolicy")["spec"]["ingress"][1], ingress);
}

/// One Secret and one webhook configuration, each by its name.
pub(crate) fn the_certificate_is_ours_alone(helm: &Helm) {
    let secrets = json!([
        { "apiGroups": [""], "resources": ["secrets"], "verbs": ["create"] },
        { "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["plus-webhook"], "verbs": ["list", "watch", "update"] },
    ]);
    let configuration = json!({
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": ["mutatingwebhookconfigurations"],
        "resourceNames": ["plus-webhook"],
        "verbs": ["list", "watch", "patch"],
    });
    let name = ["--set", "fullnameOverride=plus"];
    for mode in [DEFAULT, NAMESPACED] {
        let objects = helm.render(&[mode, &BY_WEBHOOK, &name].concat());
        assert_eq!(objects.only(WEBHOOK)["metadata"]["name"], "plus-webhook");
        let roles = objects.of_kind("Role");
        let role = roles.iter().find(|role| role["metadata"]["name"] == "plus-webhook").unwrap();
        assert_eq!((&role["metadata"]["namespace"], &role["rules"]), (&json!(HOME), &secrets));
        let holds = |role: &&Value| role["rules"].as_array().unwrap().contains(&configuration);
        let cluster_roles = objects.of_kind("ClusterRole");
        let holders: Vec<_> = cluster_roles.into_iter().filter(holds).collect();
        assert_eq!(holders.len(), 1, "{mode:?}");
        if mode == NAMESPACED {
            assert_eq!(holders[0]["rules"], json!([configuration]));
            let bindings = objects.of_kind("ClusterRoleBinding");
            assert_eq!(bindings.len(), 1);
            assert_eq!(bindings[0]["roleRef"]["name"], "plus-webhook");
        }
    }
    // Made by somebody else: no permission, and the files are there.
    let annotation = r"webhook.annotations.cert-manager\.io/inject-ca-from=operators/admission";
    let theirs = ["--set", "webhook.certificateSecret=admission", "--set", annotation];
    let objects = helm.render(&[&BY_WEBHOOK[..], &theirs].concat());
    assert_eq!(
        objects.only(WEBHOOK)["metadata"]["annotations"],
        json!({ "cert-manager.io/inject-ca-from": "operators/admission" })
    );
    for kind in ["Role", "ClusterRole"] {
        for role in objects.of_kind(kind) {
            let rules = role["rules"].to_string();
            assert!(!rules.contains("secrets") && !rules.contains("webhook"), "{rules}");
        }
    }
    let pod = &objects.only("Deployment")["spec"]["template"]["spec"];
    let secret = json!([{ "name": "webhook-certificate", "secret": { "secretName": "admission" } }]);
    assert_eq!(pod["volumes"], secret);
    let mount =
        json!([{ "name": "webhook-certificate", "mountPath": "/etc/sts-plus-webhook", "readOnly": true }]);
    assert_eq!(pod["containers"][0]["volumeMounts"], mount);
    let arguments = arguments(&objects);
    assert!(arguments.contains("--webhook-cert-dir=/etc/sts-plus-webhook"), "{arguments}");
    assert!(!arguments.contains("--webhook-service"), "{arguments}");
}
