//! What an identity may do.

use std::time::Duration;

use k8s_openapi::api::{
    authorization::v1::{
        NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
    },
    rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject},
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    control_plane::ControlPlane,
    identity::Identity,
    wait::{NotYet, TimedOut, try_until},
};

/// The server's authorizer learns of a role within milliseconds; this only bounds hanging.
const EFFECT_DEADLINE: Duration = Duration::from_mins(2);
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// Where a grant holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'a> {
    Namespace(&'a str),
    /// In all of them, and for what is in none.
    Cluster,
}

/// Why a grant is not in effect.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The API server refused or did not answer.
    #[error("{what}: {source}")]
    Request {
        /// What was asked for.
        what: &'static str,
        /// Its answer.
        source: Box<kube::Error>,
    },
    /// The grant was written and the server does not act on it.
    #[error(transparent)]
    NoEffect(#[from] TimedOut),
}

impl ControlPlane {
    /// Lets a user do what the rules say, besides what it may already do; returns once the server agrees.
    pub async fn grant(
        &self,
        identity: &Identity,
        scope: Scope<'_>,
        rules: Vec<PolicyRule>,
    ) -> Result<(), AccessError> {
        let attempts: Vec<_> = rules.iter().map(|rule| attempt(identity, scope, rule)).collect();
        let metadata =
            ObjectMeta { generate_name: Some(format!("{}-", identity.user())), ..ObjectMeta::default() };
        let subjects = Some(vec![Subject {
            api_group: Some(RBAC_GROUP.into()),
            kind: "User".into(),
            name: identity.user().into(),
            namespace: None,
        }]);
        match scope {
            Scope::Namespace(namespace) => {
                let role = Role { metadata: metadata.clone(), rules: Some(rules) };
                let role = create(Api::namespaced(self.admin(), namespace), "create a role", &role).await?;
                let role_ref = role_ref("Role", role.metadata);
                let binding = RoleBinding { metadata, role_ref, subjects };
                create(Api::namespaced(self.admin(), namespace), "bind a role", &binding).await?;
            }
            Scope::Cluster => {
                let role =
                    ClusterRole { metadata: metadata.clone(), rules: Some(rules), aggregation_rule: None };
                let role = create(Api::all(self.admin()), "create a cluster role", &role).await?;
                let role_ref = role_ref("ClusterRole", role.metadata);
                let binding = ClusterRoleBinding { metadata, role_ref, subjects };
                create(Api::all(self.admin()), "bind a cluster role", &binding).await?;
            }
        }
        for attempt in attempts {
            in_effect(&self.admin(), &attempt).await?;
        }
        Ok(())
    }
}

async fn create<K>(api: Api<K>, what: &'static str, object: &K) -> Result<K, AccessError>
where
    K: Clone + Serialize + DeserializeOwned + std::fmt::Debug,
{
    api.create(&PostParams::default(), object)
        .await
        .map_err(|source| AccessError::Request { what, source: Box::new(source) })
}

fn role_ref(kind: &str, role: ObjectMeta) -> RoleRef {
    RoleRef { api_group: RBAC_GROUP.into(), kind: kind.into(), name: role.name.unwrap_or_default() }
}

/// Something that the rule allows.
fn attempt(identity: &Identity, scope: Scope<'_>, rule: &PolicyRule) -> SubjectAccessReview {
    let first = |values: &Option<Vec<String>>| values.as_ref().and_then(|values| values.first().cloned());
    let verb = rule.verbs.first().cloned();
    let mut spec = SubjectAccessReviewSpec { user: Some(identity.user().into()), ..Default::default() };
    if let Some(path) = first(&rule.non_resource_urls) {
        spec.non_resource_attributes = Some(NonResourceAttributes { path: Some(path), verb });
    } else {
        let resource = first(&rule.resources).unwrap_or_default();
        let (resource, subresource) = match resource.split_once('/') {
            Some((resource, subresource)) => (resource.to_owned(), Some(subresource.to_owned())),
            None => (resource, None),
        };
        spec.resource_attributes = Some(ResourceAttributes {
            group: first(&rule.api_groups),
            resource: Some(resource),
            subresource,
            name: first(&rule.resource_names),
            namespace: match scope {
                Scope::Namespace(namespace) => Some(namespace.into()),
                Scope::Cluster => None,
            },
            verb,
            ..Default::default()
        });
    }
    SubjectAccessReview { spec, ..Default::default() }
}

async fn in_effect(admin: &Client, attempt: &SubjectAccessReview) -> Result<(), AccessError> {
    let reviews = Api::<SubjectAccessReview>::all(admin.clone());
    try_until(EFFECT_DEADLINE, format!("a grant to take effect: {:?}", attempt.spec), || async {
        let review = reviews.create(&PostParams::default(), attempt).await?;
        if review.status.as_ref().is_some_and(|status| status.allowed) {
            Ok(())
        } else {
            Err(NotYet::saw(review.status))
        }
    })
    .await?;
    Ok(())
}
