use serde_json::json;

use super::manager_of_partition;

fn entry(manager: &str, time: &str, fields: &serde_json::Value) -> serde_json::Value {
    json!({ "manager": manager, "operation": "Update", "time": time, "fieldsV1": fields })
}

#[test]
fn the_other_writer_of_a_partition_is_the_one_who_owns_it() {
    let partition = json!({ "f:spec": { "f:updateStrategy": { "f:rollingUpdate": { "f:partition": {} } } } });
    let replicas = json!({ "f:spec": { "f:replicas": {} } });
    let set = json!({ "metadata": { "managedFields": [
        entry("argocd", "2026-01-01T00:00:00Z", &partition),
        entry("kubectl-scale", "2026-01-02T00:00:00Z", &replicas),
        entry("sts-plus/phased-rollout", "2026-01-03T00:00:00Z", &partition),
    ] } });
    assert_eq!(manager_of_partition(&set), "argocd");
}

#[test]
fn where_nobody_owns_it_the_last_writer_of_anything_is_named_and_else_nobody() {
    let replicas = json!({ "f:spec": { "f:replicas": {} } });
    let mut status = entry("kube-controller-manager", "2026-01-05T00:00:00Z", &json!({}));
    status["subresource"] = json!("status");
    let set = json!({ "metadata": { "managedFields": [
        entry("helm", "2026-01-01T00:00:00Z", &replicas),
        entry("kubectl-edit", "2026-01-02T00:00:00Z", &replicas),
        status,
    ] } });
    assert_eq!(manager_of_partition(&set), "kubectl-edit");
    assert_eq!(manager_of_partition(&json!({})), "an unknown manager");
}
