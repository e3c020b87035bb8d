//! The real thing: containers that containerd and runc start, and sts-plus as one of them.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test, which clippy recognises by an attribute that this kind does not have"
)]

mod active;
mod claims;
mod config;
mod examples;
mod extended;
mod fleet;
mod gated;
mod ledger;
mod lock;
mod operator;
mod stages;
mod store;
mod workload;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use sts_plus_harness::{
    Assets, Image, RealNode, binary, cannot_run,
    real_node::{self, Unsupported},
    sandbox::{Place, Sandbox},
};
use tokio::runtime::Runtime;

use stages::Stages;

/// The longest stage takes half a minute on two idle cores.
const DEADLINE: Duration = Duration::from_mins(4);

/// Owned by `main`, so that it is stopped at the end.
struct Cluster {
    node: RealNode,
    runtime: Runtime,
    /// The binary that the image of sts-plus was made of, where there is one.
    sts_plus: Result<PathBuf, String>,
}

enum Unavailable {
    Unsupported(Unsupported),
    Start,
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Each test wants the two cores to themselves.
    arguments.test_threads = Some(1);
    let cluster = match (arguments.list, real_node::supported()) {
        (true, _) => Err(Unavailable::Start),
        (false, Err(unsupported)) => Err(Unavailable::Unsupported(unsupported)),
        (false, Ok(assets)) => match Sandbox::enter() {
            Ok(Place::Outside(code)) => return code,
            Ok(Place::Inside(sandbox)) => start(sandbox, &assets),
            Err(error) => {
                eprintln!("{error}");
                Err(Unavailable::Start)
            }
        },
    };
    let cluster = Arc::new(cluster);
    let trials = trials(&cluster);
    let conclusion = libtest_mimic::run(&arguments, trials);
    stages::tell();
    if let (true, Ok(cluster)) = (conclusion.has_failed(), &*cluster) {
        cluster.runtime.block_on(describe(&cluster.node));
    }
    drop(cluster);
    conclusion.exit_code()
}

/// The tests, in order: they share the node.
fn trials(cluster: &Arc<Result<Cluster, Unavailable>>) -> Vec<Trial> {
    vec![
        trial("a_node_comes_up_and_runs_a_set_of_real_containers", cluster, async |cluster| {
            workload::a_set_of_real_containers(&cluster.node).await;
            Ok(Completion::Completed)
        }),
        trial("the_chart_rolls_three_zones_of_real_containers", cluster, async |cluster| {
            match &cluster.sts_plus {
                Err(reason) => cannot_run(reason),
                Ok(binary) => {
                    operator::three_zones(&cluster.node, binary).await;
                    Ok(Completion::Completed)
                }
            }
        }),
        trial(
            "a_version_that_turns_bad_goes_back_and_two_pods_are_never_touched",
            cluster,
            async |cluster| {
                if let Err(reason) = &cluster.sts_plus {
                    return cannot_run(reason);
                }
                gated::rollback(&cluster.node).await;
                Ok(Completion::Completed)
            },
        ),
        trial(
            "d_a4_a_command_in_a_real_container_moves_the_active_label_and_no_two_pods_ever_have_it",
            cluster,
            async |cluster| {
                if let Err(reason) = &cluster.sts_plus {
                    return cannot_run(reason);
                }
                active::fails_over(&cluster.node).await;
                Ok(Completion::Completed)
            },
        ),
        trial(
            "d_f10_pods_are_replaced_once_and_show_the_new_data_in_environment_and_files",
            cluster,
            async |cluster| {
                if let Err(reason) = &cluster.sts_plus {
                    return cannot_run(reason);
                }
                config::replaced_once(&cluster.node).await;
                Ok(Completion::Completed)
            },
        ),
        trial("d_s5_version_2_prints_what_version_1_has_written_on_the_volume", cluster, async |cluster| {
            if let Err(reason) = &cluster.sts_plus {
                return cannot_run(reason);
            }
            claims::outlive_a_version(&cluster.node).await;
            Ok(Completion::Completed)
        }),
        trial("d_a12_the_example_manifests_run_as_their_comments_say", cluster, async |cluster| {
            if let Err(reason) = &cluster.sts_plus {
                return cannot_run(reason);
            }
            examples::run_as_described(&cluster.node).await;
            Ok(Completion::Completed)
        }),
        trial(
            "a_b5_a_store_under_load_is_scaled_down_and_up_and_loses_no_acknowledged_record",
            cluster,
            async |cluster| {
                if let Err(reason) = &cluster.sts_plus {
                    return cannot_run(reason);
                }
                store::scaled_under_load(&cluster.node, store::Kind::Stays).await;
                Ok(Completion::Completed)
            },
        ),
        trial(
            "a_b9_7_a_store_that_exits_with_its_hook_loses_no_acknowledged_record_and_no_drained_pod_answers",
            cluster,
            async |cluster| {
                if let Err(reason) = &cluster.sts_plus {
                    return cannot_run(reason);
                }
                store::scaled_under_load(&cluster.node, store::Kind::ExitsByRule).await;
                store::scaled_under_load(&cluster.node, store::Kind::ExitsInPlace).await;
                Ok(Completion::Completed)
            },
        ),
        trial("a_b9_7_a_drained_pod_is_never_ready_again_on_a_real_kubelet", cluster, async |cluster| {
            if let Err(reason) = &cluster.sts_plus {
                return cannot_run(reason);
            }
            lock::holds(&cluster.node).await;
            Ok(Completion::Completed)
        }),
        // The last one: it leaves kube-controller-manager without its StatefulSet controller.
        trial("our_controller_keeps_an_unbroken_ledger_on_every_volume", cluster, async |cluster| {
            if let Err(reason) = &cluster.sts_plus {
                return cannot_run(reason);
            }
            ledger::kept_by_us(&cluster.node).await;
            Ok(Completion::Completed)
        }),
    ]
}

fn start(sandbox: Sandbox, assets: &Assets) -> Result<Cluster, Unavailable> {
    let runtime = Runtime::new().unwrap();
    let mut stages = Stages::begin("the node");
    let sts_plus = binary::find();
    let mut images = vec![workload::image("v1"), workload::image("v2")];
    images.extend(gated::images());
    images.extend(ledger::images());
    images.extend(extended::images());
    images.push(store::image());
    images.extend(sts_plus.as_deref().map(image));
    match runtime.block_on(RealNode::start(sandbox, assets, &images)) {
        Ok(node) => {
            stages.end("control plane started, images loaded, node Ready");
            Ok(Cluster { node, runtime, sts_plus })
        }
        Err(error) => {
            eprintln!("{error}");
            Err(Unavailable::Start)
        }
    }
}

/// Prints what may tell why a test failed.
async fn describe(node: &RealNode) {
    let logs =
        ["-n", operator::HOME, "logs", "--prefix", "--tail=50", "-l", "app.kubernetes.io/name=sts-plus"];
    for question in [
        &["get", "pods,statefulsets,phasedrollouts,scalingpolicies", "-A", "-o", "wide"][..],
        &[
            "get",
            "extendedstatefulsets.sts.plus,extendedstatefulsets.fissile.cloudfoundry.org",
            "-A",
            "-o",
            "yaml",
        ],
        &["get", "events", "-A"],
        &logs,
    ] {
        let answer = node.kubectl(question).await.unwrap_or_else(|error| error.to_string());
        eprintln!("kubectl {}:\n{answer}", question.join(" "));
    }
    eprintln!("{}", node.log_tails());
}

/// As the Containerfile makes it, but for the binary: the static one of `make dist` takes minutes to link, and can be named
/// in `STS_PLUS_BIN`.
fn image(binary: &Path) -> Image {
    let certificates = std::fs::read("/etc/ssl/certs/ca-certificates.crt").unwrap();
    Image::new(operator::IMAGE, &["/sts-plus"], &["run"])
        .user("65532:65532")
        .program("/sts-plus", binary)
        .unwrap()
        .file("/etc/ssl/certs/ca-certificates.crt", certificates)
}

fn trial<F>(name: &'static str, cluster: &Arc<Result<Cluster, Unavailable>>, test: F) -> Trial
where
    F: AsyncFnOnce(&Cluster) -> Result<Completion, Failed> + Send + 'static,
{
    let cluster = cluster.clone();
    Trial::ignorable_test(name, move || match &*cluster {
        Err(Unavailable::Unsupported(unsupported)) => cannot_run(unsupported),
        Err(Unavailable::Start) => Err(Failed::from("the node did not start, see above")),
        Ok(cluster) => cluster.runtime.block_on(test(cluster)),
    })
}
