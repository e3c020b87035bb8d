//! The built-in rows.

use super::built_in_columns as columns;
use super::columns::Column;
use super::{
    Action, Columns, Convert, Habits, Kind, Plain, Scale, Strategy, Version, apps, claims, definitions,
    disruption,
};
use super::{events, namespaces, pods, quotas, services, sets, small};
use crate::machinery::schema::Definitions;
use crate::machinery::store::KindId;

/// A built-in kind.
pub(super) struct Row {
    pub(super) group: &'static str,
    version: &'static str,
    kind: &'static str,
    pub(super) plural: &'static str,
    short_names: &'static [&'static str],
    categories: &'static [&'static str],
    namespaced: bool,
    status: bool,
    scale: bool,
    actions: &'static [Action],
    /// Fields that selectors may name besides name and namespace: `said=stored?default`.
    fields: &'static [&'static str],
    habits: Habits,
    strategy: &'static dyn Strategy,
    /// Group and plural of the kind that it shares its objects with, and how it shows them.
    pub(super) stored_with: Option<(&'static str, &'static str)>,
    convert: Option<Convert>,
    /// What tables show of its objects.
    columns: &'static [Column],
}

const ALL: &[&str] = &["all"];
const ORDINARY: Habits = Habits {
    generation: false,
    unconditional_update: true,
    create_on_update: false,
    shows_deleted: false,
    one_by_one: false,
    uncached: false,
};
const COUNTED: Habits = Habits { generation: true, ..ORDINARY };
const CAREFUL: Habits = Habits { unconditional_update: false, ..COUNTED };
const SHOWN: Habits = Habits { shows_deleted: true, ..ORDINARY };

/// A namespaced kind without peculiarities; the rest of a row says what differs.
const PLAIN: Row = Row {
    group: "",
    version: "v1",
    kind: "",
    plural: "",
    short_names: &[],
    categories: &[],
    namespaced: true,
    status: false,
    scale: false,
    actions: &[],
    fields: &[],
    habits: ORDINARY,
    strategy: &Plain,
    stored_with: None,
    convert: None,
    columns: columns::SIMPLE,
};
const APPS: Row = Row { group: "apps", ..PLAIN };
const CLUSTER: Row = Row { namespaced: false, ..PLAIN };
const RBAC: Row = Row {
    group: "rbac.authorization.k8s.io",
    habits: Habits { create_on_update: true, ..ORDINARY },
    strategy: &small::Rbac,
    ..PLAIN
};
const WEBHOOKS: Row = Row {
    group: "admissionregistration.k8s.io",
    categories: &["api-extensions"],
    habits: CAREFUL,
    ..CLUSTER
};

pub(super) const BUILT_IN: &[Row] = &[
    Row {
        kind: "Namespace",
        plural: "namespaces",
        columns: columns::NAMESPACES,
        short_names: &["ns"],
        status: true,
        actions: &[],
        fields: &["status.phase"],
        habits: Habits { one_by_one: true, ..SHOWN },
        strategy: &namespaces::Namespaces,
        ..CLUSTER
    },
    Row {
        kind: "ConfigMap",
        plural: "configmaps",
        columns: columns::CONFIG_MAPS,
        short_names: &["cm"],
        strategy: &small::ConfigMaps,
        ..PLAIN
    },
    Row {
        kind: "Secret",
        plural: "secrets",
        columns: columns::SECRETS,
        fields: &["type"],
        strategy: &small::Secrets,
        ..PLAIN
    },
    Row {
        kind: "ResourceQuota",
        plural: "resourcequotas",
        columns: columns::QUOTAS,
        short_names: &["quota"],
        status: true,
        habits: SHOWN,
        strategy: &quotas::Quotas,
        ..PLAIN
    },
    Row {
        kind: "ServiceAccount",
        plural: "serviceaccounts",
        columns: columns::ACCOUNTS,
        short_names: &["sa"],
        habits: SHOWN,
        ..PLAIN
    },
    Row {
        kind: "Service",
        plural: "services",
        columns: columns::SERVICES,
        short_names: &["svc"],
        categories: ALL,
        status: true,
        fields: &["spec.clusterIP", "spec.type"],
        habits: Habits { create_on_update: true, ..SHOWN },
        strategy: &services::Services,
        ..PLAIN
    },
    Row {
        kind: "Pod",
        plural: "pods",
        columns: columns::PODS,
        short_names: &["po"],
        categories: ALL,
        status: true,
        actions: &[
            Action { name: "binding", kind: "Binding", api_version: "v1", act: pods::bind },
            Action { name: "eviction", kind: "Eviction", api_version: "policy/v1", act: disruption::evict },
        ],
        fields: &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork?false",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        habits: Habits { shows_deleted: true, ..COUNTED },
        strategy: &pods::Pods,
        ..PLAIN
    },
    Row {
        kind: "Node",
        plural: "nodes",
        columns: columns::NODES,
        short_names: &["no"],
        status: true,
        fields: &["spec.unschedulable?false"],
        strategy: &small::Nodes,
        ..CLUSTER
    },
    Row {
        kind: "PersistentVolume",
        plural: "persistentvolumes",
        columns: columns::VOLUMES,
        short_names: &["pv"],
        status: true,
        habits: SHOWN,
        strategy: &claims::Volumes,
        ..CLUSTER
    },
    Row {
        kind: "PersistentVolumeClaim",
        plural: "persistentvolumeclaims",
        columns: columns::CLAIMS,
        short_names: &["pvc"],
        status: true,
        habits: SHOWN,
        strategy: &claims::Claims,
        ..PLAIN
    },
    Row {
        kind: "Event",
        plural: "events",
        columns: columns::EVENTS,
        short_names: &["ev"],
        fields: events::FIELDS,
        habits: Habits { create_on_update: true, uncached: true, ..ORDINARY },
        strategy: &events::Events,
        ..PLAIN
    },
    Row {
        group: "events.k8s.io",
        kind: "Event",
        plural: "events",
        columns: columns::EVENTS,
        short_names: &["ev"],
        fields: events::NEW_FIELDS,
        habits: Habits { create_on_update: true, uncached: true, ..ORDINARY },
        strategy: &events::Events,
        stored_with: Some(("", "events")),
        convert: Some(events::CONVERT),
        ..PLAIN
    },
    Row {
        kind: "StatefulSet",
        plural: "statefulsets",
        columns: columns::SETS,
        short_names: &["sts"],
        categories: ALL,
        status: true,
        scale: true,
        habits: COUNTED,
        strategy: &sets::StatefulSets { max_unavailable: false },
        ..APPS
    },
    Row {
        kind: "ControllerRevision",
        plural: "controllerrevisions",
        columns: columns::REVISIONS,
        strategy: &apps::Revisions,
        ..APPS
    },
    Row {
        kind: "Deployment",
        plural: "deployments",
        columns: columns::DEPLOYMENTS,
        short_names: &["deploy"],
        categories: ALL,
        status: true,
        scale: true,
        habits: COUNTED,
        strategy: &apps::Deployments,
        ..APPS
    },
    Row {
        kind: "ReplicaSet",
        plural: "replicasets",
        columns: columns::REPLICA_SETS,
        short_names: &["rs"],
        categories: ALL,
        status: true,
        scale: true,
        habits: COUNTED,
        strategy: &apps::ReplicaSets,
        ..APPS
    },
    Row {
        group: "batch",
        kind: "Job",
        plural: "jobs",
        columns: columns::JOBS,
        categories: ALL,
        status: true,
        fields: &["status.successful=status.succeeded?0"],
        habits: COUNTED,
        strategy: &apps::Jobs,
        ..PLAIN
    },
    Row {
        group: "policy",
        kind: "PodDisruptionBudget",
        plural: "poddisruptionbudgets",
        columns: columns::BUDGETS,
        short_names: &["pdb"],
        status: true,
        habits: CAREFUL,
        strategy: &disruption::Budgets,
        ..PLAIN
    },
    Row {
        group: "coordination.k8s.io",
        kind: "Lease",
        plural: "leases",
        columns: columns::LEASES,
        habits: Habits { create_on_update: true, unconditional_update: false, ..ORDINARY },
        strategy: &small::Leases,
        ..PLAIN
    },
    Row {
        group: "discovery.k8s.io",
        kind: "EndpointSlice",
        plural: "endpointslices",
        columns: columns::SLICES,
        habits: COUNTED,
        strategy: &services::Slices,
        ..PLAIN
    },
    Row {
        group: "storage.k8s.io",
        kind: "StorageClass",
        plural: "storageclasses",
        columns: columns::CLASSES,
        short_names: &["sc"],
        habits: SHOWN,
        strategy: &claims::Classes,
        ..CLUSTER
    },
    Row {
        group: "scheduling.k8s.io",
        kind: "PriorityClass",
        plural: "priorityclasses",
        columns: columns::PRIORITIES,
        short_names: &["pc"],
        habits: COUNTED,
        strategy: &small::PriorityClasses,
        ..CLUSTER
    },
    Row { kind: "Role", plural: "roles", ..RBAC },
    Row { kind: "RoleBinding", plural: "rolebindings", columns: columns::BINDINGS, ..RBAC },
    Row { kind: "ClusterRole", plural: "clusterroles", namespaced: false, ..RBAC },
    Row {
        kind: "ClusterRoleBinding",
        plural: "clusterrolebindings",
        columns: columns::BINDINGS,
        namespaced: false,
        ..RBAC
    },
    Row {
        kind: "ValidatingWebhookConfiguration",
        plural: "validatingwebhookconfigurations",
        columns: columns::WEBHOOKS,
        strategy: &small::Webhooks { mutating: false },
        ..WEBHOOKS
    },
    Row {
        kind: "MutatingWebhookConfiguration",
        plural: "mutatingwebhookconfigurations",
        columns: columns::WEBHOOKS,
        strategy: &small::Webhooks { mutating: true },
        ..WEBHOOKS
    },
    Row {
        group: "apiextensions.k8s.io",
        kind: "CustomResourceDefinition",
        plural: "customresourcedefinitions",
        short_names: &["crd", "crds"],
        categories: &["api-extensions"],
        status: true,
        habits: Habits { shows_deleted: true, ..CAREFUL },
        strategy: &definitions::CustomDefinitions,
        ..CLUSTER
    },
];

impl Row {
    pub(super) fn kind(&self, id: KindId, definitions: &Definitions) -> Kind {
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        let scale = self.scale.then(|| Scale {
            spec_replicas: "/spec/replicas".to_owned(),
            status_replicas: "/status/replicas".to_owned(),
            selector: Some("/spec/selector".to_owned()),
        });
        let schema = definitions.kind(self.group, self.version, self.kind);
        let versions = schema.map(|schema| Version {
            name: self.version.to_owned(),
            schema,
            convert: self.convert,
            status: self.status,
            scale,
            deprecation: None,
            columns: Columns::BuiltIn(self.columns),
        });
        let place: &[&str] = if self.namespaced { &["metadata.namespace"] } else { &[] };
        Kind {
            id,
            group: self.group.to_owned(),
            kind: self.kind.to_owned(),
            list_kind: format!("{}List", self.kind),
            plural: self.plural.to_owned(),
            singular: self.kind.to_lowercase(),
            short_names: texts(self.short_names),
            categories: texts(self.categories),
            namespaced: self.namespaced,
            versions: versions.into_iter().collect(),
            stored: self.version.to_owned(),
            custom: false,
            actions: self.actions,
            fields: [&["metadata.name"], place, self.fields].concat(),
            habits: self.habits,
            strategy: self.strategy,
        }
    }
}
