//! Whom to trust, and how to show who we are.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use sts_plus_api::phased_rollout::{Query, SecretKey};
use thiserror::Error;
use tokio::sync::OnceCell;

use super::secrets::{Reader, Secret, SecretError};

/// Why no connection can be secured the way it was asked for. No text holds a key.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(super) enum TlsError {
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error(
        "this machine knows no certificate authorities ({0}): set caSecretRef, or give the image a CA bundle"
    )]
    NoAuthorities(String),
    #[error("key {1} of Secret {0} holds no usable certificate in PEM form")]
    Authority(String, String),
    #[error("key tls.crt of Secret {0} holds no certificate in PEM form")]
    Certificate(String),
    #[error("key tls.key of Secret {0} holds no private key in PEM form")]
    Key(String),
    #[error("tls.crt and tls.key of Secret {0} cannot be used together: {1}")]
    Pair(String, String),
    #[error("no TLS version can be offered: {0}")]
    Versions(String),
}

/// How connections to one server are secured.
#[derive(Clone)]
pub(super) struct Tls {
    pub(super) config: Arc<ClientConfig>,
    /// Whether we show a certificate.
    pub(super) presents: bool,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("presents", &self.presents).finish_non_exhaustive()
    }
}

/// The well-known authorities, read from the machine once they are needed.
#[derive(Debug, Default)]
pub(super) struct Authorities(OnceCell<Arc<RootCertStore>>);

impl Authorities {
    async fn get(&self) -> Result<Arc<RootCertStore>, TlsError> {
        self.0.get_or_try_init(load).await.cloned()
    }
}

async fn load() -> Result<Arc<RootCertStore>, TlsError> {
    // Some hundred small files.
    let found = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs).await;
    let found = found.map_err(|error| TlsError::NoAuthorities(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    let (usable, _) = roots.add_parsable_certificates(found.certs);
    if usable == 0 {
        let why = found.errors.first().map_or_else(|| "none were found".to_owned(), ToString::to_string);
        return Err(TlsError::NoAuthorities(why));
    }
    Ok(Arc::new(roots))
}

/// Connections to a server whose certificate is not verified, as the kubelet's probes are.
pub(super) fn unverified() -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::Versions(error.to_string()))?;
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer(provider)));
    Ok(Arc::new(builder.with_no_client_auth()))
}

/// What a query asks for. Secrets are read only where they are used.
pub(super) async fn secured(
    query: &Query,
    secrets: &mut Reader<'_>,
    known: &Authorities,
) -> Result<Tls, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::Versions(error.to_string()))?;
    let builder = if query.insecure_skip_verify {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer(provider)))
    } else if let Some(name) = &query.ca_secret_ref {
        builder.with_root_certificates(authorities((name, "ca.crt"), &secrets.read(name).await?)?)
    } else {
        builder.with_root_certificates(known.get().await?)
    };
    let config = match &query.client_cert_secret_ref {
        None => builder.with_no_client_auth(),
        Some(name) => {
            let (chain, key) = identity(name, &secrets.read(name).await?)?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| TlsError::Pair(name.clone(), error.to_string()))?
        }
    };
    Ok(Tls { config: Arc::new(config), presents: query.client_cert_secret_ref.is_some() })
}

/// What a hook asks for: without an authority any server is taken for the pod, as the kubelet's probes do.
pub(super) async fn of_hook(
    authority: Option<&SecretKey>,
    secrets: &mut Reader<'_>,
) -> Result<Arc<ClientConfig>, TlsError> {
    let Some(at) = authority else { return unverified() };
    let roots = authorities((&at.name, &at.key), &secrets.read(&at.name).await?)?;
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::Versions(error.to_string()))?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

fn authorities((name, key): (&str, &str), secret: &Secret) -> Result<RootCertStore, TlsError> {
    let pem = secret.get(key)?;
    let unusable = || TlsError::Authority(name.to_owned(), key.to_owned());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.reveal().as_bytes()) {
        let added = certificate.ok().and_then(|certificate| roots.add(certificate).ok());
        added.ok_or_else(unusable)?;
    }
    if roots.is_empty() { Err(unusable()) } else { Ok(roots) }
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn identity(name: &str, secret: &Secret) -> Result<Identity, TlsError> {
    let (chain, key) = (secret.get("tls.crt")?, secret.get("tls.key")?);
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain.reveal().as_bytes()).collect();
    let chain = chain.ok().filter(|chain| !chain.is_empty());
    let chain = chain.ok_or_else(|| TlsError::Certificate(name.to_owned()))?;
    // The parser's complaints repeat lines of the key.
    let key = PrivateKeyDer::from_pem_slice(key.reveal().as_bytes());
    Ok((chain, key.map_err(|_| TlsError::Key(name.to_owned()))?))
}

/// Takes any server for the one that was meant, because the user said so.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tls_tests;
