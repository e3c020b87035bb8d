//! Every command of the README, in order, as printed, on a real API server.

#![expect(
    clippy::unwrap_used,
    reason = "a test, which clippy recognises by an attribute that this kind does not have"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::sync::Arc;

use k8s_openapi::api::rbac::v1::PolicyRule;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use sts_plus_harness::Assets;
use sts_plus_harness::wait::{NotYet, until};
use sts_plus_operator::shell::cache::Scope;
use sts_plus_scenarios::binary;
use sts_plus_scenarios::cluster::Cluster;
use sts_plus_scenarios::observer::DEADLINE;
use sts_plus_scenarios::operator::Operator;
use sts_plus_scenarios::real::RealCluster;
use tokio::runtime::Runtime;

/// Commands that run this test, and so are run by whoever runs it, and what the tests of the playground run.
const RUN_ELSEWHERE: [&str; 2] = ["make test", "cargo run"];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    rustls::crypto::ring::default_provider().install_default().ok();
    let trial =
        Trial::ignorable_test("every_command_of_the_readme_works_as_printed", || match Assets::find() {
            Ok(assets) => {
                let runtime = Runtime::new().unwrap();
                runtime.block_on(follow(&assets))
            }
            Err(missing) => missing.verdict(),
        });
    libtest_mimic::run(&arguments, vec![trial]).exit_code()
}

async fn follow(assets: &Assets) -> Result<Completion, Failed> {
    let cluster: Arc<dyn Cluster> = Arc::new(RealCluster::start(assets, true).await.unwrap());
    let all = || Some(vec!["*".to_owned()]);
    let everything = PolicyRule {
        api_groups: all(),
        resources: all(),
        verbs: vec!["*".to_owned()],
        ..PolicyRule::default()
    };
    let reader = cluster.newcomer("reader").unwrap();
    cluster.grant(&reader, None, vec![everything]).await.unwrap();
    let shell = Shell {
        folder: Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."),
        kubeconfig: cluster.kubeconfig(&reader).unwrap(),
        programs: vec![assets.folder().to_owned(), binary::find().unwrap().parent().unwrap().to_owned()],
    };
    // The chart's own pods cannot run here: hollow nodes run no containers. This one does their work.
    let operator = Operator::start(&cluster.outside(), cluster.user(), Scope::Cluster, "readme");

    let readme = std::fs::read_to_string(shell.folder.join("README.md")).unwrap();
    let commands: Vec<_> = commands(&readme).collect();
    assert!(commands.len() > RUN_ELSEWHERE.len(), "the README has commands");
    let mut shown = String::new();
    for command in commands.iter().filter(|command| !RUN_ELSEWHERE.contains(command)) {
        if command.starts_with("kubectl set env") {
            ready(&shell).await;
        }
        let output = shell.run(command);
        shown = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            return Err(format!("{command}\n{shown}{}", String::from_utf8_lossy(&output.stderr)).into());
        }
    }
    // What the reader sees is what the README shows: the states and the words, not the revisions.
    for words in ["GROUP store in namespace default", "store-zone-a", "store-zone-b"] {
        assert!(shown.contains(words) && readme.contains(words), "{words:?} in\n{shown}");
    }
    for steering in ["sts-plus pause store-zone-b", "sts-plus resume store-zone-b"] {
        assert!(readme.contains(steering));
        assert!(shell.run(steering).status.success());
    }
    until(DEADLINE, "the rollout to end", || async {
        let status = String::from_utf8_lossy(&shell.run("sts-plus status").stdout).into_owned();
        let done = status.matches("UpToDate").count() == 3 && status.matches("3/3 Ready").count() == 3;
        done.then_some(()).ok_or_else(|| NotYet::saw(status))
    })
    .await;
    operator.stop().await;
    Ok(Completion::Completed)
}

async fn ready(shell: &Shell) {
    until(DEADLINE, "the three zones to be Ready", || async {
        let status = String::from_utf8_lossy(&shell.run("sts-plus status").stdout).into_owned();
        let ready = status.matches("3/3 Ready").count() == 3;
        ready.then_some(()).ok_or_else(|| NotYet::saw(status))
    })
    .await;
}

/// The lines of all `sh` blocks.
fn commands(readme: &str) -> impl Iterator<Item = &str> {
    let blocks = readme.split("```sh\n").skip(1).filter_map(|rest| rest.split_once("```"));
    blocks.flat_map(|(block, _)| block.lines()).map(str::trim).filter(|line| !line.is_empty())
}

struct Shell {
    folder: PathBuf,
    kubeconfig: PathBuf,
    programs: Vec<PathBuf>,
}

impl Shell {
    fn run(&self, command: &str) -> Output {
        let machine = std::env::var_os("PATH").unwrap_or_default();
        let path = self.programs.iter().cloned().chain(std::env::split_paths(&machine));
        Command::new("sh")
            .args(["-ec", command])
            .current_dir(&self.folder)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("PATH", std::env::join_paths(path).unwrap())
            .output()
            .unwrap()
    }
}
