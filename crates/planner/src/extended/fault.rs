//! What can be wrong with a spec.

use std::fmt;

use super::spec::{MAX_CHILD_NAME, MAX_REFERENCES, MAX_REPLICAS, MAX_ZONES};

/// What is wrong with a spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It cannot be read.
    Unreadable(String),
    /// A zone has no name.
    ZoneWithoutName,
    /// A zone is given twice.
    ZoneTwice(String),
    /// There are more zones than there may be.
    TooManyZones(usize),
    /// The template has no containers.
    NoContainers,
    /// The probe is for a container that the template does not have.
    UnknownContainer(String),
    /// The probe is for several containers.
    SeveralProbes,
    /// The probe has no check, or several.
    NoCheck,
    /// The probe is for a port that the container does not have.
    UnknownPort(String),
    /// A number of pods cannot be used.
    BadAmount { field: &'static str, value: String },
    /// Two versions would use the same claims at the same time.
    ClaimsNeedHandover,
    /// `scaleDown`, `scaleUp` or the deletion policy `Drain` with the strategy Handover.
    HandoverWithHooks,
    /// A claim template has no name, or the name of another one.
    BadClaimTemplate(String),
    /// The number of replicas is none.
    BadReplicas(String),
    /// `scaleDown` or `scaleUp` cannot be used, and what is wrong with them.
    BadScaling(String),
    /// A StatefulSet would have a name that is too long.
    NameTooLong(String),
    /// Two Services have one name.
    ServiceTwice(String),
    /// The pod template or the selector has a label that is ours to give.
    ReservedLabel(String),
    /// The template refers to more objects than can be followed.
    TooManyReferences(usize),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => write!(f, "The spec cannot be read: {why}."),
            Self::ZoneWithoutName => f.write_str("A zone has no name."),
            Self::ZoneTwice(zone) => write!(f, "The zone {zone} is given twice."),
            Self::TooManyZones(zones) => write!(f, "There are {zones} zones; at most {MAX_ZONES} are supported."),
            Self::NoContainers => f.write_str("The template has no containers."),
            Self::UnknownContainer(name) => {
                write!(f, "activeProbe names the container {name}, which the template does not have.")
            }
            Self::SeveralProbes => f.write_str("activeProbe has more than one container."),
            Self::NoCheck => f.write_str("activeProbe must have exactly one of exec, httpGet and tcpSocket."),
            Self::UnknownPort(port) => {
                write!(f, "activeProbe names the port {port}, which the container does not have.")
            }
            Self::BadAmount { field, value } => {
                write!(f, "{field} is {value}; it must be a positive number or a percentage from 1% to 100%.")
            }
            Self::ClaimsNeedHandover => f.write_str(
                "With BlueGreen the pods of two versions would use the same claims at the same time. Use the strategy \
                 Handover or InPlace, or set blueGreen.sharedClaims to Allow to accept that.",
            ),
            Self::HandoverWithHooks => f.write_str(
                "The strategy Handover does not prepare pods that leave or join: scaleDown, scaleUp and the deletionPolicy \
                 Drain cannot be combined with it. Remove them, or use the strategy InPlace.",
            ),
            Self::BadClaimTemplate(name) if name.is_empty() => f.write_str("A claim template has no name."),
            Self::BadClaimTemplate(name) => write!(f, "Two claim templates have the name {name}."),
            Self::BadReplicas(value) => {
                write!(f, "template.spec.replicas is {value}; it must be a number from 0 to {MAX_REPLICAS}.")
            }
            Self::BadScaling(faults) => write!(f, "The spec is invalid: {faults}."),
            Self::ServiceTwice(name) => write!(f, "Two Services would have the name {name}."),
            Self::ReservedLabel(label) => {
                write!(f, "The template has the label {label}, which sts-plus gives to one pod. Remove it.")
            }
            Self::TooManyReferences(references) => write!(
                f,
                "The template refers to {references} ConfigMaps and Secrets; with updateOnConfigChange at most \
                 {MAX_REFERENCES} are supported."
            ),
            Self::NameTooLong(name) => write!(
                f,
                "The StatefulSet {name} would have a name of more than {MAX_CHILD_NAME} characters, and its pods could \
                 not be created."
            ),
        }
    }
}

impl Fault {
    /// One word for it, as the reason of a condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::ClaimsNeedHandover => "ClaimsNeedHandover",
            Self::NameTooLong(_) => "NameTooLong",
            Self::UnknownContainer(_) => "UnknownContainer",
            _ => "InvalidSpec",
        }
    }
}
