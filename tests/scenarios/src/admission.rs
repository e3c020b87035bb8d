//! Claims that are named at admission: in the embedded cluster by a webhook in this process, in a real one by a policy. Both do
//! what the pod template asks for, so that scenarios about claims can be played before, and without, the operator's own
//! admission.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use serde_json::{Value, json};
use sts_plus_api::keys;
use sts_plus_cluster::machinery::admission::{Hook, Webhooks};

use crate::cluster::ClusterError;

/// The name of the objects that ask for it.
const NAME: &str = "claims-by-ordinal.scenarios.sts.plus";

const GROUP: &str = "admissionregistration.k8s.io";

/// Answers the reviews of the webhook that names claims. Nothing reaches any other one.
pub(crate) struct ClaimsByOrdinal;

impl Webhooks for ClaimsByOrdinal {
    fn review(&self, hook: Hook, review: Value) -> BoxFuture<'static, Result<Value, String>> {
        Box::pin(async move {
            if hook.name != NAME {
                return Err("nothing reaches webhooks here".to_owned());
            }
            let patch = patch(&review["request"]["object"]);
            let mut response = json!({ "uid": review["request"]["uid"], "allowed": true });
            if !patch.is_empty() {
                response["patchType"] = json!("JSONPatch");
                response["patch"] = json!(STANDARD.encode(json!(patch).to_string()));
            }
            Ok(
                json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response }),
            )
        })
    }
}

/// What gives a pod the claims of its ordinal.
fn patch(pod: &Value) -> Vec<Value> {
    let ordinal = pod["metadata"]["labels"][keys::POD_INDEX].as_str();
    let named =
        pod["metadata"]["name"].as_str().and_then(|name| name.rsplit_once('-')).map(|(_, ordinal)| ordinal);
    let Some(ordinal) = ordinal.or(named) else { return Vec::new() };
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten().enumerate();
    let patches = volumes.filter_map(|(at, volume)| {
        let claim = volume["persistentVolumeClaim"]["claimName"].as_str()?;
        let stem = claim.strip_suffix(keys::CLAIM_PLACEHOLDER)?;
        let path = format!("/spec/volumes/{at}/persistentVolumeClaim/claimName");
        Some(json!({ "op": "replace", "path": path, "value": format!("{stem}-{ordinal}") }))
    });
    patches.collect()
}

/// The configuration of that webhook.
pub(crate) fn webhook() -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "MutatingWebhookConfiguration", "metadata": { "name": NAME },
        "webhooks": [{
            "name": NAME,
            "clientConfig": { "url": "https://127.0.0.1/claims" },
            "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"] }],
            "objectSelector": { "matchLabels": { keys::STABLE_CLAIMS: keys::STABLE_CLAIMS_ON } },
            "admissionReviewVersions": ["v1"], "sideEffects": "None",
        }],
    })
}

/// A policy that does the same, and its binding.
pub(crate) fn policy() -> [Value; 2] {
    let volume = "Object.spec.volumes";
    let claim = "v.persistentVolumeClaim";
    let expression = format!(
        "Object{{spec: Object.spec{{volumes: object.spec.volumes.filter(v, has({claim}) && \
         {claim}.claimName.endsWith('{0}')).map(v, {volume}{{name: v.name, persistentVolumeClaim: \
         {volume}.persistentVolumeClaim{{claimName: {claim}.claimName.replace('{0}', '-' + \
         object.metadata.labels['{1}'])}}}})}}}}",
        keys::CLAIM_PLACEHOLDER,
        keys::POD_INDEX,
    );
    let rules = json!([{
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"],
    }]);
    let selector = json!({ "matchLabels": { keys::STABLE_CLAIMS: keys::STABLE_CLAIMS_ON } });
    [
        json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "MutatingAdmissionPolicy", "metadata": { "name": NAME },
            "spec": {
                "matchConstraints": { "resourceRules": rules, "objectSelector": selector },
                "failurePolicy": "Fail", "reinvocationPolicy": "Never",
                "mutations": [{
                    "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": expression },
                }],
            },
        }),
        json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "MutatingAdmissionPolicyBinding", "metadata": { "name": NAME },
            "spec": { "policyName": NAME },
        }),
    ]
}

/// Creates what asks for it, once.
pub(crate) async fn install(
    client: Client,
    objects: impl IntoIterator<Item = Value>,
) -> Result<(), ClusterError> {
    for object in objects {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1", &kind));
        let object: DynamicObject =
            serde_json::from_value(object).map_err(|error| ClusterError(Box::new(error)))?;
        let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
        match api.create(&PostParams::default(), &object).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => return Err(ClusterError(Box::new(error))),
        }
    }
    Ok(())
}
