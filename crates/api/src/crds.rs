//! The CustomResourceDefinitions, and the validation rules that the API server enforces.
//!
//! Types, defaults and bounds come from the structs. A constraint between two fields is a CEL rule with the message that the
//! user reads, so that no admission webhook is needed.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use crate::extended::{ExtendedStatefulSet, Group};
use crate::phased_rollout::PhasedRollout;
use crate::scaling_policy::ScalingPolicy;

/// Every kind that sts-plus defines.
pub fn all() -> Vec<CustomResourceDefinition> {
    let mut kinds = vec![PhasedRollout::crd(), ExtendedStatefulSet::crd(), fissile(), ScalingPolicy::crd()];
    for version in kinds.iter_mut().flat_map(|kind| &mut kind.spec.versions) {
        let schema = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut());
        schema.map(finish);
    }
    kinds
}

/// The kind of system D as its users know it: the same schema in another group.
fn fissile() -> CustomResourceDefinition {
    let mut kind = ExtendedStatefulSet::crd();
    Group::Fissile.name().clone_into(&mut kind.spec.group);
    kind.metadata.name = Some(format!("{}.{}", kind.spec.names.plural, kind.spec.group));
    // One short name for two kinds would mean the one whose group comes first in the alphabet.
    kind.spec.names.short_names = Some(vec!["fests".to_owned()]);
    kind
}

/// A whole StatefulSet of which only the replicas are known: the scale subresource needs a number.
pub(crate) fn stateful_set_template(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "The StatefulSet to run. `metadata.name` and `metadata.namespace` are ignored. `spec.replicas` is the number of pods in each zone. A missing selector and missing pod labels are derived.",
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "spec": {
                "description": "The spec of the StatefulSet.",
                "type": "object",
                "default": {},
                "x-kubernetes-preserve-unknown-fields": true,
                "properties": {
                    "replicas": {
                        "description": "The number of pods in each zone. Defaults to 1.",
                        "type": "integer",
                        "format": "int32",
                        "minimum": 0,
                        "default": 1,
                    },
                },
            },
        },
    })
}

/// A number or a text.
pub(crate) fn int_or_string(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-int-or-string": true })
}

/// Any JSON value. Rules cannot refer to it.
pub(crate) fn any_value(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// Changes what schemars generates in three respects, at every level.
///
/// An `Option` is nullable for schemars. The API server drops a null that is not allowed and applies the default, so
/// that `has` in a rule means that there is a value.
///
/// A description has the line breaks of its doc comment. kubectl wraps descriptions to the width of the terminal.
///
/// The API server warns of formats that it does not know, such as `uint32`.
fn finish(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    if let Some(description) = &mut schema.description {
        *description = description.replace('\n', " ");
    }
    if schema.format.as_deref().is_some_and(|format| format.starts_with("uint")) {
        schema.format = None;
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        finish(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        finish(values);
    }
    schema.properties.iter_mut().flat_map(|properties| properties.values_mut()).for_each(finish);
}

/// A rule in CEL, and the message for a user who violates it.
#[derive(Serialize)]
pub(crate) struct Rule {
    rule: &'static str,
    message: &'static str,
}

/// Rules of the spec of an ExtendedStatefulSet.
pub(crate) const EXTENDED: [Rule; 1] = [Rule {
    rule: "!has(self.updateStrategy) || self.updateStrategy.onFailure != 'Rollback' \
           || !has(self.updateStrategy.type) || self.updateStrategy.type != 'InPlace'",
    message: "onFailure Rollback is only for updateStrategy BlueGreen and Handover, which keep the version before",
}];

/// The value of a label.
pub(crate) const LABEL_VALUE: &str = "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$";

/// Rules of an active probe.
pub(crate) const ACTIVE_PROBE: [Rule; 1] = [Rule {
    rule: "(has(self.exec) ? 1 : 0) + (has(self.httpGet) ? 1 : 0) + (has(self.tcpSocket) ? 1 : 0) == 1",
    message: "exactly one of exec, httpGet and tcpSocket must be given",
}];

/// Rules of scaling restrictions.
pub(crate) const SCALING: [Rule; 1] = [Rule {
    rule: "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
    message: "minReplicas must not be greater than maxReplicas",
}];

/// A DNS label.
pub(crate) const LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// The name of a header.
pub(crate) const TOKEN: &str = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$";

/// The value of a header. A line break would begin another header.
pub(crate) const HEADER_VALUE: &str = r"^[\t -~]*$";

/// A quantity that is not negative.
pub(crate) const QUANTITY: &str = "^[0-9]+([.][0-9]*)?([KMGTPE]i|[munkMGTPE]|[eE][+-]?[0-9]+)?$";

/// Rules of a spec.
pub(crate) const SPEC: [Rule; 1] = [Rule {
    rule: "has(self.check) != (has(self.checks) && size(self.checks) > 0)",
    message: "exactly one of check and checks must be given",
}];

/// Rules of a check.
pub(crate) const CHECK: [Rule; 2] = [
    Rule {
        rule: "has(self.compare) == (self.passWhen == 'Compare')",
        message: "compare must be given with passWhen Compare, and only with it",
    },
    Rule {
        rule: "!has(self.noDataPolicy) || self.passWhen != 'NoData'",
        message: "noDataPolicy is only for passWhen Data or Compare: with NoData an empty answer is the pass itself",
    },
];

/// Rules of a query.
pub(crate) const QUERY: [Rule; 6] = [
    Rule {
        rule: "!self.url.contains('://') || self.url.matches('^https?://')",
        message: "the scheme of url must be http or https; a url without one means http",
    },
    Rule {
        rule: "!self.url.matches('^([^/]*://)?[^/]*@')",
        message: "url must not carry a user or a password: put them into a Secret and name it in secretRef",
    },
    Rule { rule: "!self.url.matches('[?#]')", message: "url must be a base address, without ? and #" },
    Rule {
        rule: r"self.url.matches('^([^/]*://)?([^/]*@)?([A-Za-z0-9._-]+|\\[[0-9A-Fa-f:.]+\\])(:[0-9]{1,5})?([/?#]\\S*)?$')",
        message: "url must be a host with or without port and path, such as prometheus.monitoring:9090",
    },
    Rule {
        rule: "!self.insecureSkipVerify || !has(self.caSecretRef)",
        message: "insecureSkipVerify and caSecretRef exclude each other: one trusts anybody, the other one authority",
    },
    Rule {
        rule: "!has(self.secretRef) || !has(self.headers) \
               || !self.headers.exists(header, header.name.lowerAscii() == 'authorization')",
        message: "a header Authorization and secretRef exclude each other: both set credentials",
    },
];

/// Rules of a header.
pub(crate) const HEADER: [Rule; 2] = [
    Rule {
        rule: "has(self.value) != has(self.secretKeyRef)",
        message: "exactly one of value and secretKeyRef must be given",
    },
    Rule {
        rule: "!(self.name.lowerAscii() in ['host', 'content-length', 'content-type', 'transfer-encoding', 'connection'])",
        message: "this header is set by the query itself",
    },
];

/// Rules of the target of a ScalingPolicy.
pub(crate) const TARGET: [Rule; 1] = [Rule {
    rule: "self == oldSelf",
    message: "targetRef cannot be changed: delete the ScalingPolicy and create another one",
}];

/// The path of a request, with or without a query: nothing that ends the request line.
pub(crate) const PATH: &str = "^/[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*$";

/// A JSON pointer; the empty one points to the whole document.
pub(crate) const JSON_POINTER: &str = "^(/.*)?$";

/// Rules of a hook.
pub(crate) const HOOK: [Rule; 1] = [Rule {
    rule: "has(self.http) != has(self.named)",
    message: "exactly one of http and named must be given",
}];

/// Rules of how pods are removed.
pub(crate) const SCALE_DOWN: [Rule; 2] = [
    Rule {
        rule: "!has(self.hook) || !has(self.hook.expectExit) || !self.hook.expectExit || self.fence == 'Lock'",
        message: "hook.expectExit needs fence Lock: without it the container serves again after its exit",
    },
    Rule {
        rule: "self.claims != 'DeleteAfterDrain' || has(self.hook)",
        message: "claims DeleteAfterDrain needs a hook: without one no pod is drained",
    },
];

/// Rules of how pods are added.
pub(crate) const SCALE_UP: [Rule; 1] = [Rule {
    rule: "!has(self.hook) || !has(self.hook.expectExit) || !self.hook.expectExit",
    message: "hook.expectExit is only for scaleDown",
}];

/// Rules of an HTTP hook.
pub(crate) const HTTP_HOOK: [Rule; 2] = [
    Rule { rule: "!has(self.tls) || self.scheme == 'HTTPS'", message: "tls is only for the scheme HTTPS" },
    Rule {
        rule: "!has(self.authorization) || !has(self.headers) \
               || !self.headers.exists(header, header.name.lowerAscii() == 'authorization')",
        message: "a header Authorization and authorization exclude each other: both set credentials",
    },
];
