//! What is done about a change of immutable fields of a StatefulSet, as a status reports it before it begins.

use serde::{Deserialize, Serialize};

/// What is done, or will be, about a change of immutable fields of a StatefulSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct RemedyStatus {
    /// What is done. `None`: nothing, the StatefulSet and its claims are as asked for. `ExpandClaims`: claims are grown in
    /// place. `Recreate`: in addition the StatefulSet is deleted without its pods and created again, which adopts them.
    #[serde(rename = "type")]
    pub kind: RemedyKind,
    /// The same in words. It is written before anything is done.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// How often each pod is restarted.
    pub restarts: u32,
    /// Whether the application has to build up its data again on other volumes.
    pub moves_data: bool,
    /// The UID of the StatefulSet that this describes.
    #[serde(rename = "targetUID")]
    pub target_uid: String,
    /// A hash of what was asked for.
    pub asked: String,
    /// The number of replicas whose claims were found as asked for. Only with the type `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// The name of the ControllerRevision that holds the whole StatefulSet while it is being created again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
    /// The UID of the StatefulSet that is deleted and created again from the record. Present from the moment when that is
    /// decided until the new one has adopted the pods.
    #[serde(skip_serializing_if = "Option::is_none", rename = "replacesUID")]
    pub replaces: Option<String>,
}

/// What is done about a change of immutable fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum RemedyKind {
    /// Nothing.
    #[default]
    None,
    /// Claims are grown in place.
    ExpandClaims,
    /// In addition the StatefulSet is created again around its pods.
    Recreate,
}

impl RemedyKind {
    /// The spelling in the API.
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::ExpandClaims => "ExpandClaims",
            Self::Recreate => "Recreate",
        }
    }
}
