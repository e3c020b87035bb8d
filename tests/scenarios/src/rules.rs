//! The permissions that the chart ships, and so the only ones that an operator has here.

use k8s_openapi::api::rbac::v1::PolicyRule;

const TEMPLATE: &str = include_str!("../../../charts/sts-plus/templates/_rules.tpl");

/// What the operator may do in each namespace it works in where the controllers are the default ones.
pub fn by_default() -> Vec<PolicyRule> {
    [work(), extended(), scaling()].concat()
}

/// What the operator may do in each namespace it works in, whatever its controllers.
pub fn work() -> Vec<PolicyRule> {
    defined("sts-plus.rules.work")
}

/// What the operator may do beside that where it controls sets.
pub fn statefulset() -> Vec<PolicyRule> {
    defined("sts-plus.rules.statefulset")
}

/// What the operator may do beside that where it runs ExtendedStatefulSets.
pub fn extended() -> Vec<PolicyRule> {
    defined("sts-plus.rules.extended")
}

/// What the operator may do beside that where it runs ScalingPolicies.
pub fn scaling() -> Vec<PolicyRule> {
    defined("sts-plus.rules.scaling")
}

/// What the operator may do beside that in the whole cluster where it runs ScalingPolicies.
pub fn nodes() -> Vec<PolicyRule> {
    defined("sts-plus.rules.nodes")
}

/// What the operator may do beside that where active probes run commands.
pub fn exec() -> Vec<PolicyRule> {
    defined("sts-plus.rules.exec")
}

/// What the operator may do in each namespace whose Secrets it may follow.
pub fn followed_secrets() -> Vec<PolicyRule> {
    defined("sts-plus.rules.followed-secrets")
}

/// What the operator may do in the whole cluster where its replicas make the certificate of the admission server.
pub fn webhook() -> Vec<PolicyRule> {
    defined("sts-plus.rules.webhook")
}

/// What the operator may do beside that in the namespace it lives in.
pub fn webhook_secret() -> Vec<PolicyRule> {
    defined("sts-plus.rules.webhook-secret")
}

/// What the operator may do in the namespace it lives in.
pub fn home() -> Vec<PolicyRule> {
    defined("sts-plus.rules.home")
}

/// What the operator may do in each namespace whose Secrets it may read.
pub fn secrets() -> Vec<PolicyRule> {
    defined("sts-plus.rules.secrets")
}

/// The lists are plain YAML between two lines of the template language.
fn defined(name: &str) -> Vec<PolicyRule> {
    let begin = format!("{{{{- define \"{name}\" -}}}}");
    let (_, rest) = TEMPLATE.split_once(&begin).expect("the chart defines the list");
    let (list, _) = rest.split_once("{{- end -}}").expect("the definition ends");
    serde_saphyr::from_str(list).expect("a list of rules")
}
