//! What the chart's roles allow. That each verb is needed and none is missing is shown elsewhere, by the audit log.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::helm::{DEFAULT, EVERYTHING, HOME, Helm, MODES, NAMESPACED, Objects};

/// All that may ever be granted. Secrets have a test of their own.
const RESOURCES: [(&str, &str); 8] = [
    ("", "events"),
    ("", "pods"),
    ("", "secrets"),
    ("apps", "statefulsets"),
    ("apps", "statefulsets/status"),
    ("coordination.k8s.io", "leases"),
    ("sts.plus", "phasedrollouts"),
    ("sts.plus", "phasedrollouts/status"),
];

/// What may be granted beside that where sets are controlled, and nowhere else.
const CONTROLLING: [(&str, &str); 4] = [
    ("", "persistentvolumeclaims"),
    ("", "pods/finalizers"),
    ("apps", "controllerrevisions"),
    ("apps", "statefulsets/finalizers"),
];

/// What may be granted beside that where ExtendedStatefulSets are run, and nowhere else.
const EXTENDED: [(&str, &str); 9] = [
    ("", "configmaps"),
    ("", "services"),
    ("fissile.cloudfoundry.org", "extendedstatefulsets"),
    ("fissile.cloudfoundry.org", "extendedstatefulsets/finalizers"),
    ("fissile.cloudfoundry.org", "extendedstatefulsets/status"),
    ("sts.plus", "extendedstatefulsets"),
    ("sts.plus", "extendedstatefulsets/finalizers"),
    ("sts.plus", "extendedstatefulsets/status"),
    ("sts.plus", "scalingpolicies"),
];

/// What may be granted beside that where ScalingPolicies are run, and nowhere else.
const SCALING: [(&str, &str); 7] = [
    ("", "configmaps"),
    ("", "nodes"),
    ("", "persistentvolumeclaims"),
    ("apps", "controllerrevisions"),
    ("storage.k8s.io", "storageclasses"),
    ("sts.plus", "scalingpolicies"),
    ("sts.plus", "scalingpolicies/status"),
];

/// What may be granted beside that where a webhook needs its CA bundle, and nowhere else.
const ADMISSION: [(&str, &str); 1] = [("admissionregistration.k8s.io", "mutatingwebhookconfigurations")];

/// What may be granted beside that where commands of probes are enabled, and nowhere else.
const EXEC: [(&str, &str); 1] = [("", "pods/exec")];

/// The default, but for ExtendedStatefulSets and ScalingPolicies.
const PLAIN: &[&str] = &["--set", "controllers={rollout-group,phased-rollout}"];

/// No wildcard, and none of the verbs that let an account widen its own rights.
const VERBS: [&str; 7] = ["create", "delete", "get", "list", "patch", "update", "watch"];

/// The roles of sts-plus itself.
fn roles(objects: &Objects) -> Vec<&Value> {
    let all = ["ClusterRole", "Role"].into_iter().flat_map(|kind| objects.of_kind(kind));
    all.filter(|role| aggregates_to(role).is_none()).collect()
}

/// Which of the cluster's own roles a role adds to; those are for users, and bound to nobody by us.
fn aggregates_to(role: &Value) -> Option<&str> {
    let mut labels = role["metadata"]["labels"].as_object().unwrap().keys();
    labels.find_map(|label| label.strip_prefix("rbac.authorization.k8s.io/aggregate-to-"))
}

fn cluster_roles(objects: &Objects) -> Vec<&Value> {
    roles(objects).into_iter().filter(|role| role["kind"] == "ClusterRole").collect()
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|item| item.as_str().unwrap()).collect()
}

pub(crate) fn named_one_by_one(helm: &Helm) {
    for mode in MODES.into_iter().chain([PLAIN]) {
        let objects = helm.render(mode);
        let roles = roles(&objects);
        assert!(!roles.is_empty(), "{mode:?}");
        let more = match mode {
            _ if mode == PLAIN => Vec::new(),
            _ if mode == EVERYTHING => [&CONTROLLING[..], &EXTENDED[..], &EXEC[..]].concat(),
            _ if mode == DEFAULT => [&EXTENDED[..], &SCALING[..], &ADMISSION[..]].concat(),
            _ => [&EXTENDED[..], &SCALING[..]].concat(),
        };
        for rule in roles.iter().flat_map(|role| role["rules"].as_array().unwrap()) {
            assert!(rule.get("nonResourceURLs").is_none(), "{rule}");
            for group in strings(&rule["apiGroups"]) {
                for resource in strings(&rule["resources"]) {
                    let allowed = RESOURCES.iter().chain(&more).any(|known| *known == (group, resource));
                    assert!(allowed, "{group:?} {resource} in {rule}");
                }
            }
            for verb in strings(&rule["verbs"]) {
                assert!(VERBS.contains(&verb), "{verb} in {rule}");
            }
        }
    }
}

pub(crate) fn same_rules_in_both_modes(helm: &Helm) {
    let (all, some) = (helm.render(DEFAULT), helm.render(NAMESPACED));
    let in_all = cluster_roles(&all);
    assert_eq!(in_all.len(), 1);
    let working: Vec<_> =
        some.of_kind("Role").into_iter().filter(|role| role["metadata"]["namespace"] != HOME).collect();
    assert_eq!(working.len(), 2);
    // These are in no namespace.
    let everywhere =
        ["nodes", "storageclasses", "mutatingwebhookconfigurations"].map(|resource| json!([resource]));
    let mut rules = in_all[0]["rules"].as_array().unwrap().clone();
    rules.retain(|rule| !everywhere.contains(&rule["resources"]));
    for role in working {
        assert_eq!(role["rules"], json!(rules));
    }
}

/// The namespaces of the objects of a kind.
fn namespaces<'a>(objects: &'a Objects, kind: &str) -> BTreeSet<&'a str> {
    objects.of_kind(kind).into_iter().filter_map(|object| object["metadata"]["namespace"].as_str()).collect()
}

pub(crate) fn namespaced_mode_has_no_cluster_role(helm: &Helm) {
    for (mode, expected) in [(NAMESPACED, vec!["blue", "green", HOME]), (EVERYTHING, vec!["red"])] {
        let objects = helm.render(mode);
        assert!(cluster_roles(&objects).is_empty());
        assert!(objects.of_kind("ClusterRoleBinding").is_empty());
        for kind in ["Role", "RoleBinding"] {
            assert_eq!(namespaces(&objects, kind), expected.iter().copied().collect(), "{kind}");
        }
    }
}

pub(crate) fn the_lease_is_ours_alone(helm: &Helm) {
    for mode in [DEFAULT, NAMESPACED] {
        let objects = helm.render(mode);
        let account = &objects.only("ServiceAccount")["metadata"];
        let mut bound = BTreeSet::new();
        for kind in ["ClusterRoleBinding", "RoleBinding"] {
            for binding in objects.of_kind(kind) {
                let subject = json!({"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]});
                assert_eq!(binding["subjects"], json!([subject]));
                let metadata = &binding["metadata"];
                let role = &binding["roleRef"];
                bound.insert((role["kind"].as_str(), role["name"].as_str(), metadata["namespace"].as_str()));
            }
        }
        for role in roles(&objects) {
            let metadata = &role["metadata"];
            let key = (role["kind"].as_str(), metadata["name"].as_str(), metadata["namespace"].as_str());
            assert!(bound.remove(&key), "{key:?} is bound to nobody");
            for rule in
                role["rules"].as_array().unwrap().iter().filter(|rule| rule["resources"] == json!(["leases"]))
            {
                assert_eq!(metadata["namespace"], HOME);
                // The API server cannot check the name of an object that is being made.
                let named = rule["resourceNames"] == json!(["sts-plus"]);
                assert!(named || rule["verbs"] == json!(["create"]), "{rule}");
            }
        }
        assert!(bound.is_empty(), "bindings to roles that are not there: {bound:?}");
    }
}

pub(crate) fn secrets_are_read_by_name_where_allowed_and_nowhere_else(helm: &Helm) {
    let read = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]});
    let followed = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "watch"]});
    for (mode, args, expected) in [
        (DEFAULT, &[][..], vec![]),
        (DEFAULT, &["--set", "secrets.namespaces={shop,logs}"], vec!["shop", "logs"]),
        (PLAIN, &["--set", "secrets.namespaces={shop}"], vec!["shop"]),
        (NAMESPACED, &["--set", "secrets.namespaces={green}"], vec!["green"]),
        (EVERYTHING, &[], vec!["red"]),
    ] {
        let objects = helm.render(&[mode, args].concat());
        let mut allowed = Vec::new();
        // The certificate of the admission server has a test of its own.
        let is_other = |role: &&Value| !role["metadata"]["name"].as_str().unwrap().ends_with("-webhook");
        for role in roles(&objects).into_iter().filter(is_other) {
            if role["rules"].to_string().contains("secrets") {
                // Followed, each by name, only where ExtendedStatefulSets are run.
                let rules = if mode == PLAIN { json!([read]) } else { json!([read, followed]) };
                assert_eq!(role["rules"], rules);
                allowed.push(role["metadata"]["namespace"].as_str().unwrap());
            }
        }
        assert_eq!(allowed, expected, "{mode:?} {args:?}");
    }
}

pub(crate) fn users_get_the_kind_with_the_rights_they_have(helm: &Helm) {
    let objects = helm.render(NAMESPACED);
    let granted: Vec<_> = objects
        .of_kind("ClusterRole")
        .into_iter()
        .map(|role| (aggregates_to(role).unwrap(), strings(&role["rules"][0]["verbs"]), &role["rules"]))
        .collect();
    let expected = [
        ("edit", vec!["create", "delete", "deletecollection", "patch", "update"]),
        ("view", vec!["get", "list", "watch"]),
    ];
    assert_eq!(granted.iter().map(|(role, verbs, _)| (*role, verbs.clone())).collect::<Vec<_>>(), expected);
    for (_, _, rules) in granted {
        assert_eq!(rules.as_array().unwrap().len(), 2);
        assert_eq!(rules[0]["apiGroups"], json!(["sts.plus"]));
        assert_eq!(
            rules[0]["resources"],
            json!(["phasedrollouts", "extendedstatefulsets", "scalingpolicies"])
        );
        assert_eq!(rules[1]["apiGroups"], json!(["fissile.cloudfoundry.org"]));
        assert_eq!(rules[1]["resources"], json!(["extendedstatefulsets"]));
        assert_eq!(rules[1]["verbs"], rules[0]["verbs"]);
    }
    let without = helm.render(&["--set", "rbac.aggregate=false"]);
    assert_eq!(without.of_kind("ClusterRole").len(), 1);
}
