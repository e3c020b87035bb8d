//! When certificates are renewed, as a pure decision.
//!
//! A new authority is announced before it is used: it is in the bundle that API servers trust for a while before a certificate is
//! signed with it, so no request is refused by a server that has not read the new bundle yet.
//!
//! ```text
//! authority   A ───────────────────────┐ B made ──────────────────────────────────────────────
//! bundle      A                        │ B A                                    (A ends) B
//! certificate signed by A ─────────────┼── announced ──┐ signed by B ─────────────────────────
//! ```

use jiff::{SignedDuration, Timestamp};

const DAY: SignedDuration = SignedDuration::from_hours(24);

/// How long certificates live.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// How long an authority is valid.
    pub authority_lifetime: SignedDuration,
    /// An authority that ends sooner is replaced; longer than a certificate lives, so that none outlives its authority.
    pub authority_margin: SignedDuration,
    /// How long the server's certificate is valid.
    pub certificate_lifetime: SignedDuration,
    /// A certificate that ends sooner is replaced.
    pub certificate_margin: SignedDuration,
    /// How long an authority is in the bundle before a certificate is signed with it: API servers follow webhook configurations
    /// by a watch, which may lag.
    pub announcement: SignedDuration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            authority_lifetime: DAY * 730,
            authority_margin: DAY * 180,
            certificate_lifetime: DAY * 90,
            // Whoever can fix what prevents a renewal has a month to do so.
            certificate_margin: DAY * 30,
            announcement: SignedDuration::from_mins(2),
        }
    }
}

/// What decides about a renewal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// Until when the authority is valid whose key is known.
    pub(super) authority: Option<Timestamp>,
    /// The server's certificate, if it is usable but for the time.
    pub(super) certificate: Option<Certificate>,
    /// Whether the authority has been in every bundle for the time of the announcement.
    pub(super) is_announced: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Certificate {
    pub(super) until: Timestamp,
    /// Whether it was signed with the authority whose key is known.
    pub(super) is_of_authority: bool,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing is due.
    Keep,
    /// A certificate is due, and its authority is not announced for long enough.
    Await,
    /// Make these.
    Make { authority: bool, certificate: bool },
}

/// What to do now. A certificate that is not valid yet is kept: then the clock of this machine is wrong, or was when it was made.
pub(super) fn step(facts: Facts, now: Timestamp, timing: &Timing) -> Step {
    let ends_within = |until: Timestamp, margin: SignedDuration| until.duration_since(now) <= margin;
    let authority = facts.authority.filter(|until| !ends_within(*until, timing.authority_margin));
    let certificate = facts.certificate.filter(|found| !ends_within(found.until, SignedDuration::ZERO));
    match (authority, certificate) {
        (None, None) => Step::Make { authority: true, certificate: true },
        (None, Some(_)) => Step::Make { authority: true, certificate: false },
        (Some(_), None) => Step::Make { authority: false, certificate: true },
        (Some(_), Some(found))
            if found.is_of_authority && !ends_within(found.until, timing.certificate_margin) =>
        {
            Step::Keep
        }
        (Some(_), Some(_)) if facts.is_announced => Step::Make { authority: false, certificate: true },
        (Some(_), Some(_)) => Step::Await,
    }
}

/// How long it takes until something is due, where nothing is now.
pub(super) fn due_in(facts: Facts, now: Timestamp, timing: &Timing) -> SignedDuration {
    let left = |until: Timestamp, margin: SignedDuration| until.duration_since(now) - margin;
    let authority = facts.authority.map(|until| left(until, timing.authority_margin));
    let certificate = facts.certificate.map(|found| left(found.until, timing.certificate_margin));
    authority.into_iter().chain(certificate).min().unwrap_or_default().max(SignedDuration::ZERO)
}

#[cfg(test)]
#[path = "renewal_tests.rs"]
mod tests;
