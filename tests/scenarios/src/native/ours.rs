//! Our controller, in a namespace.

use std::sync::Arc;

use k8s_openapi::api::rbac::v1::PolicyRule;
use sts_plus_operator::shell::cache::Scope;
use sts_plus_planner::statefulset::world::Features;

use crate::cluster::{Account, Cluster};
use crate::operator::Operator;
use crate::rules;

/// Starts it with an account of its own, which may do what the chart permits.
pub async fn start(cluster: &Arc<dyn Cluster>, namespace: &str, features: Features) -> (Operator, Account) {
    let account = cluster.newcomer("operator").unwrap();
    cluster.grant(&account, Some(namespace), permitted()).await.unwrap();
    (start_as(&account, namespace, features), account)
}

/// Starts it with an account that there is already.
pub fn start_as(account: &Account, namespace: &str, features: Features) -> Operator {
    let scope = Scope::Namespaces(vec![namespace.to_owned()]);
    Operator::start_native(account.client.clone(), scope, namespace, features)
}

fn permitted() -> Vec<PolicyRule> {
    let more = |group: &str, resources: &[&str], verbs: &[&str]| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(resources.iter().map(|&text| text.to_owned()).collect()),
        verbs: verbs.iter().map(|&text| text.to_owned()).collect(),
        ..PolicyRule::default()
    };
    let own = [
        more("", &["pods"], &["create", "patch"]),
        more("", &["persistentvolumeclaims"], &["get", "list", "watch", "create", "patch"]),
        more("apps", &["controllerrevisions"], &["get", "list", "watch", "create", "patch", "delete"]),
        more("apps", &["statefulsets/finalizers"], &["update"]),
    ];
    [rules::work(), own.to_vec()].concat()
}
