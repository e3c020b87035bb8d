//! The operator of this example, as a process, on the embedded cluster.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy recognises only inside test functions"
)]

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use sts_plus_cluster::serve::{self, Identity};
use sts_plus_scenarios::cluster::Cluster;
use sts_plus_scenarios::embedded::{EmbeddedCluster, Shape};
use sts_plus_scenarios::scaling::manifest::set;
use sts_plus_scenarios::scaling::{NAME, Scaled};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::Child;
use tokio::sync::watch;
use tokio::task::JoinSet;

fn program(coordinator: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_custom-scaling"));
    // Nothing of the machine's own configuration may leak in.
    command.env_clear().env("HOME", "/nonexistent").env("COORDINATOR", coordinator);
    command
}

/// An embedded cluster behind a listener, and the folder of its kubeconfig.
struct Served {
    cluster: Arc<dyn Cluster>,
    folder: TempDir,
    _listening: JoinSet<()>,
    _stop: watch::Sender<bool>,
}

impl Served {
    async fn start() -> Self {
        rustls::crypto::ring::default_provider().install_default().ok();
        let cluster = EmbeddedCluster::start(Shape {
            native: true,
            streaming_lists: true,
            keeps_max_unavailable: false,
        });
        let identity = Identity::generate(&[]).unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("kubeconfig"), serve::kubeconfig(&url, &identity)).unwrap();
        let (stop, stopped) = watch::channel(false);
        let server = cluster.server();
        let mut listening = JoinSet::new();
        listening.spawn(async move { serve::serve(server, listener, &identity, stopped).await.unwrap() });
        Self { cluster: Arc::new(cluster), folder, _listening: listening, _stop: stop }
    }

    /// Starts the operator of the example, as the chart does. It ends when this is dropped.
    fn operate(&self, namespace: &str, coordinator: SocketAddr) -> Child {
        let mut command = program(&coordinator.to_string());
        command.arg("run").arg("--kubeconfig").arg(self.folder.path().join("kubeconfig"));
        command.args(["--namespace", namespace, "--leader-elect=false", "--server-port", "0"]);
        tokio::process::Command::from(command).kill_on_drop(true).spawn().unwrap()
    }
}

/// The coordinator: what it was asked, and how many partitions it says are left.
#[derive(Clone, Default)]
struct Coordinator {
    left: Arc<Mutex<u32>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Coordinator {
    async fn listen(&self, tasks: &mut JoinSet<()>) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (address, coordinator) = (listener.local_addr().unwrap(), self.clone());
        tasks.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let mut stream = BufReader::new(stream);
                let mut request = String::new();
                stream.read_line(&mut request).await.unwrap();
                let answer = coordinator.answer(request.trim_end());
                // Whoever asked may have given up.
                stream.write_all(answer.as_bytes()).await.ok();
            }
        });
        address
    }

    fn answer(&self, request: &str) -> String {
        self.asked.lock().unwrap().push(request.to_owned());
        match request.split_once(' ') {
            Some(("drain", _)) => format!("left {}\n", self.left.lock().unwrap()),
            Some(("keep", _)) => "kept\n".to_owned(),
            _ => "what?\n".to_owned(),
        }
    }

    fn leave(&self, left: u32) {
        *self.left.lock().unwrap() = left;
    }

    fn asked(&self) -> Vec<String> {
        let mut asked = self.asked.lock().unwrap().clone();
        // How often it was asked how far it is, is a matter of time.
        asked.dedup();
        asked
    }
}

/// The spec of `policy.yaml`, for the set of the scenario.
fn spec() -> Value {
    let file = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("policy.yaml");
    let policy: Value = serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let mut spec = policy["spec"].clone();
    spec["targetRef"]["name"] = NAME.into();
    spec
}

#[tokio::test]
async fn a_policy_calls_the_hook_of_the_example_by_name_and_takes_it_back() {
    let served = Served::start().await;
    let stage = Scaled::without_operator(&served.cluster, "custom-scaling").await;
    let (coordinator, mut tasks) = (Coordinator::default(), JoinSet::new());
    coordinator.leave(7);
    let _operator = served.operate(&stage.namespace, coordinator.listen(&mut tasks).await);
    stage.create_set(&set(NAME, 3)).await;
    stage.serves(NAME, "v1").await;
    stage.create(&spec()).await;
    stage.settled(3).await;
    assert!(coordinator.asked().is_empty());

    stage.scale(2).await;
    let policy = stage
        .policy_is("waiting for partitions", |policy, _| {
            policy.leaving(2).is_some_and(|record| record.message.contains("7 partitions"))
        })
        .await;
    assert_eq!(policy.leaving(2).unwrap().message, "7 partitions are left on ingester-2");
    assert_eq!(stage.numbers(), [3], "nothing is removed before the hook is done");

    stage.scale(3).await;
    stage.settled(3).await;
    assert_eq!(coordinator.asked(), ["drain ingester-2", "keep ingester-2"]);
    assert_eq!((stage.numbers(), stage.lives(0..3)), (vec![3], vec![1, 1, 1]), "no pod was restarted");

    coordinator.leave(0);
    stage.scale(2).await;
    stage.settled(2).await;
    assert_eq!(coordinator.asked(), ["drain ingester-2", "keep ingester-2", "drain ingester-2"]);
    stage.finish(&[]).await;
}

fn run(arguments: &[&str]) -> Output {
    program("127.0.0.1:1").args(arguments).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn the_flags_are_those_of_sts_plus_run_with_or_without_that_word() {
    for arguments in [&["--controllers", "nonsense"][..], &["run", "--controllers", "nonsense"]] {
        let output = run(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("nonsense") && error.contains("rollout-group"), "{error}");
    }
    let output = run(&["run", "--kubeconfig", "/nonexistent/file"]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.starts_with("custom-scaling: cannot read the kubeconfig /nonexistent/file: "), "{error}");
}

#[test]
fn a_coordinator_that_is_not_named_is_asked_for() {
    let output = program("").env_remove("COORDINATOR").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("set COORDINATOR"), "{error}");
}
