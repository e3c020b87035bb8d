//! Makes authorities and certificates.

use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use thiserror::Error;

/// Certificates are valid from a date before this program existed: the clock of no API server is set before it.
const VALID_FROM: (i32, u8, u8) = (2026, 1, 1);

/// Why there is no certificate.
#[derive(Debug, Error)]
pub(super) enum IssueError {
    #[error("the clock of this machine is set to a time before {}-{}-{}", VALID_FROM.0, VALID_FROM.1, VALID_FROM.2)]
    Clock,
    #[error("no certificate can be made: {0}")]
    Made(#[from] rcgen::Error),
    #[error("a certificate that was just made cannot be used")]
    Unusable,
}

/// A certificate and its key, both in PEM.
pub(super) struct Made {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// An authority that is valid until then.
pub(super) fn authority(until: Timestamp) -> Result<Made, IssueError> {
    let key = KeyPair::generate()?;
    let certificate = authority_params(until)?.self_signed(&key)?;
    Ok(Made { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// A certificate for a server with these names, signed with the key of an authority.
pub(super) fn certificate(
    names: &[String],
    until: Timestamp,
    authority_key: &str,
) -> Result<Made, IssueError> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, "sts-plus admission server");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    valid_until(&mut params, until)?;
    let key = KeyPair::generate()?;
    // All authorities have the same subject, so an issuer is its key; when it ends is not part of what it signs.
    let issuer = Issuer::new(authority_params(until)?, KeyPair::from_pem(authority_key)?);
    let certificate = params.signed_by(&key, &issuer)?;
    Ok(Made { certificate: certificate.pem(), key: key.serialize_pem() })
}

fn authority_params(until: Timestamp) -> Result<CertificateParams, IssueError> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, "sts-plus admission authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    valid_until(&mut params, until)?;
    Ok(params)
}

fn valid_until(params: &mut CertificateParams, until: Timestamp) -> Result<(), IssueError> {
    let (year, month, day) = VALID_FROM;
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = date_time_ymd(year, month, day);
    let seconds = u64::try_from(until.as_second()).map_err(|_| IssueError::Clock)?;
    params.not_after = epoch + Duration::from_secs(seconds);
    if params.not_after > params.not_before { Ok(()) } else { Err(IssueError::Clock) }
}
