//! Every command of the README and of the page about moving from rollout-operator, in order, as printed, on a real API
//! server.

#![expect(
    clippy::unwrap_used,
    reason = "a test, which clippy recognises by an attribute that this kind does not have"
)]

mod migration;
mod sample;
mod shell;
mod stand_in;

use std::process::ExitCode;
use std::sync::Arc;

use k8s_openapi::api::rbac::v1::PolicyRule;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use sts_plus_harness::Assets;
use sts_plus_harness::wait::{NotYet, until};
use sts_plus_operator::shell::cache::Scope;
use sts_plus_scenarios::cluster::Cluster;
use sts_plus_scenarios::observer::DEADLINE;
use sts_plus_scenarios::operator::Operator;
use sts_plus_scenarios::real::RealCluster;
use tokio::runtime::Runtime;

use crate::shell::{Shell, commands, page, printed};

/// Commands that run this test, and so are run by whoever runs it, and what the tests of the playground run.
const RUN_ELSEWHERE: [&str; 2] = ["make test", "cargo run"];

/// What a trial does with the test bed.
type Follow = fn(&Runtime, &Assets) -> Result<Completion, Failed>;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Each trial has a control plane of its own: two at once are slower than one after the other.
    arguments.test_threads.get_or_insert(1);
    rustls::crypto::ring::default_provider().install_default().ok();
    let trial = |name: &str, follow: Follow| {
        Trial::ignorable_test(name, move || match Assets::find() {
            Ok(assets) => follow(&Runtime::new().unwrap(), &assets),
            Err(missing) => missing.verdict(),
        })
    };
    let trials = vec![
        trial("every_command_of_the_readme_works_as_printed", |runtime, assets| {
            runtime.block_on(readme(assets))
        }),
        trial("moving_from_rollout_operator_with_helm_locks_nobody_out_and_leads_back", |runtime, assets| {
            runtime.block_on(migration::with_helm(assets))
        }),
        trial(
            "moving_from_rollout_operator_without_helm_locks_nobody_out_and_leads_back",
            |runtime, assets| runtime.block_on(migration::without_helm(assets)),
        ),
        trial(
            "stopping_rollout_operator_first_locks_out_until_its_webhooks_are_deleted",
            |runtime, assets| runtime.block_on(migration::locked_out(assets)),
        ),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

async fn readme(assets: &Assets) -> Result<Completion, Failed> {
    let cluster: Arc<dyn Cluster> = Arc::new(RealCluster::start(assets, true).await.unwrap());
    let shell = reader(assets, &*cluster).await;
    // The chart's own pods cannot run here: hollow nodes run no containers. This one does their work.
    let operator = Operator::start(&cluster.outside(), cluster.user(), Scope::Cluster, "readme");

    let readme = page("README.md");
    let commands: Vec<_> = commands(&readme).collect();
    assert!(commands.len() > RUN_ELSEWHERE.len(), "the README has commands");
    let mut shown = String::new();
    for command in commands.iter().filter(|command| !RUN_ELSEWHERE.contains(command)) {
        if command.starts_with("kubectl set env") {
            ready(&shell).await;
            sample::hold(&shell);
        }
        let output = shell.run(command);
        shown = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            return Err(format!("{command}\n{}", printed(&output)).into());
        }
        if command.starts_with("kubectl set env") {
            sample::held(&shell).await;
        }
    }
    // What the reader sees is what the README shows.
    sample::compare(&readme, &shown)?;
    sample::resume(&shell);
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

/// A terminal of somebody who may do everything.
async fn reader(assets: &Assets, cluster: &dyn Cluster) -> Shell {
    let all = || Some(vec!["*".to_owned()]);
    let everything = PolicyRule {
        api_groups: all(),
        resources: all(),
        verbs: vec!["*".to_owned()],
        ..PolicyRule::default()
    };
    let reader = cluster.newcomer("reader").unwrap();
    cluster.grant(&reader, None, vec![everything]).await.unwrap();
    Shell::new(assets, cluster.kubeconfig(&reader).unwrap())
}

async fn ready(shell: &Shell) {
    until(DEADLINE, "the three zones to be Ready", || async {
        let status = String::from_utf8_lossy(&shell.run("sts-plus status").stdout).into_owned();
        let ready = status.matches("3/3 Ready").count() == 3;
        ready.then_some(()).ok_or_else(|| NotYet::saw(status))
    })
    .await;
}
