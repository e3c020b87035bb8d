//! Certificates from files, for those who have somebody else make them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use thiserror::Error;

use super::keyring::certified;
use super::serving::Serving;
use super::x509::validity;

/// How often the files are read: a kubelet brings a changed Secret within a minute, and they are small.
const INTERVAL: Duration = Duration::from_secs(10);

/// A larger file is no certificate.
const MAX_BYTES: u64 = 1024 * 1024;

#[derive(Debug, Error)]
enum FileError {
    #[error("{0} cannot be read: {1}")]
    Unread(PathBuf, std::io::Error),
    #[error("{0} is larger than {MAX_BYTES} bytes")]
    Large(PathBuf),
    #[error("{0} and {1} are no certificate with its key, in PEM")]
    Pair(PathBuf, PathBuf),
}

/// Shows what a folder holds, again when it changes. What cannot be used changes nothing.
pub(super) async fn follow(folder: PathBuf, serving: Arc<Serving>) {
    let mut shown = None;
    loop {
        match read(&folder).await {
            Ok(texts) if shown.as_ref() == Some(&texts) => serving.report(None),
            Ok(texts) => {
                let outcome = show(&folder, &texts, &serving);
                if outcome.is_ok() {
                    shown = Some(texts);
                }
                serving.report(outcome.err().map(|error| error.to_string()));
            }
            Err(error) => serving.report(Some(error.to_string())),
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// The texts of the certificate and of the key.
async fn read(folder: &Path) -> Result<(String, String), FileError> {
    Ok((text(folder.join("tls.crt")).await?, text(folder.join("tls.key")).await?))
}

async fn text(path: PathBuf) -> Result<String, FileError> {
    let size = tokio::fs::metadata(&path).await.map(|metadata| metadata.len());
    match size {
        Ok(size) if size > MAX_BYTES => Err(FileError::Large(path)),
        Ok(_) => match tokio::fs::read_to_string(&path).await {
            Ok(text) => Ok(text),
            Err(error) => Err(FileError::Unread(path, error)),
        },
        Err(error) => Err(FileError::Unread(path, error)),
    }
}

fn show(folder: &Path, (certificate, key): &(String, String), serving: &Serving) -> Result<(), FileError> {
    let unusable = || FileError::Pair(folder.join("tls.crt"), folder.join("tls.key"));
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect();
    let chain = chain.map_err(|_| unusable())?;
    let until = chain.first().and_then(|first| validity(first)).ok_or_else(unusable)?.until;
    serving.show(Arc::new(certified(&chain, key).ok_or_else(unusable)?), until);
    Ok(())
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
