//! The admission server on any cluster: replicas in this process, asked by the API server over HTTPS at loopback addresses.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::SignedDuration;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use sts_plus_api::keys::{POD_INDEX, STABLE_CLAIMS, STABLE_CLAIMS_ON};
use sts_plus_harness::wait::{NotYet, until};
use sts_plus_operator::operator::{Controllers, Settings, run};
use sts_plus_operator::shell::metrics::Metrics;
use sts_plus_operator::webhook::{Certificate, Config, Limits, Own, Timing};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::cluster::{Account, Cluster};
use crate::observer::DEADLINE;
use crate::rules;

/// The Secret and the webhook configuration, as the chart's permissions name them.
pub const NAME: &str = "sts-plus-webhook";

/// The ordinal of a pod that is never created.
pub const PROBE: usize = 1_000_000;

/// A certificate is due after 3 s and an authority after 8 s.
const TIMING: Timing = Timing {
    authority_lifetime: SignedDuration::from_secs(40),
    authority_margin: SignedDuration::from_secs(32),
    certificate_lifetime: SignedDuration::from_secs(30),
    certificate_margin: SignedDuration::from_secs(27),
    announcement: SignedDuration::from_secs(2),
};

/// Replicas of the admission server, and the user who creates pods.
pub struct Admitted {
    pub cluster: Arc<dyn Cluster>,
    pub namespace: String,
    pub account: Account,
    replicas: Vec<Replica>,
}

/// One replica. Dropping it is a crash.
struct Replica {
    address: SocketAddr,
    metrics: Metrics,
    stop: watch::Sender<bool>,
    work: JoinSet<()>,
}

impl Admitted {
    /// So many replicas that start at once, and a configuration in which each is a webhook: whatever one leaves undone the next
    /// one does.
    pub async fn new(cluster: &Arc<dyn Cluster>, namespace: &str, replicas: usize) -> Self {
        cluster.make_namespace(namespace).await.unwrap();
        let account = cluster.newcomer("admission").unwrap();
        cluster.grant(&account, None, rules::webhook()).await.unwrap();
        cluster.grant(&account, Some(namespace), rules::webhook_secret()).await.unwrap();
        let mut listeners = Vec::new();
        for _ in 0..replicas {
            listeners.push(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap());
        }
        let stage = Self {
            cluster: Arc::clone(cluster),
            namespace: namespace.to_owned(),
            account,
            replicas: Vec::new(),
        };
        let addresses: Vec<_> = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
        stage.configure(&addresses).await;
        let replicas = listeners.into_iter().map(|listener| stage.start(listener)).collect();
        Self { replicas, ..stage }
    }

    async fn configure(&self, addresses: &[SocketAddr]) {
        let webhook = |(at, address): (usize, &SocketAddr)| {
            json!({
                "name": format!("replica-{at}.sts.plus"),
                "admissionReviewVersions": ["v1"],
                "clientConfig": { "url": format!("https://{address}/stable-claims") },
                "rules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"],
                }],
                "objectSelector": { "matchLabels": { STABLE_CLAIMS: STABLE_CLAIMS_ON } },
                "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": self.namespace } },
                "failurePolicy": "Ignore",
                "sideEffects": "None",
                "timeoutSeconds": 5,
            })
        };
        let webhooks: Vec<_> = addresses.iter().enumerate().map(webhook).collect();
        let configuration = json!({ "metadata": { "name": NAME }, "webhooks": webhooks });
        let configuration = serde_json::from_value(configuration).unwrap();
        self.configurations().create(&PostParams::default(), &configuration).await.unwrap();
    }

    fn start(&self, listener: TcpListener) -> Replica {
        let address = listener.local_addr().unwrap();
        let names = vec![Ipv4Addr::LOCALHOST.to_string()];
        let own = Own {
            secret: NAME.to_owned(),
            configurations: vec![NAME.to_owned()],
            names,
            timing: TIMING,
            ..Own::behind(&self.namespace, "sts-plus")
        };
        let webhook = Config { listener, certificate: Certificate::Own(own), limits: Limits::default() };
        let surroundings = self.cluster.outside().surroundings;
        let controllers = Controllers::named(&[]).unwrap();
        let settings =
            Settings { controllers, webhook: Some(webhook), surroundings, ..Settings::new("admission") };
        let (stop, stopped) = watch::channel(false);
        let metrics = Metrics::new();
        let mut work = JoinSet::new();
        work.spawn(run(self.account.client.clone(), settings, metrics.clone(), stopped));
        Replica { address, metrics, stop, work }
    }

    pub fn configurations(&self) -> Api<MutatingWebhookConfiguration> {
        Api::all(self.cluster.user())
    }

    pub fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.cluster.user(), &self.namespace)
    }

    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.cluster.user(), &self.namespace)
    }

    /// Waits until every webhook has a bundle.
    pub async fn trusted(&self) {
        until(DEADLINE, "the CA bundle in every webhook", || async {
            let configuration = self.configurations().get(NAME).await?;
            let webhooks = configuration.webhooks.unwrap_or_default();
            let has = webhooks.iter().all(|webhook| webhook.client_config.ca_bundle.is_some());
            if has && !webhooks.is_empty() { Ok(()) } else { Err(NotYet::saw(webhooks)) }
        })
        .await;
    }

    /// Waits until the API server gives a pod its claim: it follows configurations by a watch.
    pub async fn answered(&self) {
        until(DEADLINE, "the API server to ask", || async {
            let claim = self.create(PROBE, true).await;
            if claim == expected(PROBE) { Ok(()) } else { Err(NotYet::saw(claim)) }
        })
        .await;
    }

    /// Creates a pod, or only asks what would be created; the name of its claim.
    pub async fn create(&self, ordinal: usize, dry_run: bool) -> String {
        let params = PostParams { dry_run, ..PostParams::default() };
        let pod = self.pods().create(&params, &pod(ordinal)).await.unwrap();
        let volumes = pod.spec.unwrap().volumes.unwrap();
        let mut claims = volumes.into_iter().filter_map(|volume| volume.persistent_volume_claim);
        claims.next().unwrap().claim_name
    }

    /// The certificate and the first authority of the Secret, where they are.
    pub async fn certificates(&self) -> Option<(String, String)> {
        let secret = self.secrets().get_opt(NAME).await.unwrap()?;
        let text = |key: &str| {
            let data = secret.data.as_ref().and_then(|data| data.get(key))?;
            String::from_utf8(data.0.clone()).ok()
        };
        let bundle = text("ca.crt")?;
        let end = "-----END CERTIFICATE-----";
        let first = bundle.find(end).and_then(|at| bundle.get(..at))?;
        Some((text("tls.crt")?, first.to_owned()))
    }

    /// Removes the bundle of every webhook, as somebody does who applies a manifest without it.
    pub async fn remove_bundles(&self) {
        until(DEADLINE, "to be first with a write", || async {
            let mut configuration = self.configurations().get(NAME).await?;
            for webhook in configuration.webhooks.iter_mut().flatten() {
                webhook.client_config.ca_bundle = None;
            }
            self.configurations().replace(NAME, &PostParams::default(), &configuration).await?;
            Ok(())
        })
        .await;
    }

    /// Writes something else into the Secret.
    pub async fn spoil(&self, key: &str) {
        let patch = json!({ "data": { key: STANDARD.encode("garbage") } });
        self.secrets().patch(NAME, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub async fn delete_secret(&self) {
        self.secrets().delete(NAME, &DeleteParams::default()).await.unwrap();
    }

    /// How many requests each replica has answered, by result.
    pub fn answers(&self, result: &str) -> Vec<usize> {
        let name = format!("sts_plus_webhook_requests_total{{path=\"/stable-claims\",result=\"{result}\"}} ");
        let count = |replica: &Replica| {
            let page = replica.metrics.encode();
            let line = page.lines().find_map(|line| line.strip_prefix(&name).map(str::to_owned));
            line.map_or(0, |count| count.parse().unwrap())
        };
        self.replicas.iter().map(count).collect()
    }

    /// How often the Secret was created.
    pub async fn creations(&self) -> usize {
        let requests = self.cluster.settled_requests(&self.account).await.unwrap();
        let creates = |request: &&crate::cluster::Request| {
            request.verb == "create" && request.resource == "secrets" && request.code == 201
        };
        requests.iter().filter(creates).count()
    }

    /// Asks all replicas to stop, and waits until they have.
    pub async fn finish(self) {
        for mut replica in self.replicas {
            replica.stop.send_replace(true);
            while let Some(ended) = replica.work.join_next().await {
                ended.unwrap();
            }
            // Nobody listens there any more.
            assert!(tokio::net::TcpStream::connect(replica.address).await.is_err());
        }
        Api::<MutatingWebhookConfiguration>::all(self.cluster.user())
            .delete(NAME, &DeleteParams::default())
            .await
            .unwrap();
    }
}

/// The claim of a pod.
pub fn expected(ordinal: usize) -> String {
    format!("data-volume-management-db-z0-{ordinal}")
}

fn pod(ordinal: usize) -> Pod {
    let pod = json!({
        "metadata": {
            "name": format!("db-z0-v1-{ordinal}"),
            "labels": { STABLE_CLAIMS: STABLE_CLAIMS_ON, POD_INDEX: ordinal.to_string() },
        },
        "spec": {
            "containers": [{ "name": "db", "image": "db", "volumeMounts": [{ "name": "data", "mountPath": "/data" }] }],
            "volumes": [{
                "name": "data",
                "persistentVolumeClaim": { "claimName": "data-volume-management-db-z0.ordinal" },
            }],
        },
    });
    serde_json::from_value(pod).unwrap()
}

/// What was seen of a Secret while pods were created.
#[derive(Debug, Default)]
pub struct Renewals {
    pub certificates: BTreeSet<String>,
    pub authorities: BTreeSet<String>,
}

impl Renewals {
    /// Whether this is the first time that it looks like this.
    pub fn see(&mut self, seen: Option<(String, String)>) -> bool {
        let Some((certificate, authority)) = seen else { return false };
        let (certificate, authority) =
            (self.certificates.insert(certificate), self.authorities.insert(authority));
        certificate || authority
    }
}
