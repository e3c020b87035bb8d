//! (w) What the admission of a pod costs that gets claims with stable names.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams};
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use sts_plus_api::keys::{POD_INDEX, STABLE_CLAIMS, STABLE_CLAIMS_ON};
use sts_plus_harness::wait::{NotYet, try_until};
use sts_plus_harness::{Assets, checkout};

use crate::bed::{Bed, HOME, SCRATCH};
use crate::operator::Operator;
use crate::say;
use crate::stats::percentile;
use crate::table::{Row, Section, milliseconds};

/// Pods that are created, each in turn with those that it is compared with.
const SAMPLES: usize = 500;
/// Pods before those, which open connections and compile expressions.
const WARM_UP: usize = 50;
/// The median that admission by the webhook may add.
const GOAL: Duration = Duration::from_millis(5);
const DEADLINE: Duration = Duration::from_mins(1);
const CONFIGURATION: &str = "bench";

/// How long creating pods took: those that admission selects, and those that it does not.
#[derive(Default)]
struct Times {
    selected: Vec<Duration>,
    others: Vec<Duration>,
}

impl Times {
    /// What a percentile of the selected pods took more than that of the others.
    fn added(&self, percent: usize) -> Duration {
        percentile(&self.selected, percent).saturating_sub(percentile(&self.others, percent))
    }
}

pub(crate) async fn measure(assets: &Assets, bed: &Bed, binary: &Path) -> Result<Section> {
    let folder = bed.folder().join("admission");
    let bundle = certify(&folder)?;
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let identity = bed.operator_identity("admission").await?;
    let (port_text, folder) = (port.to_string(), folder.display().to_string());
    let arguments = ["--lease-namespace", HOME, "--webhook-port", &port_text, "--webhook-cert-dir", &folder];
    let operator = Operator::start_with(bed, binary, &identity, &arguments)?;
    operator.ready().await?;
    let configurations = Api::<MutatingWebhookConfiguration>::all(bed.client());
    configurations.create(&PostParams::default(), &configuration(port, &bundle)?).await?;
    say!("(w) {SAMPLES} pods by the webhook");
    let webhook = times(bed).await?;
    configurations.delete(CONFIGURATION, &DeleteParams::default()).await?;
    heeded(bed, false).await?;
    install_policy(assets, bed).await?;
    say!("(w) {SAMPLES} pods by the policy");
    let policy = times(bed).await?;
    let shown = |times: &Times| {
        let [median, tail] = [50, 99].map(|percent| milliseconds(times.added(percent)));
        format!("{median} ({tail})")
    };
    let plain = milliseconds(percentile(&webhook.others, 50));
    let rows = vec![
        Row::limited(
            "added to the creation of a pod by the webhook, median (99th percentile)",
            shown(&webhook),
            "median at most 5 ms",
            webhook.added(50) <= GOAL,
            format!("a pod without it takes {plain}"),
        ),
        Row::plain("the same by the policy", shown(&policy), "evaluated by the API server itself"),
    ];
    Ok(Section::of("w", rows))
}

/// Writes a certificate for loopback; what to trust.
fn certify(folder: &Path) -> Result<String> {
    fs::create_dir_all(folder)?;
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new(vec![Ipv4Addr::LOCALHOST.to_string()])?.self_signed(&key)?;
    fs::write(folder.join("tls.crt"), certificate.pem())?;
    fs::write(folder.join("tls.key"), key.serialize_pem())?;
    Ok(certificate.pem())
}

fn configuration(port: u16, bundle: &str) -> Result<MutatingWebhookConfiguration> {
    let mut configuration: MutatingWebhookConfiguration = serde_json::from_value(json!({
        "metadata": { "name": CONFIGURATION },
        "webhooks": [{
            "name": "stable-claims.sts.plus",
            "admissionReviewVersions": ["v1"],
            "clientConfig": { "url": format!("https://127.0.0.1:{port}/stable-claims") },
            "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"] }],
            "objectSelector": { "matchLabels": { STABLE_CLAIMS: STABLE_CLAIMS_ON } },
            "failurePolicy": "Ignore",
            "sideEffects": "None",
        }],
    }))?;
    for webhook in configuration.webhooks.iter_mut().flatten() {
        webhook.client_config.ca_bundle = Some(k8s_openapi::ByteString(bundle.as_bytes().to_vec()));
    }
    Ok(configuration)
}

async fn install_policy(assets: &Assets, bed: &Bed) -> Result<()> {
    let home = bed.folder().join("helm");
    let mut helm = Command::new(assets.binary("helm")?);
    helm.args(["template", "sts-plus", "charts/sts-plus", "--show-only", "templates/stableclaims.yaml"]);
    helm.args(["--set", "stableClaims.mode=Policy"]);
    for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        helm.env(variable, &home);
    }
    helm.current_dir(checkout());
    let output = helm.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let objects: Vec<Value> = serde_saphyr::from_multiple(&String::from_utf8(output.stdout)?)?;
    for object in objects {
        let kind = object.get("kind").and_then(Value::as_str).context("a kind")?;
        let resource =
            ApiResource::from_gvk(&GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind));
        let api = Api::<DynamicObject>::all_with(bed.client(), &resource);
        api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    }
    Ok(())
}

/// Waits until the API server gives pods their claims, or no longer does.
async fn heeded(bed: &Bed, given: bool) -> Result<()> {
    let waited = try_until(DEADLINE, "admission to be heeded", || async {
        let (claim, _) = create(bed, true, 0).await.map_err(NotYet::saw)?;
        if claim.ends_with("-0") == given { Ok(()) } else { Err(NotYet::saw(claim)) }
    });
    Ok(waited.await?)
}

async fn times(bed: &Bed) -> Result<Times> {
    heeded(bed, true).await?;
    let mut times = Times::default();
    for ordinal in 0..WARM_UP + SAMPLES {
        let (claim, selected) = create(bed, true, ordinal).await?;
        ensure!(claim.ends_with(&format!("-{ordinal}")), "pod {ordinal} got {claim}");
        let (_, other) = create(bed, false, ordinal).await?;
        if ordinal >= WARM_UP {
            times.selected.push(selected);
            times.others.push(other);
        }
    }
    Ok(times)
}

/// The claim with which a pod would be created, and how long the answer took. Nothing is stored: what is measured is admission.
async fn create(bed: &Bed, is_selected: bool, ordinal: usize) -> Result<(String, Duration)> {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {
            "name": format!("db-v1-{ordinal}"),
            "labels": { STABLE_CLAIMS: is_selected.to_string(), POD_INDEX: ordinal.to_string() },
        },
        "spec": {
            "containers": [{ "name": "db", "image": "db", "volumeMounts": [{ "name": "data", "mountPath": "/data" }] }],
            "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "data-volume-management-db.ordinal" } }],
        },
    }))?;
    let pods = Api::<Pod>::namespaced(bed.client(), SCRATCH);
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let began = Instant::now();
    let created = pods.create(&dry, &pod).await?;
    let took = began.elapsed();
    let volumes = created.spec.and_then(|spec| spec.volumes).unwrap_or_default();
    let claim = volumes.into_iter().find_map(|volume| volume.persistent_volume_claim).context("a claim")?;
    Ok((claim.claim_name, took))
}
