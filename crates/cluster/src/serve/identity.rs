//! Who a served cluster is, and who may talk to it.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use serde::{Deserialize, Serialize};

/// Where a playground is found without asking: this machine.
const LOOPBACK: [&str; 3] = ["127.0.0.1", "::1", "localhost"];
/// What ends a certificate in PEM.
const PEM_END: &str = "-----END CERTIFICATE-----";

/// A server's certificate and key, and the token of whoever may use it.
#[derive(Clone, Serialize, Deserialize)]
pub struct Identity {
    /// The server's certificate and, last, that of the authority that signed it, in PEM.
    pub certificate: String,
    /// The private key of the server, in PEM.
    pub key: String,
    /// Who sends this may do everything.
    pub token: String,
}

/// Why there is no identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A host that no certificate can name, or a key that cannot be made.
    #[error("no certificate can be made: {0}")]
    Certificate(#[from] rcgen::Error),
}

impl Identity {
    /// A new identity, for these hosts and for loopback.
    ///
    /// The authority signs this one certificate and its key is forgotten: some clients refuse a server whose
    /// certificate is an authority's own.
    pub fn generate(hosts: &[String]) -> Result<Self, IdentityError> {
        let mut authority = CertificateParams::new(Vec::new())?;
        authority.distinguished_name.push(DnType::CommonName, "sts-plus playground authority");
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

        let mut names: Vec<String> = LOOPBACK.map(str::to_owned).to_vec();
        names.extend(hosts.iter().filter(|host| !LOOPBACK.contains(&host.as_str())).cloned());
        let mut server = CertificateParams::new(names)?;
        server.distinguished_name.push(DnType::CommonName, "sts-plus playground");
        server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        server.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = server.signed_by(&key, &authority)?;
        Ok(Identity {
            certificate: certificate.pem() + &authority.as_ref().pem(),
            key: key.serialize_pem(),
            token: format!("{:032x}{:032x}", rand::random::<u128>(), rand::random::<u128>()),
        })
    }

    /// The certificate of the authority: the last one.
    fn authority(&self) -> &str {
        let text = self.certificate.trim_end();
        let before = text.strip_suffix(PEM_END).and_then(|rest| rest.rfind(PEM_END));
        before.and_then(|end| text.get(end + PEM_END.len()..)).unwrap_or(text).trim_start()
    }
}

/// Neither the key nor the token belongs into a log.
impl fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Identity").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// The file by which kubectl finds the server at this address and is let in.
pub fn kubeconfig(url: &str, identity: &Identity) -> String {
    // A string of JSON is one of YAML, whatever is in it.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let (server, token) = (quoted(url), quoted(&identity.token));
    let authority = STANDARD.encode(identity.authority());
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: playground\nclusters:\n- name: playground\n  cluster:\n    \
         server: {server}\n    certificate-authority-data: {authority}\nusers:\n- name: playground\n  user:\n    \
         token: {token}\ncontexts:\n- name: playground\n  context:\n    cluster: playground\n    user: playground\n"
    )
}
