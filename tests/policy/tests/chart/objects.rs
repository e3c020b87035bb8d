//! What the chart's objects ask for.

use serde_json::{Value, json};

use crate::helm::{DEFAULT, EVERYTHING, HOME, Helm, MODES, NAMESPACED, assert_fields, root};

pub(crate) fn lint_finds_nothing(helm: &Helm) {
    for mode in MODES {
        helm.lint(mode).unwrap();
    }
}

/// The restricted Pod Security standard, and more than it asks for.
pub(crate) fn pods_are_restricted(helm: &Helm) {
    for mode in MODES {
        let objects = helm.render(mode);
        let pod = &objects.only("Deployment")["spec"]["template"]["spec"];
        assert_fields(
            pod,
            &[
                ("/securityContext/runAsNonRoot", "true"),
                ("/securityContext/runAsUser", "65532"),
                ("/securityContext/runAsGroup", "65532"),
                ("/securityContext/seccompProfile/type", r#""RuntimeDefault""#),
                ("/containers/0/securityContext/allowPrivilegeEscalation", "false"),
                ("/containers/0/securityContext/readOnlyRootFilesystem", "true"),
                ("/containers/0/securityContext/capabilities", r#"{"drop": ["ALL"]}"#),
            ],
        );
        assert_eq!(pod["containers"].as_array().unwrap().len(), 1);
        for absent in ["hostNetwork", "hostPID", "hostIPC", "hostUsers", "volumes", "initContainers"] {
            assert!(pod.get(absent).is_none(), "{absent}");
        }
        assert!(pod["containers"][0]["ports"][0].get("hostPort").is_none());
    }
}

pub(crate) fn a_standby_is_always_there(helm: &Helm) {
    let objects = helm.render(DEFAULT);
    assert_fields(
        objects.only("Deployment"),
        &[
            ("/spec/replicas", "2"),
            ("/spec/strategy/rollingUpdate", r#"{"maxUnavailable": 0, "maxSurge": 1}"#),
            ("/spec/template/spec/topologySpreadConstraints/0/topologyKey", r#""kubernetes.io/hostname""#),
            ("/spec/template/spec/topologySpreadConstraints/0/whenUnsatisfiable", r#""ScheduleAnyway""#),
            ("/spec/template/spec/containers/0/resources/requests", r#"{"cpu": "10m", "memory": "32Mi"}"#),
            ("/spec/template/spec/containers/0/resources/limits", r#"{"memory": "128Mi"}"#),
        ],
    );
    assert_fields(objects.only("PodDisruptionBudget"), &[("/spec/maxUnavailable", "1")]);
}

pub(crate) fn probes_and_service_find_the_port(helm: &Helm) {
    for (mode, port) in [(DEFAULT, "8001"), (EVERYTHING, "9001")] {
        let objects = helm.render(mode);
        assert_fields(
            &objects.only("Deployment")["spec"]["template"]["spec"]["containers"][0],
            &[
                ("/ports/0/name", r#""http-metrics""#),
                ("/ports/0/containerPort", port),
                ("/readinessProbe/httpGet", r#"{"path": "/ready", "port": "http-metrics"}"#),
                ("/livenessProbe/httpGet", r#"{"path": "/livez", "port": "http-metrics"}"#),
            ],
        );
        assert_fields(
            objects.only("Service"),
            &[
                ("/spec/ports/0/name", r#""http-metrics""#),
                ("/spec/ports/0/port", port),
                ("/spec/ports/0/targetPort", r#""http-metrics""#),
            ],
        );
    }
}

pub(crate) fn selectors_match_the_pods(helm: &Helm) {
    /// Kinds that select our pods, or in one case the Service in front of them, and where.
    const SELECTORS: [(&str, &str); 6] = [
        ("Deployment", "/spec/selector/matchLabels"),
        ("Deployment", "/spec/template/spec/topologySpreadConstraints/0/labelSelector/matchLabels"),
        ("PodDisruptionBudget", "/spec/selector/matchLabels"),
        ("Service", "/spec/selector"),
        ("ServiceMonitor", "/spec/selector/matchLabels"),
        ("NetworkPolicy", "/spec/podSelector/matchLabels"),
    ];
    let objects = helm.render(EVERYTHING);
    let pod = &objects.only("Deployment")["spec"]["template"]["metadata"]["labels"];
    let service = &objects.only("Service")["metadata"]["labels"];
    for (kind, pointer) in SELECTORS {
        let labels = if kind == "ServiceMonitor" { service } else { pod };
        let selector = objects.only(kind).pointer(pointer).and_then(Value::as_object).unwrap();
        assert!(!selector.is_empty(), "{kind} {pointer} selects everything");
        for (key, value) in selector {
            assert_eq!(labels.get(key), Some(value), "{kind} {pointer} {key}");
        }
    }
}

pub(crate) fn values_reach_the_command_line(helm: &Helm) {
    let usual = [
        "run",
        "--controllers=rollout-group,phased-rollout,extended-statefulset,scaling",
        "--leader-elect=true",
        "--log-format=json",
        "--server-port=8001",
    ];
    // Without a server Helm does not know whether it has policies that mutate.
    let webhook = ["--webhook-port=8443", "--webhook-service=sts-plus"];
    let cases: [(&[&str], Vec<&str>); 3] = [
        (DEFAULT, [&usual[..], &webhook].concat()),
        (NAMESPACED, [&usual[..], &["--namespace=blue", "--namespace=green"]].concat()),
        (
            EVERYTHING,
            vec![
                "run",
                "--controllers=phased-rollout,extended-statefulset,statefulset",
                "--feature-gates=MaxUnavailableStatefulSet=true",
                "--leader-elect=false",
                "--log-format=text",
                "--server-port=9001",
                "--namespace=red",
                "--allow-loopback",
                "--allow-link-local",
            ],
        ),
    ];
    for (mode, args) in cases {
        let objects = helm.render(mode);
        let container = &objects.only("Deployment")["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["args"], json!(args));
        for (at, (name, field)) in
            [("POD_NAME", "metadata.name"), ("POD_NAMESPACE", "metadata.namespace")].into_iter().enumerate()
        {
            let expected = json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": field}}});
            assert_eq!(container["env"][at], expected);
        }
    }
}

/// Values that only pass through, each where it must arrive.
pub(crate) fn every_value_reaches_an_object(helm: &Helm) {
    let objects = helm.render(EVERYTHING);
    let deployment = objects.only("Deployment");
    assert_fields(
        deployment,
        &[
            ("/metadata/name", r#""rolls""#),
            ("/spec/replicas", "3"),
            ("/spec/template/metadata/labels/app.kubernetes.io~1name", r#""plus""#),
            ("/spec/template/metadata/labels/team", r#""storage""#),
            ("/spec/template/metadata/annotations/note", r#""a""#),
        ],
    );
    let digest = "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef";
    let image = format!(r#""registry.example/sts-plus@sha256:{digest}""#);
    assert_fields(
        &deployment["spec"]["template"]["spec"],
        &[
            ("/serviceAccountName", r#""roller""#),
            ("/imagePullSecrets", r#"[{"name": "pull"}]"#),
            ("/priorityClassName", r#""system-cluster-critical""#),
            ("/nodeSelector", r#"{"pool": "system"}"#),
            ("/tolerations", r#"[{"key": "system", "operator": "Exists"}]"#),
            ("/affinity", r#"{"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}"#),
            ("/containers/0/image", &image),
            ("/containers/0/imagePullPolicy", r#""Always""#),
            ("/containers/0/env/2", &format!(r#"{{"name": "STS_PLUS_IMAGE", "value": {image}}}"#)),
            ("/containers/0/env/3", r#"{"name": "RUST_LOG", "value": "debug"}"#),
            (
                "/containers/0/resources",
                r#"{"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"memory": "1Gi"}}"#,
            ),
        ],
    );
    assert_fields(
        objects.only("ServiceAccount"),
        &[
            ("/metadata/name", r#""roller""#),
            ("/metadata/annotations", r#"{"identity": "cloud"}"#),
            ("/automountServiceAccountToken", "false"),
        ],
    );
    assert_fields(
        objects.only("ServiceMonitor"),
        &[("/metadata/labels/release", r#""prometheus""#), ("/spec/endpoints/0/interval", r#""5s""#)],
    );
    assert_fields(
        objects.only("NetworkPolicy"),
        &[
            ("/spec/policyTypes", r#"["Ingress", "Egress"]"#),
            ("/spec/ingress/0/ports/0/port", r#""http-metrics""#),
            ("/spec/ingress/0/from", r#"[{"namespaceSelector": {}}]"#),
            ("/spec/egress/0/ports/0", r#"{"port": 53, "protocol": "UDP"}"#),
            ("/spec/egress/1/ports", r#"[{"port": 7443, "protocol": "TCP"}]"#),
            ("/spec/egress/1/to", r#"[{"ipBlock": {"cidr": "10.0.0.1/32"}}]"#),
            ("/spec/egress/2/ports", r#"[{"port": 9091, "protocol": "TCP"}]"#),
            (
                "/spec/egress/2/to/0/namespaceSelector",
                r#"{"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}"#,
            ),
            ("/spec/egress/3", r#"{"to": [{"namespaceSelector": {}}]}"#),
        ],
    );
}

pub(crate) fn prometheus_and_pods_are_reachable_for_those_who_ask_them_only(helm: &Helm) {
    let api_server = json!([{"port": 443, "protocol": "TCP"}, {"port": 6443, "protocol": "TCP"}]);
    let prometheus = [80, 443, 9090].map(|port| json!({"port": port, "protocol": "TCP"}));
    for (controllers, expected) in [
        ("{rollout-group}", vec![json!({"ports": api_server})]),
        ("{phased-rollout}", vec![json!({"ports": api_server}), json!({"ports": prometheus})]),
        (
            "{extended-statefulset}",
            vec![json!({"ports": api_server}), json!({"to": [{"namespaceSelector": {}}]})],
        ),
        ("{scaling}", vec![json!({"ports": api_server}), json!({"to": [{"namespaceSelector": {}}]})]),
    ] {
        let controllers = format!("controllers={controllers}");
        let objects = helm.render(&["--set", "networkPolicy.enabled=true", "--set", &controllers]);
        let egress = objects.only("NetworkPolicy")["spec"]["egress"].as_array().unwrap();
        assert_eq!(egress[1..], expected, "{controllers}");
    }
}

/// `fromYaml` and back makes 1 of 1.0.
fn with_short_numbers(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(with_short_numbers).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (name, with_short_numbers(value))).collect()
        }
        Value::Number(number) => json!(number.as_f64()),
        other => other,
    }
}

/// The file itself is what `sts-plus crds` prints, which the tests of the binary show.
pub(crate) fn the_kinds_arrive_as_printed_and_stay(helm: &Helm) {
    let objects = helm.render(DEFAULT);
    let labels = &objects.only("Deployment")["metadata"]["labels"];
    let file = std::fs::read_to_string(root().join("charts/sts-plus/files/crds.yaml")).unwrap();
    let mut printed: Vec<Value> = serde_saphyr::from_multiple(&file).unwrap();
    assert!(!printed.is_empty());
    for kind in &mut printed {
        kind["metadata"]["annotations"] = json!({"helm.sh/resource-policy": "keep"});
        kind["metadata"]["labels"] = labels.clone();
    }
    let installed: Vec<_> = objects.of_kind("CustomResourceDefinition").into_iter().cloned().collect();
    assert_eq!(with_short_numbers(Value::Array(installed)), with_short_numbers(Value::Array(printed)));
}

pub(crate) fn optional_objects_come_and_go(helm: &Helm) {
    /// A value, and the kinds that are there with it and not without it.
    const GUARD: [&str; 2] = ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"];
    const SWITCHES: [(&str, &[&str]); 7] = [
        ("scalingGuard.enabled", &GUARD),
        ("podDisruptionBudget.enabled", &["PodDisruptionBudget"]),
        ("serviceMonitor.enabled", &["ServiceMonitor"]),
        ("networkPolicy.enabled", &["NetworkPolicy"]),
        ("serviceAccount.create", &["ServiceAccount"]),
        ("crds.install", &["CustomResourceDefinition"]),
        ("rbac.create", &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]),
    ];
    for (switch, kinds) in SWITCHES {
        for on in [true, false] {
            let objects = helm.render(&["--set", &format!("{switch}={on}")]);
            for kind in kinds {
                assert_eq!(!objects.of_kind(kind).is_empty(), on, "{kind} with {switch}={on}");
            }
            let cluster_wide = [
                "ClusterRole",
                "ClusterRoleBinding",
                "CustomResourceDefinition",
                "MutatingWebhookConfiguration",
            ];
            let is_cluster_wide =
                |object: &Value| cluster_wide.iter().chain(&GUARD).any(|kind| object["kind"] == *kind);
            for object in objects.iter().filter(|object| !is_cluster_wide(object)) {
                assert_eq!(object["metadata"]["namespace"], HOME, "{}", object["kind"]);
            }
        }
    }
}

/// Everybody but sts-plus itself is refused, and only where sts-plus works.
pub(crate) fn the_guard_of_scaling_lets_sts_plus_through(helm: &Helm) {
    for (mode, who, namespaces) in [
        (DEFAULT, format!("system:serviceaccount:{HOME}:sts-plus"), None),
        (NAMESPACED, format!("system:serviceaccount:{HOME}:sts-plus"), Some(json!(["blue", "green"]))),
    ] {
        let objects = helm.render(mode);
        let account = &objects.only("ServiceAccount")["metadata"]["name"];
        assert_eq!(format!("system:serviceaccount:{HOME}:{}", account.as_str().unwrap()), who);
        let spec = &objects.only("ValidatingAdmissionPolicy")["spec"];
        let others = format!("request.userInfo.username != '{who}'");
        assert_eq!(spec["matchConditions"][0]["expression"], json!(others));
        let binding = &objects.only("ValidatingAdmissionPolicyBinding")["spec"];
        assert_eq!(binding["policyName"], objects.only("ValidatingAdmissionPolicy")["metadata"]["name"]);
        let selected = binding.pointer("/matchResources/namespaceSelector/matchExpressions/0/values");
        assert_eq!(selected, namespaces.as_ref());
    }
}

/// Kubernetes allows names that YAML takes for numbers.
pub(crate) fn names_stay_names(helm: &Helm) {
    /// Where names stand; each must be a string in any object that has it.
    const NAMES: [&str; 7] = [
        "/metadata/name",
        "/metadata/namespace",
        "/roleRef/name",
        "/subjects/0/name",
        "/subjects/0/namespace",
        "/spec/template/spec/serviceAccountName",
        "/spec/template/spec/priorityClassName",
    ];
    let overrides = "nameOverride=007,fullnameOverride=0x1,namespaces={1e3},secrets.namespaces={0},serviceAccount.name=12,priorityClassName=5";
    let objects = helm.render(&["--set-string", overrides, "--namespace", "10"]);
    for object in objects.iter() {
        let labels = object["metadata"]["labels"].as_object().unwrap();
        let names = NAMES.iter().filter_map(|pointer| object.pointer(pointer)).chain(labels.values());
        for name in names {
            assert!(name.is_string(), "{name} in {object}");
        }
    }
}
