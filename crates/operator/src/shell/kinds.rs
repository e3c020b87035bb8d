//! The table of kinds: how each is followed, and how it is confirmed before a disruption. Which of them are followed is said by
//! the controllers that run, see [`Controller::reads`](crate::runtime::Controller::reads).
//!
//! What is kept of an object, how it is decoded and found, whom it concerns and how the executor sees it is the kind's
//! table in `shell::cache`; a kind without one is kept as its metadata. What the API server calls it is [`Kind::definition`].

pub use sts_plus_api::kinds::{Definition, Kind};

/// The parameter of a query that selects by labels.
pub const LABEL_SELECTOR: &str = "labelSelector";

/// The parameter of a query that selects by fields.
pub const FIELD_SELECTOR: &str = "fieldSelector";

/// The Services and the ConfigMaps that sts-plus creates, by [`sts_plus_api::keys::MANAGED_BY`].
const MANAGED: &str = "app.kubernetes.io/managed-by=sts-plus";

/// How a kind is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handling {
    pub kind: Kind,
    /// What the server is asked to send.
    pub form: Form,
    /// Which objects are followed.
    pub selection: Selection,
    /// What a missing permission to follow it means.
    pub need: Need,
    /// How what is cached of it is confirmed.
    pub confirmed: Confirmed,
}

/// What the server sends of each object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    #[default]
    Json,
    /// Its metadata, as JSON.
    Metadata,
}

/// The objects of a kind that are followed, by selectors as a query spells them. One that no longer matches counts as deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    pub labels: Option<&'static str>,
    pub fields: Option<&'static str>,
}

/// What it means that a kind cannot be followed. A custom kind without a definition has no objects, whoever needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing is planned before it is listed.
    Required,
    /// Required where an own StatefulSet controller runs, and otherwise optional.
    ToControlSets,
    /// Where following it is forbidden, whoever runs without asking for it does so without it.
    Optional,
}

/// Whose disruptions need the kind confirmed, and how a disruption domain is read again then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmed {
    /// Everybody's: the sets of the domain and their pods are read together.
    WithMembers,
    /// Those of a controller that reads the kind: its objects of the domain's namespace are listed.
    ByNamespace,
    /// Nobody's: each write to one carries the version that it was decided on, and what it holds decides about no pod.
    Never,
}

/// The kinds that controllers ask for, in the order in which they are followed.
pub const TABLE: &[Handling] = &[
    Handling { confirmed: Confirmed::WithMembers, ..Handling::whole(Kind::StatefulSet) },
    Handling { confirmed: Confirmed::WithMembers, ..Handling::whole(Kind::Pod) },
    Handling { confirmed: Confirmed::ByNamespace, ..Handling::whole(Kind::PhasedRollout) },
    Handling { confirmed: Confirmed::ByNamespace, ..Handling::whole(Kind::Extended) },
    Handling {
        confirmed: Confirmed::ByNamespace,
        need: Need::Optional,
        ..Handling::whole(Kind::FissileExtended)
    },
    Handling { confirmed: Confirmed::ByNamespace, ..Handling::whole(Kind::ScalingPolicy) },
    Handling {
        selection: Selection { labels: Some(MANAGED), fields: None },
        need: Need::Optional,
        ..Handling::whole(Kind::Service)
    },
    // The locks of ScalingPolicies. Which keys one lacks was written by the same controller, and its own writes are awaited.
    Handling {
        selection: Selection { labels: Some(MANAGED), fields: None },
        need: Need::Optional,
        ..Handling::whole(Kind::ConfigMap)
    },
    Handling { need: Need::ToControlSets, ..Handling::whole(Kind::Claim) },
    Handling::whole(Kind::Revision),
];

impl Handling {
    /// How a kind is handled by default that has a table of its own: followed as a whole, and needed.
    const fn whole(kind: Kind) -> Self {
        Self {
            kind,
            form: Form::Json,
            selection: Selection { labels: None, fields: None },
            need: Need::Required,
            confirmed: Confirmed::Never,
        }
    }

    /// How a kind is handled of which only the metadata is kept.
    pub const fn metadata(kind: Kind) -> Self {
        Self { form: Form::Metadata, confirmed: Confirmed::ByNamespace, ..Self::whole(kind) }
    }

    /// How a kind is handled: as the table has it, otherwise by its metadata.
    pub fn of(kind: Kind) -> Self {
        let known = TABLE.iter().copied().find(|known| known.kind == kind);
        known.unwrap_or(Self::metadata(kind))
    }

    /// The kinds that are confirmed together with this one: what cannot be read of one of them cannot be planned on for any.
    pub fn confirmed_with(&self) -> Vec<Kind> {
        // A kind that may be missing holds up nothing but what is about it.
        let stands_alone =
            |handling: &Self| handling.confirmed == Confirmed::ByNamespace || handling.need == Need::Optional;
        let alike =
            |known: &&Self| known.confirmed == self.confirmed && !stands_alone(known) && !stands_alone(self);
        let mut kinds: Vec<_> = TABLE.iter().filter(alike).map(|known| known.kind).collect();
        if !kinds.contains(&self.kind) {
            kinds.push(self.kind);
        }
        kinds
    }
}

impl Selection {
    /// The parameters of a query.
    pub fn query(self) -> Vec<(&'static str, String)> {
        self.query_within(None)
    }

    /// The parameters of a query for those of its objects that another selector selects, too.
    pub fn query_within(self, other: Option<(&'static str, &str)>) -> Vec<(&'static str, String)> {
        let own = [(LABEL_SELECTOR, self.labels), (FIELD_SELECTOR, self.fields)];
        let joined = own.into_iter().filter_map(|(parameter, own)| {
            let other = other.filter(|(other, _)| *other == parameter).map(|(_, terms)| terms);
            let terms: Vec<_> = own.into_iter().chain(other).collect();
            (!terms.is_empty()).then(|| (parameter, terms.join(",")))
        });
        joined.collect()
    }

    /// Whether everything is followed.
    pub fn is_all(self) -> bool {
        self == Self::default()
    }
}

impl Form {
    /// What a request for one object, a list or a watch accepts.
    pub fn accept(self, verb: &str) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Metadata if verb == "list" => {
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
            }
            Self::Metadata => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        }
    }
}

#[cfg(test)]
#[path = "kinds_tests.rs"]
mod tests;
