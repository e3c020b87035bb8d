//! How pods get claims with stable names, on an embedded and on a real API server: by the webhook while its certificates renew, and by
//! the policy of the chart.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test, which clippy recognises by an attribute that this kind does not have"
)]

mod policy;

use std::process::ExitCode;
use std::sync::Arc;

use futures::future::join_all;
use libtest_mimic::{Arguments, Completion, Trial};
use sts_plus_harness::Assets;
use sts_plus_harness::wait::{NotYet, until};
use sts_plus_scenarios::cluster::Cluster;
use sts_plus_scenarios::embedded::{EmbeddedCluster, Shape};
use sts_plus_scenarios::observer::DEADLINE;
use sts_plus_scenarios::real::RealCluster;
use sts_plus_scenarios::webhook::{Admitted, PROBE, Renewals, expected};
use tokio::runtime::Runtime;

/// Pods that are created in any case.
const PODS: usize = 200;

/// Pods that are created at once, each time that something was renewed.
const AT_ONCE: usize = 25;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    rustls::crypto::ring::default_provider().install_default().ok();
    let embedded = Trial::test("d_s2_4_7_no_pod_misses_its_claim_while_certificates_renew_embedded", || {
        Runtime::new().unwrap().block_on(async {
            let shape = Shape { native: true, streaming_lists: true, keeps_max_unavailable: false };
            renewals(&(Arc::new(EmbeddedCluster::start_with_https(shape)) as _)).await;
        });
        Ok(())
    });
    let webhook = Trial::ignorable_test("d_s2_4_7_no_pod_misses_its_claim_while_certificates_renew", || {
        with_real(|cluster| async move { renewals(&cluster).await })
    });
    let policy = Trial::ignorable_test("d_s2_4_8_the_policy_decides_what_the_webhook_decides", || {
        with_real(|cluster| async move { policy::compare(&cluster).await })
    });
    libtest_mimic::run(&arguments, vec![embedded, webhook, policy]).exit_code()
}

fn with_real<F: Future<Output = ()>>(
    play: impl FnOnce(Arc<dyn Cluster>) -> F,
) -> Result<Completion, libtest_mimic::Failed> {
    let assets = match Assets::find() {
        Ok(assets) => assets,
        Err(missing) => return missing.verdict(),
    };
    let runtime = Runtime::new().unwrap();
    let cluster: Arc<dyn Cluster> = Arc::new(runtime.block_on(RealCluster::start(&assets, true)).unwrap());
    runtime.block_on(play(cluster));
    Ok(Completion::Completed)
}

/// Two replicas start at once. While certificates and authorities are renewed pods are created, and each has the claim of its ordinal;
/// so it goes on when the bundle is removed, when the Secret holds garbage and when it is deleted.
async fn renewals(cluster: &Arc<dyn Cluster>) {
    let stage = Admitted::new(cluster, "admission", 2).await;
    stage.trusted().await;
    stage.answered().await;
    assert_eq!(stage.creations().await, 1);
    // At the start one of them may have been asked before it had a certificate.
    let before = stage.answers("patched");
    let mut seen = Renewals::default();
    let (mut made, mut asked) = (0, 0);
    while made < PODS || seen.certificates.len() < 5 || seen.authorities.len() < 3 {
        if seen.see(stage.certificates().await) {
            let pods = join_all((made..made + AT_ONCE).map(|ordinal| stage.create(ordinal, false))).await;
            let right: Vec<_> = (made..made + AT_ONCE).map(expected).collect();
            assert_eq!(pods, right);
            made += AT_ONCE;
        }
        assert_eq!(stage.create(made + asked, true).await, expected(made + asked));
        asked += 1;
    }
    // Each replica has answered each time.
    assert_eq!(stage.answers("patched"), [before[0] + made + asked, before[1]]);
    let answered = stage.answers("unchanged")[1];
    assert!(answered >= made + asked, "{answered} of {}", made + asked);

    stage.remove_bundles().await;
    stage.trusted().await;
    stage.answered().await;
    for key in ["tls.key", "tls.crt", "ca.key"] {
        repaired(&stage, key).await;
    }
    let (certificate, authority) = stage.certificates().await.unwrap();
    stage.delete_secret().await;
    until(DEADLINE, "other keys", || async {
        assert_eq!(stage.create(PROBE, true).await, expected(PROBE));
        let found = stage.certificates().await;
        let is_other = found.as_ref().is_some_and(|found| found.0 != certificate && found.1 != authority);
        if is_other { Ok(()) } else { Err(NotYet::saw(found)) }
    })
    .await;
    stage.finish().await;
}

/// What is unusable is made again, and every pod has its claim meanwhile.
async fn repaired(stage: &Admitted, key: &str) {
    stage.spoil(key).await;
    until(DEADLINE, format!("{key} to be made again"), || async {
        assert_eq!(stage.create(PROBE, true).await, expected(PROBE));
        let secret = stage.secrets().get("sts-plus-webhook").await?;
        let text = String::from_utf8(secret.data.unwrap_or_default()[key].0.clone()).unwrap();
        if text == "garbage" { Err(NotYet::saw(text)) } else { Ok(()) }
    })
    .await;
}
