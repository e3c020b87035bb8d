//! etcd, kube-apiserver and kube-controller-manager, started and stopped by the test.

use std::{
    fs, io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::Request;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::{Api, Client, Config, api::PostParams, config::AuthInfo};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    assets::{Assets, AssetsMissing},
    audit::{AuditEntry, AuditLog},
    identity::{Identities, Identity},
    layout::Layout,
    ports,
    process::{Process, ProcessError},
    wait::{NotYet, TimedOut, try_until, try_until_stable},
};

/// What a cluster needs whose nodes are hollow: those bind pods and claims themselves and send no heartbeats.
pub const HOLLOW_NODE_CONTROLLERS: [&str; 6] = [
    "statefulset-controller",
    "garbage-collector-controller",
    "namespace-controller",
    SERVICE_ACCOUNTS,
    "disruption-controller",
    "persistentvolumeclaim-protection-controller",
];
const SERVICE_ACCOUNTS: &str = "serviceaccount-controller";

/// Each part is ready in 5 to 7 s on two idle cores.
const READY_DEADLINE: Duration = Duration::from_mins(2);
/// What the server and its controllers do within milliseconds, or seconds where a dozen tests begin at once on a busy machine.
const SETTLE_DEADLINE: Duration = Duration::from_mins(2);
/// The server answers shortly before it logs; a log unchanged for this long has caught up.
const AUDIT_QUIET: Duration = Duration::from_millis(50);
/// How often to choose other ports when somebody else took one in between.
pub(crate) const PORT_ATTEMPTS: usize = 5;
/// How Go reports a taken port.
pub(crate) const PORT_TAKEN: &str = "address already in use";

/// What kind of cluster to start.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether the server offers streaming lists; servers before 1.34 do not by default.
    pub streaming_lists: bool,
    /// Which controllers kube-controller-manager runs; none: it is not started.
    pub controllers: Vec<String>,
    /// Whether kube-scheduler runs, which hollow nodes do without.
    pub scheduler: bool,
    /// Where clients reach the API server, which listens there; by default a free loopback port.
    pub endpoint: Option<SocketAddr>,
    /// Added to kube-apiserver's flags; the last of two equal ones counts.
    pub api_server_flags: Vec<String>,
    /// Added to kube-controller-manager's flags; the last of two equal ones counts.
    pub controller_manager_flags: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            streaming_lists: true,
            controllers: HOLLOW_NODE_CONTROLLERS.map(str::to_owned).to_vec(),
            scheduler: false,
            endpoint: None,
            api_server_flags: Vec::new(),
            controller_manager_flags: Vec::new(),
        }
    }
}

/// A running control plane; dropping it stops its processes and removes their folder.
pub struct ControlPlane {
    // Fields are dropped in this order, which is the one in which the parts have to stop.
    controller_manager: Mutex<Option<ControllerManager>>,
    scheduler: Option<Process>,
    api_server: Mutex<Option<Process>>,
    etcd: Process,

    api_server_command: Command,
    etcd_url: String,
    endpoint: SocketAddr,
    ca: Vec<Vec<u8>>,
    admin: Client,
    options: Options,
    identities: Identities,
    audit: AuditLog,
    markers: AtomicUsize,
    folder: TempDir,
}

/// A running kube-controller-manager.
struct ControllerManager {
    process: Process,
    /// As its flag names them.
    controllers: Vec<String>,
}

impl ControllerManager {
    fn runs(&self, controller: &str) -> bool {
        self.controllers.iter().any(|named| named == controller || named == "*")
    }
}

/// Why there is no control plane, or no longer one.
#[derive(Debug, thiserror::Error)]
pub enum ControlPlaneError {
    /// A binary is missing.
    #[error(transparent)]
    Assets(#[from] AssetsMissing),
    /// Its folder cannot be used.
    #[error("the control plane's folder: {0}")]
    Folder(#[from] io::Error),
    /// All ports are taken.
    #[error("no loopback port is free")]
    NoFreePort,
    /// A process could not be started.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A process ended instead of getting ready.
    #[error("{part} ended ({status}); its log ends with:\n{tail}")]
    Died {
        /// Which one.
        part: String,
        /// How.
        status: ExitStatus,
        /// What it said.
        tail: String,
    },
    /// A process runs and does not get ready.
    #[error("{timed_out}; the logs end with:\n{tails}")]
    NotReady {
        /// What was seen.
        timed_out: TimedOut,
        /// What it and the parts that it needs said.
        tails: String,
    },
    /// The API server refused or did not answer.
    #[error("{what}: {source}")]
    Request {
        /// What was asked for.
        what: String,
        /// Its answer.
        source: Box<kube::Error>,
    },
    /// Something that follows from a request did not come about.
    #[error(transparent)]
    TimedOut(#[from] TimedOut),
    /// More identities were asked for than the API server knows.
    #[error("no identity is left for {0}")]
    IdentitiesExhausted(String),
}

impl ControlPlane {
    /// Starts everything and waits until it is ready.
    pub async fn start(assets: &Assets, options: Options) -> Result<Self, ControlPlaneError> {
        let mut attempt = 1;
        loop {
            match Self::start_on_free_ports(assets, options.clone()).await {
                Err(ControlPlaneError::Died { tail, .. })
                    if tail.contains(PORT_TAKEN) && attempt < PORT_ATTEMPTS =>
                {
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    async fn start_on_free_ports(assets: &Assets, options: Options) -> Result<Self, ControlPlaneError> {
        let folder = tempfile::Builder::new().prefix("sts-plus-").tempdir()?;
        let layout = Layout(folder.path());
        let identities = Identities::generate();
        layout.write(&identities)?;

        let etcd_url = format!("http://{}:{}", Ipv4Addr::LOCALHOST, free_port()?);
        let mut etcd = Process::spawn(&layout.etcd(assets, &etcd_url)?, layout.log("etcd"))?;
        let endpoint = match options.endpoint {
            Some(endpoint) => endpoint,
            None => (Ipv4Addr::LOCALHOST, free_port()?).into(),
        };
        let api_server_command = layout.api_server(assets, &options, &etcd_url, endpoint)?;
        let mut api_server = Process::spawn(&api_server_command, layout.log("kube-apiserver"))?;
        let mut parts = [("etcd", &mut etcd), ("kube-apiserver", &mut api_server)];
        let (ca, admin) = ready(&mut parts, || async {
            let ca = CertificateDer::pem_file_iter(layout.certificate())?
                .map(|certificate| Ok(certificate?.to_vec()))
                .collect::<Result<Vec<_>, NotYet>>()?;
            let admin = Client::try_from(client_config(endpoint, &ca, &identities.admin))?;
            probe(&admin, "/readyz").await?;
            Ok((ca, admin))
        })
        .await?;

        let mut started = Self {
            controller_manager: Mutex::new(None),
            scheduler: None,
            api_server: Mutex::new(Some(api_server)),
            etcd,
            api_server_command,
            etcd_url,
            endpoint,
            ca,
            admin,
            audit: AuditLog::new(layout.audit_log()),
            options,
            identities,
            markers: AtomicUsize::new(0),
            folder,
        };
        if !started.options.controllers.is_empty() {
            let Options { controllers, controller_manager_flags: flags, .. } = &started.options;
            started.start_controller_manager(assets, controllers, flags).await?;
        }
        if started.options.scheduler {
            let identity = started.identities.scheduler.clone();
            started.scheduler = Some(started.start_client(assets, "kube-scheduler", &identity, &[]).await?);
        }
        Ok(started)
    }

    /// Runs kube-controller-manager with these controllers and, besides the usual ones, these flags. One that
    /// runs is stopped first.
    pub async fn start_controller_manager(
        &self,
        assets: &Assets,
        controllers: &[String],
        flags: &[String],
    ) -> Result<(), ControlPlaneError> {
        self.stop_controller_manager().await;
        let process = self.launch_controller_manager(assets, controllers, flags).await?;
        let started = ControllerManager { process, controllers: controllers.to_vec() };
        *self.controller_manager.lock().unwrap_or_else(PoisonError::into_inner) = Some(started);
        Ok(())
    }

    /// Stops kube-controller-manager: from now on nobody does its work.
    pub async fn stop_controller_manager(&self) {
        let running = self.controller_manager.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Stopping blocks, as with the API server.
        let _ = tokio::task::spawn_blocking(move || drop(running)).await;
    }

    /// The id of kube-controller-manager, where it runs.
    pub fn controller_manager_pid(&self) -> Option<u32> {
        let running = self.controller_manager.lock().unwrap_or_else(PoisonError::into_inner);
        running.as_ref().map(|running| running.process.pid())
    }

    /// Starts one more kube-controller-manager, for controllers that shall come and go: dropping it stops it. Its flags are
    /// those of the first one and these.
    pub async fn start_another_controller_manager(
        &self,
        assets: &Assets,
        controllers: &[String],
        flags: &[String],
    ) -> Result<Process, ControlPlaneError> {
        let flags: Vec<_> = self.options.controller_manager_flags.iter().chain(flags).cloned().collect();
        self.launch_controller_manager(assets, controllers, &flags).await
    }

    async fn launch_controller_manager(
        &self,
        assets: &Assets,
        controllers: &[String],
        flags: &[String],
    ) -> Result<Process, ControlPlaneError> {
        let usual = [
            format!("--controllers={}", controllers.join(",")),
            // Each controller has its own identity, with the roles that Kubernetes ships for it.
            "--use-service-account-credentials=true".into(),
            format!("--service-account-private-key-file={}", self.layout().service_account_key().display()),
            format!("--root-ca-file={}", self.layout().certificate().display()),
        ];
        let flags: Vec<_> = usual.into_iter().chain(flags.iter().cloned()).collect();
        let identity = &self.identities.controller_manager;
        self.start_client(assets, "kube-controller-manager", identity, &flags).await
    }

    /// Starts a part that is a client of the API server and waits until it is healthy.
    async fn start_client(
        &self,
        assets: &Assets,
        part: &str,
        identity: &Identity,
        flags: &[String],
    ) -> Result<Process, ControlPlaneError> {
        let mut attempt = 1;
        loop {
            match self.start_client_on_a_free_port(assets, part, identity, flags).await {
                Err(ControlPlaneError::Died { tail, .. })
                    if tail.contains(PORT_TAKEN) && attempt < PORT_ATTEMPTS =>
                {
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    async fn start_client_on_a_free_port(
        &self,
        assets: &Assets,
        part: &str,
        identity: &Identity,
        flags: &[String],
    ) -> Result<Process, ControlPlaneError> {
        let endpoint = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let kubeconfig = self.kubeconfig_for(identity)?;
        let kubeconfig = kubeconfig.display();
        let mut command = Command::new(assets.binary(part)?);
        command
            .arg(format!("--kubeconfig={kubeconfig}"))
            .arg(format!("--authentication-kubeconfig={kubeconfig}"))
            .arg(format!("--authorization-kubeconfig={kubeconfig}"))
            .args(["--leader-elect=false", "--bind-address=127.0.0.1"])
            .arg(format!("--secure-port={}", endpoint.port()))
            .args(flags);
        let mut process = Process::spawn(&command, self.layout().log(part))?;

        let mut config = client_config(endpoint, &self.ca, identity);
        // It makes its own certificate, in memory, for an address that anybody may ask.
        config.accept_invalid_certs = true;
        config.auth_info = AuthInfo::default();
        let client = Client::try_from(config).map_err(request_failed(format!("a client for {part}")))?;
        ready(&mut [(part, &mut process)], || async { Ok(probe(&client, "/healthz").await?) }).await?;
        Ok(process)
    }

    /// A client that may do everything.
    pub fn admin(&self) -> Client {
        self.admin.clone()
    }

    /// A user that nobody else has and that may do nothing yet.
    pub fn identity(&self, name: &str) -> Result<Identity, ControlPlaneError> {
        self.identities.take(name).ok_or_else(|| ControlPlaneError::IdentitiesExhausted(name.into()))
    }

    /// A client for a user, without retries of its own.
    pub fn client(&self, identity: &Identity) -> Result<Client, ControlPlaneError> {
        Client::try_from(self.client_config(identity))
            .map_err(request_failed(format!("a client for {}", identity.name())))
    }

    /// The configuration of a client for a user, without retries of its own.
    pub fn client_config(&self, identity: &Identity) -> Config {
        client_config(self.endpoint, &self.ca, identity)
    }

    /// Writes a kubeconfig for a user that may do everything.
    pub fn admin_kubeconfig(&self) -> Result<PathBuf, ControlPlaneError> {
        self.kubeconfig_for(&self.identities.admin)
    }

    /// Writes a kubeconfig for a user, for programs that want a file.
    pub fn kubeconfig_for(&self, identity: &Identity) -> Result<PathBuf, ControlPlaneError> {
        let path = self.layout().kubeconfig(identity.user());
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {
                "server": self.url(),
                "certificate-authority": self.layout().certificate(),
            }}],
            "users": [{"name": identity.user(), "user": {"token": identity.token()}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": identity.user()}}],
            "current-context": "test",
        });
        fs::write(&path, kubeconfig.to_string())?;
        Ok(path)
    }

    /// Where the API server is.
    pub fn url(&self) -> String {
        url(self.endpoint)
    }

    /// The certificates that vouch for it.
    pub fn ca_pem(&self) -> Result<String, ControlPlaneError> {
        Ok(fs::read_to_string(self.layout().certificate())?)
    }

    /// Everything that the parts write, their logs (`NAME.log`) among it; gone with the control plane.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The ids of the processes that run now, etcd first.
    pub fn pids(&self) -> Vec<u32> {
        let api_server = self.api_server.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |part: &Option<Process>| part.as_ref().map(Process::pid);
        let rest = [of(&api_server), self.controller_manager_pid(), of(&self.scheduler)];
        [self.etcd.pid()].into_iter().chain(rest.into_iter().flatten()).collect()
    }

    /// Makes a namespace in which pods can be created.
    pub async fn create_namespace(&self, name: &str) -> Result<(), ControlPlaneError> {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.into());
        Api::all(self.admin())
            .create(&PostParams::default(), &namespace)
            .await
            .map_err(request_failed(format!("create namespace {name}")))?;
        let serviced = {
            let running = self.controller_manager.lock().unwrap_or_else(PoisonError::into_inner);
            running.as_ref().is_some_and(|running| running.runs(SERVICE_ACCOUNTS))
        };
        if serviced {
            // Until it is there, the server refuses every pod of the namespace.
            let accounts = Api::<ServiceAccount>::namespaced(self.admin(), name);
            let what = format!("the default service account of namespace {name}");
            try_until(SETTLE_DEADLINE, what, || async { Ok(accounts.get("default").await.map(drop)?) })
                .await?;
        }
        Ok(())
    }

    /// What a user has asked for so far; an answered request may still be missing.
    pub fn requests(&self, identity: &Identity) -> Result<Vec<AuditEntry>, ControlPlaneError> {
        self.requests_of(identity.user())
    }

    /// The same for a user that is not ours, such as `system:serviceaccount:kube-system:statefulset-controller`.
    pub fn requests_of(&self, user: &str) -> Result<Vec<AuditEntry>, ControlPlaneError> {
        Ok(self.audit.requests(|entry| entry.user == user)?)
    }

    /// What a user has asked for, every answered request included. The user must be at rest, else there is
    /// no such moment and this fails at its deadline.
    pub async fn settled_requests(&self, identity: &Identity) -> Result<Vec<AuditEntry>, ControlPlaneError> {
        let what = format!("the audit log to settle for {}", identity.name());
        let requests = try_until_stable(SETTLE_DEADLINE, AUDIT_QUIET, what, || async {
            self.mark_audit_log().await?;
            Ok(self.requests_of(identity.user())?)
        });
        Ok(requests.await?)
    }

    /// Who has created objects of a kind in a namespace, one entry for each, every answered request included. It must be at rest, as
    /// with [`Self::settled_requests`].
    pub async fn settled_creators(
        &self,
        namespace: &str,
        resource: &str,
    ) -> Result<Vec<String>, ControlPlaneError> {
        let creates = |entry: &AuditEntry| {
            entry.verb == "create"
                && (entry.namespace.as_str(), entry.resource.as_str()) == (namespace, resource)
                && entry.subresource.is_empty()
                && (200..300).contains(&entry.code)
        };
        let what = format!("the audit log to settle for {resource} of {namespace}");
        let creations = try_until_stable(SETTLE_DEADLINE, AUDIT_QUIET, what, || async {
            self.mark_audit_log().await?;
            Ok(self.audit.requests(creates)?)
        });
        Ok(creations.await?.into_iter().map(|entry| entry.user).collect())
    }

    /// Asks for something unique and waits until the log has it.
    async fn mark_audit_log(&self) -> Result<(), ControlPlaneError> {
        let marker = format!("/version?marker={}", self.markers.fetch_add(1, Ordering::Relaxed));
        probe(&self.admin, &marker).await.map_err(request_failed("mark the audit log"))?;
        try_until(SETTLE_DEADLINE, "a request to be logged", || async {
            let lines = self.audit.requests(|entry| entry.uri == marker)?;
            if lines.is_empty() { Err(NotYet::saw("no such line")) } else { Ok(()) }
        })
        .await?;
        Ok(())
    }

    /// Stops the API server; etcd keeps its data and the controllers keep trying.
    pub async fn stop_api_server(&self) {
        let running = self.api_server.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Stopping blocks; this way no task of the test waits for it. Dropped is stopped.
        let _ = tokio::task::spawn_blocking(move || drop(running)).await;
    }

    /// Starts the API server again where it was, with the same certificate and tokens, and waits until it is
    /// ready. One that runs is left alone.
    pub async fn start_api_server(&self) -> Result<(), ControlPlaneError> {
        if self.api_server.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            return Ok(());
        }
        let mut process = Process::spawn(&self.api_server_command, self.layout().log("kube-apiserver"))?;
        ready(&mut [("kube-apiserver", &mut process)], || async { Ok(probe(&self.admin, "/readyz").await?) })
            .await?;
        *self.api_server.lock().unwrap_or_else(PoisonError::into_inner) = Some(process);
        Ok(())
    }

    /// Stops the API server and starts it again.
    pub async fn restart_api_server(&self) -> Result<(), ControlPlaneError> {
        self.stop_api_server().await;
        self.start_api_server().await
    }

    /// Forgets what was before now: etcd drops it, as the API server has it do every few minutes, and the API server,
    /// which has a memory of its own, is started again.
    pub async fn compact(&self) -> Result<(), ControlPlaneError> {
        let etcd = Client::try_from(Config::new(self.etcd_url.parse().unwrap_or_default()))
            .map_err(request_failed("etcd"))?;
        let ask = async |path: &str, body: Value| {
            let request = Request::post(path).body(body.to_string().into_bytes());
            let request = request.map_err(kube::Error::HttpError).map_err(request_failed(path))?;
            etcd.request::<Value>(request).await.map_err(request_failed(path))
        };
        // Any answer tells the latest version; keys are base64.
        let seen = ask("/v3/kv/range", json!({ "key": "YQ==" })).await?;
        let latest = seen.pointer("/header/revision").cloned().unwrap_or_default();
        ask("/v3/kv/compaction", json!({ "revision": latest, "physical": true })).await?;
        self.restart_api_server().await
    }

    fn layout(&self) -> Layout<'_> {
        Layout(self.folder.path())
    }
}

fn free_port() -> Result<u16, ControlPlaneError> {
    ports::free().ok_or(ControlPlaneError::NoFreePort)
}

fn url(endpoint: SocketAddr) -> String {
    format!("https://{endpoint}")
}

fn client_config(endpoint: SocketAddr, ca: &[Vec<u8>], identity: &Identity) -> Config {
    // An address and a port always make a URL.
    let mut config = Config::new(url(endpoint).parse().unwrap_or_default());
    config.root_cert = Some(ca.to_vec());
    config.auth_info.token = Some(identity.token().to_owned().into());
    // A test that counts requests or loses answers must see every one.
    config.default_retry = false;
    config
}

/// Succeeds when the path is answered with 200.
async fn probe(client: &Client, path: &str) -> Result<(), kube::Error> {
    let request = Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
    client.request_text(request).await.map(drop)
}

/// Looks until it succeeds, as long as all parts run.
pub(crate) async fn ready<T, F>(
    parts: &mut [(&str, &mut Process)],
    look: impl Fn() -> F,
) -> Result<T, ControlPlaneError>
where
    F: Future<Output = Result<T, NotYet>>,
{
    let names: Vec<_> = parts.iter().map(|(name, _)| *name).collect();
    let outcome = try_until(READY_DEADLINE, format!("{} to be ready", names.join(" and ")), || {
        let died = parts.iter_mut().find_map(|(name, process)| {
            let status = process.exited()?;
            Some(ControlPlaneError::Died { part: (*name).into(), status, tail: process.log_tail() })
        });
        let look = &look;
        async move {
            match died {
                Some(died) => Ok(Err(died)),
                None => look().await.map(Ok),
            }
        }
    })
    .await;
    outcome.unwrap_or_else(|timed_out| {
        let tails = parts.iter().map(|(name, process)| format!("{name}:\n{}", process.log_tail()));
        Err(ControlPlaneError::NotReady { timed_out, tails: tails.collect::<Vec<_>>().join("\n") })
    })
}

fn request_failed(what: impl Into<String>) -> impl FnOnce(kube::Error) -> ControlPlaneError {
    let what = what.into();
    move |source| ControlPlaneError::Request { what, source: Box::new(source) }
}
