//! Our controller, in a namespace.

use std::sync::Arc;

use sts_plus_operator::shell::cache::Scope;
use sts_plus_planner::statefulset::world::Features;

use crate::cluster::{Account, Cluster};
use crate::operator::Operator;
use crate::rules;

/// Starts it with an account of its own, which may do what the chart permits.
pub async fn start(cluster: &Arc<dyn Cluster>, namespace: &str, features: Features) -> (Operator, Account) {
    let account = account(cluster, namespace).await;
    (start_as(cluster, &account, namespace, features), account)
}

/// An account of its own, which may do what the chart permits.
pub async fn account(cluster: &Arc<dyn Cluster>, namespace: &str) -> Account {
    let account = cluster.newcomer("operator").unwrap();
    cluster.grant(&account, Some(namespace), [rules::work(), rules::statefulset()].concat()).await.unwrap();
    account
}

/// Starts it with an account that there is already.
pub fn start_as(
    cluster: &Arc<dyn Cluster>,
    account: &Account,
    namespace: &str,
    features: Features,
) -> Operator {
    let scope = Scope::Namespaces(vec![namespace.to_owned()]);
    Operator::start_native(&cluster.outside(), account.client.clone(), scope, namespace, features)
}
