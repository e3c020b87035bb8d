//! The kinds of objects that are read and written, by the names that the API server has for them.

use std::fmt;

/// A kind of object. The named ones are those that the code knows the meaning of; any other is [`Kind::Other`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A pod.
    Pod,
    /// A StatefulSet.
    StatefulSet,
    /// A PhasedRollout.
    PhasedRollout,
    /// An ExtendedStatefulSet of the group `sts.plus`.
    Extended,
    /// An ExtendedStatefulSet of the group `fissile.cloudfoundry.org`.
    FissileExtended,
    /// A ScalingPolicy.
    ScalingPolicy,
    /// A Service.
    Service,
    /// A ConfigMap.
    ConfigMap,
    /// A PersistentVolumeClaim.
    Claim,
    /// A ControllerRevision.
    Revision,
    /// An event of the core group.
    Event,
    /// A lease.
    Lease,
    /// A secret.
    Secret,
    /// A kind of which nothing but its definition is known. A definition that is found at run time is leaked, once for each
    /// kind that a process is configured with.
    Other(&'static Definition),
}

/// What the API server calls a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Definition {
    /// Group and version; for the core group the version alone.
    pub api_version: &'static str,
    /// The kind, as objects name it.
    pub kind: &'static str,
    /// The plural, as paths and RBAC rules name it.
    pub plural: &'static str,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// Whether a cluster may lack it, because it comes with a CustomResourceDefinition.
    pub custom: bool,
}

impl Kind {
    /// All that have a name here.
    pub const NAMED: [Self; 13] = [
        Self::Pod,
        Self::StatefulSet,
        Self::PhasedRollout,
        Self::Extended,
        Self::FissileExtended,
        Self::ScalingPolicy,
        Self::Service,
        Self::ConfigMap,
        Self::Claim,
        Self::Revision,
        Self::Event,
        Self::Lease,
        Self::Secret,
    ];

    /// What the API server calls it.
    pub const fn definition(self) -> &'static Definition {
        match self {
            Self::Pod => const { &Definition::built_in("v1", "Pod", "pods") },
            Self::StatefulSet => const { &Definition::built_in("apps/v1", "StatefulSet", "statefulsets") },
            Self::PhasedRollout => {
                const { &Definition::custom("sts.plus/v1alpha1", "PhasedRollout", "phasedrollouts") }
            }
            Self::Extended => {
                const { &Definition::custom("sts.plus/v1alpha1", "ExtendedStatefulSet", "extendedstatefulsets") }
            }
            Self::FissileExtended => {
                const {
                    &Definition::custom(
                        "fissile.cloudfoundry.org/v1alpha1",
                        "ExtendedStatefulSet",
                        "extendedstatefulsets",
                    )
                }
            }
            Self::ScalingPolicy => {
                const { &Definition::custom("sts.plus/v1alpha1", "ScalingPolicy", "scalingpolicies") }
            }
            Self::Service => const { &Definition::built_in("v1", "Service", "services") },
            Self::ConfigMap => const { &Definition::built_in("v1", "ConfigMap", "configmaps") },
            Self::Claim => {
                const { &Definition::built_in("v1", "PersistentVolumeClaim", "persistentvolumeclaims") }
            }
            Self::Revision => {
                const { &Definition::built_in("apps/v1", "ControllerRevision", "controllerrevisions") }
            }
            Self::Event => const { &Definition::built_in("v1", "Event", "events") },
            Self::Lease => const { &Definition::built_in("coordination.k8s.io/v1", "Lease", "leases") },
            Self::Secret => const { &Definition::built_in("v1", "Secret", "secrets") },
            Self::Other(definition) => definition,
        }
    }

    /// The plural, as paths and RBAC rules name it.
    pub const fn plural(self) -> &'static str {
        self.definition().plural
    }
}

impl Definition {
    /// A namespaced kind that every cluster has.
    pub const fn built_in(api_version: &'static str, kind: &'static str, plural: &'static str) -> Self {
        Self { api_version, kind, plural, namespaced: true, custom: false }
    }

    /// A namespaced kind that comes with a CustomResourceDefinition.
    pub const fn custom(api_version: &'static str, kind: &'static str, plural: &'static str) -> Self {
        Self { custom: true, ..Self::built_in(api_version, kind, plural) }
    }

    /// The same kind with objects that are in no namespace.
    #[must_use]
    pub const fn cluster_wide(self) -> Self {
        Self { namespaced: false, ..self }
    }

    /// The path below which its objects are.
    pub fn root(&self) -> String {
        let api = if self.api_version.contains('/') { "apis" } else { "api" };
        format!("/{api}/{}", self.api_version)
    }
}

impl fmt::Display for Kind {
    /// The plural.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.plural())
    }
}

#[cfg(test)]
#[path = "kinds_tests.rs"]
mod tests;
