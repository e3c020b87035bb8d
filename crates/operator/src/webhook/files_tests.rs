use std::fs;
use std::sync::Arc;

use super::super::issue;
use super::super::serving::Serving;
use super::{INTERVAL, follow};
use crate::shell::metrics::Metrics;

/// Writes a certificate that is valid until the end of a year, as a kubelet does for a Secret.
fn write(folder: &std::path::Path, year: i16) {
    let until = format!("{year}-12-31T00:00:00Z").parse().unwrap();
    let authority = issue::authority(until).unwrap();
    let made = issue::certificate(&["a.b.svc".to_owned()], until, &authority.key).unwrap();
    fs::write(folder.join("tls.crt"), made.certificate).unwrap();
    fs::write(folder.join("tls.key"), made.key).unwrap();
}

fn expiry(metrics: &Metrics) -> Option<String> {
    let page = metrics.encode();
    let name = "sts_plus_webhook_certificate_expiry_timestamp_seconds{certificate=\"server\"} ";
    page.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned)
}

/// Waits until the files have been looked at once more.
async fn looked(serving: &Serving, holds: impl Fn(&Serving) -> bool) {
    let deadline = tokio::time::Instant::now() + INTERVAL * 1_000;
    while !holds(serving) {
        assert!(tokio::time::Instant::now() < deadline, "{serving:?}");
        tokio::time::sleep(INTERVAL).await;
    }
}

#[tokio::test]
async fn certificates_from_files_follow_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let metrics = Metrics::new();
    let serving = Arc::new(Serving::new(metrics.webhook.clone()));
    tokio::time::pause();
    let task = tokio::spawn(follow(folder.path().to_owned(), Arc::clone(&serving)));
    looked(&serving, |serving| serving.readiness().is_err_and(|why| why.contains("tls.crt cannot be read")))
        .await;
    write(folder.path(), 2030);
    looked(&serving, |serving| serving.readiness().is_ok()).await;
    assert_eq!(expiry(&metrics).as_deref(), Some("1924905600.0"));
    // What cannot be used changes nothing but what is reported.
    fs::write(folder.path().join("tls.key"), "garbage").unwrap();
    looked(&serving, |serving| format!("{serving:?}").contains("no certificate with its key")).await;
    assert!(serving.readiness().is_ok());
    write(folder.path(), 2031);
    looked(&serving, |_| expiry(&metrics).as_deref() == Some("1956441600.0")).await;
    fs::remove_file(folder.path().join("tls.crt")).unwrap();
    looked(&serving, |serving| format!("{serving:?}").contains("cannot be read")).await;
    assert!(serving.readiness().is_ok());
    task.abort();
}
