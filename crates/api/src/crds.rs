//! The CustomResourceDefinitions, and the validation rules that the API server enforces.
//!
//! Types, defaults and bounds come from the structs. A constraint between two fields is a CEL rule with the message that the
//! user reads, so that no admission webhook is needed.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use kube::CustomResourceExt;
use serde::Serialize;

use crate::phased_rollout::PhasedRollout;

/// Every kind that sts-plus defines.
pub fn all() -> Vec<CustomResourceDefinition> {
    let mut kinds = vec![PhasedRollout::crd()];
    for version in kinds.iter_mut().flat_map(|kind| &mut kind.spec.versions) {
        let schema = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut());
        schema.map(finish);
    }
    kinds
}

/// Changes what schemars generates in two respects, at every level.
///
/// An `Option` is nullable for schemars. The API server drops a null that is not allowed and applies the default, so
/// that `has` in a rule means that there is a value.
///
/// A description has the line breaks of its doc comment. kubectl wraps descriptions to the width of the terminal.
fn finish(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    if let Some(description) = &mut schema.description {
        *description = description.replace('\n', " ");
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        finish(items);
    }
    schema.properties.iter_mut().flat_map(|properties| properties.values_mut()).for_each(finish);
}

/// A rule in CEL, and the message for a user who violates it.
#[derive(Serialize)]
pub(crate) struct Rule {
    rule: &'static str,
    message: &'static str,
}

/// A DNS label.
pub(crate) const LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// The name of a header.
pub(crate) const TOKEN: &str = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$";

/// The value of a header. A line break would begin another header.
pub(crate) const HEADER_VALUE: &str = r"^[\t -~]*$";

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
