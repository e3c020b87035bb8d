//! The authorities, certificates and keys of the admission server, as one Secret holds them.
//!
//! | key | what it holds |
//! |---|---|
//! | `tls.crt`, `tls.key` | the server's certificate and key |
//! | `ca.crt` | the bundle: first the authority that signs, then those before it that are still valid |
//! | `ca.key` | the key of the first authority |

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use rustls::RootCertStore;
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use serde_json::{Map, Value, json};

use super::issue::{self, IssueError, Made};
use super::renewal::{Certificate, Facts, Timing};
use super::x509::{Validity, validity};

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const AUTHORITIES: &str = "ca.crt";
const AUTHORITY_KEY: &str = "ca.key";

/// Authorities in a bundle. A second one is there during a renewal; more come from renewals that fail halfway or are forced.
const MAX_AUTHORITIES: usize = 5;

/// What the admission server shows and what it is trusted by. What of it cannot be used is left out.
#[derive(Clone, Default)]
pub(super) struct Keyring {
    /// The first one signs if its key is known.
    authorities: Vec<Authority>,
    authority_key: Option<String>,
    certificate: Option<Shown>,
}

#[derive(Clone, PartialEq, Eq)]
struct Authority {
    der: CertificateDer<'static>,
    until: Timestamp,
}

/// The certificate of the server.
#[derive(Clone)]
struct Shown {
    certificate: String,
    key: String,
    certified: Arc<CertifiedKey>,
    until: Timestamp,
    is_of_authority: bool,
}

impl fmt::Debug for Keyring {
    /// Without keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let until: Vec<_> = self.authorities.iter().map(|authority| authority.until).collect();
        let certificate = self.certificate.as_ref().map(|shown| (shown.until, shown.is_of_authority));
        f.debug_struct("Keyring")
            .field("authorities", &until)
            .field("signs", &self.authority_key.is_some())
            .field("certificate", &certificate)
            .finish()
    }
}

impl Keyring {
    /// What is usable of a Secret, for a server with these names.
    pub(super) fn of_secret(secret: &Value, names: &[String], now: Timestamp) -> Self {
        let text = |key: &str| {
            let data = secret.pointer("/data").and_then(|data| data.get(key)).and_then(Value::as_str);
            data.and_then(|data| STANDARD.decode(data).ok()).and_then(|bytes| String::from_utf8(bytes).ok())
        };
        let bundle = text(AUTHORITIES).unwrap_or_default();
        let found = certificates(&bundle);
        let key = text(AUTHORITY_KEY).filter(|key| {
            found.first().is_some_and(|first| certified(std::slice::from_ref(first), key).is_some())
        });
        let signer = found.first().cloned();
        let valid = found.into_iter().filter_map(|der| Authority::valid(der, now));
        let authorities: Vec<_> = valid.take(MAX_AUTHORITIES).collect();
        // The key of an authority that has ended signs nothing.
        let authority_key = key.filter(|_| authorities.first().map(|first| &first.der) == signer.as_ref());
        let mut keyring = Self { authorities, authority_key, certificate: None };
        if let (Some(certificate), Some(key)) = (text(CERTIFICATE), text(KEY)) {
            keyring.certificate = keyring.shown(certificate, key, names, now);
        }
        keyring
    }

    /// The same without the key of the authority, which is replaced because of that.
    pub(super) fn without_authority_key(&self) -> Self {
        Self { authority_key: None, ..self.clone() }
    }

    /// What decides about a renewal.
    pub(super) fn facts(&self, is_announced: bool) -> Facts {
        let authority = self.authority_key.as_ref().and_then(|_| self.authorities.first());
        Facts {
            authority: authority.map(|authority| authority.until),
            certificate: self.certificate.as_ref().map(|shown| Certificate {
                until: shown.until,
                // By another one when the key of the first is not known: what it says is about the first.
                is_of_authority: authority.is_some() && shown.is_of_authority,
            }),
            is_announced,
        }
    }

    /// The certificate to show, if there is one that has not ended, and until when it is valid.
    pub(super) fn shows(&self, now: Timestamp) -> Option<(Arc<CertifiedKey>, Timestamp)> {
        let shown = self.certificate.as_ref().filter(|shown| shown.until > now)?;
        Some((Arc::clone(&shown.certified), shown.until))
    }

    /// Until when the authority that signs is valid.
    pub(super) fn authority_until(&self) -> Option<Timestamp> {
        self.facts(false).authority
    }

    /// Makes what is asked for. A new authority comes first in the bundle; the former ones stay until they end.
    pub(super) fn renewed(
        &self,
        (authority, certificate): (bool, bool),
        names: &[String],
        now: Timestamp,
        timing: &Timing,
    ) -> Result<Self, IssueError> {
        let end = |lifetime| now.checked_add(lifetime).unwrap_or(Timestamp::MAX);
        let mut made = self.clone();
        if authority {
            let Made { certificate, key } = issue::authority(end(timing.authority_lifetime))?;
            let new = certificates(&certificate).into_iter().filter_map(|der| Authority::valid(der, now));
            made.authorities = new.chain(made.authorities).take(MAX_AUTHORITIES).collect();
            made.authority_key = Some(key);
            if let Some(shown) = &mut made.certificate {
                shown.is_of_authority = false;
            }
        }
        if let (true, Some(key), Some(signer)) = (certificate, &made.authority_key, made.authorities.first())
        {
            let until = end(timing.certificate_lifetime).min(signer.until);
            let Made { certificate, key } = issue::certificate(names, until, key)?;
            made.certificate = Some(made.shown(certificate, key, names, now).ok_or(IssueError::Unusable)?);
        }
        Ok(made)
    }

    /// The Secret that holds it, in the place of the one that was read.
    pub(super) fn secret(&self, (namespace, name): (&str, &str), before: Option<&Value>) -> Value {
        let mut secret = before.cloned().unwrap_or_else(|| {
            json!({
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {
                    "name": name,
                    "namespace": namespace,
                    "labels": { sts_plus_api::keys::MANAGED_BY: sts_plus_api::keys::MANAGED_BY_STS_PLUS },
                },
                "type": "kubernetes.io/tls",
            })
        });
        let mut data = secret.get("data").and_then(Value::as_object).cloned().unwrap_or_else(Map::new);
        let shown = self.certificate.as_ref();
        for (key, text) in [
            (CERTIFICATE, shown.map(|shown| shown.certificate.clone())),
            (KEY, shown.map(|shown| shown.key.clone())),
            (AUTHORITIES, Some(self.bundle())),
            (AUTHORITY_KEY, self.authority_key.clone()),
        ] {
            data.insert(key.to_owned(), STANDARD.encode(text.unwrap_or_default()).into());
        }
        if let Some(fields) = secret.as_object_mut() {
            fields.insert("data".to_owned(), data.into());
        }
        secret
    }

    /// The authorities in PEM, in the order of the Secret.
    pub(super) fn bundle(&self) -> String {
        self.authorities.iter().map(|authority| pem(&authority.der)).collect()
    }

    pub(super) fn has_authorities(&self) -> bool {
        !self.authorities.is_empty()
    }

    /// Whether a bundle has all authorities of this keyring.
    pub(super) fn is_within(&self, bundle: &str) -> bool {
        let found = certificates(bundle);
        self.authorities.iter().all(|authority| found.contains(&authority.der))
    }

    /// A certificate with its key as the server shows it, if the authorities vouch for it under all names.
    fn shown(&self, certificate: String, key: String, names: &[String], now: Timestamp) -> Option<Shown> {
        let chain = certificates(&certificate);
        let certified = certified(&chain, &key)?;
        let Validity { from, until } = validity(chain.first()?)?;
        // Its time is judged by whoever decides about a renewal.
        let at = now.max(from).min(until);
        let vouches = |authorities: &[Authority]| vouches(authorities, &chain, names, at);
        if !vouches(&self.authorities) {
            return None;
        }
        let is_of_authority = self.authorities.get(..1).is_some_and(vouches);
        Some(Shown { certificate, key, certified: Arc::new(certified), until, is_of_authority })
    }
}

impl Authority {
    fn valid(der: CertificateDer<'static>, now: Timestamp) -> Option<Self> {
        let until = validity(&der)?.until;
        let is_usable = RootCertStore::empty().add(der.clone()).is_ok();
        (is_usable && until > now).then_some(Self { der, until })
    }
}

/// The certificates of a text in PEM; what else there is, is left out.
fn certificates(text: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(text.as_bytes()).map_while(Result::ok).collect()
}

/// A chain with its key, if they belong together.
pub(super) fn certified(chain: &[CertificateDer<'static>], key: &str) -> Option<CertifiedKey> {
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).ok()?;
    if chain.is_empty() {
        return None;
    }
    CertifiedKey::from_der(chain.to_vec(), key, &provider()).ok()
}

pub(super) fn provider() -> CryptoProvider {
    ring::default_provider()
}

/// Whether authorities vouch for a server under all of these names.
fn vouches(
    authorities: &[Authority],
    chain: &[CertificateDer<'static>],
    names: &[String],
    at: Timestamp,
) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities.iter().map(|authority| authority.der.clone()));
    let Some((first, intermediates)) = chain.split_first() else { return false };
    let Ok(parsed) = ParsedCertificate::try_from(first) else { return false };
    let seconds = u64::try_from(at.as_second()).unwrap_or_default();
    let at = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
    let algorithms = provider().signature_verification_algorithms.all;
    let signed = verify_server_cert_signed_by_trust_anchor(&parsed, &roots, intermediates, at, algorithms);
    let is_named = |name: &String| {
        ServerName::try_from(name.as_str()).is_ok_and(|name| verify_server_name(&parsed, &name).is_ok())
    };
    signed.is_ok() && names.iter().all(is_named)
}

/// One certificate in PEM.
fn pem(der: &CertificateDer<'_>) -> String {
    let text = STANDARD.encode(der);
    let mut pem = "-----BEGIN CERTIFICATE-----\n".to_owned();
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at_checked(64).unwrap_or((rest, ""));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}

#[cfg(test)]
#[path = "keyring_tests.rs"]
mod tests;
