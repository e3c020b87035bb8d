//! Stock kubectl, helm and Python's client against the embedded cluster, beside a real API server.

#![expect(
    clippy::unwrap_used,
    reason = "a test, which clippy recognises by an attribute that this kind does not have"
)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, RwLock};

use k8s_openapi::api::rbac::v1::PolicyRule;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use sts_plus_harness::assets::cannot_run;
use sts_plus_harness::{Assets, AssetsMissing};
use sts_plus_playground_tests::Playground;
use sts_plus_playground_tests::neutral::Neutral;
use sts_plus_playground_tests::script::Script;
use sts_plus_playground_tests::shell::Shell;
use sts_plus_scenarios::cluster::Cluster;
use sts_plus_scenarios::real::RealCluster;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Scripts that are under way at once: they wait for pods more than they work.
const AT_ONCE: usize = 4;
/// Scripts that change nodes, and so must be alone.
const ALONE: [&str; 1] = ["drain"];

/// Both clusters, and where they are found.
struct Both {
    embedded: Playground,
    real_kubeconfig: PathBuf,
    programs: PathBuf,
    neutral: Neutral,
    alone: RwLock<()>,
    // Dropped after what uses it.
    _real: RealCluster,
    runtime: Runtime,
}

/// Nothing where tests are only listed.
type Shared = Arc<Option<Result<Both, AssetsMissing>>>;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(AT_ONCE));
    rustls::crypto::ring::default_provider().install_default().ok();
    let scripts = Script::read_all(&here().join("scripts")).unwrap();
    let both: Shared = Arc::new(if arguments.list { None } else { Some(start()) });
    let mut trials: Vec<Trial> = scripts
        .into_iter()
        .map(|script| {
            let name = script.name.clone();
            trial(&name, &both, move |both| {
                let (ours, theirs) = (both.shell(&script.name, false), both.shell(&script.name, true));
                let played = script.play(&ours.shell, &theirs.shell, &both.neutral);
                played.map(|()| Completion::Completed).map_err(Failed::from)
            })
        })
        .collect();
    trials.push(trial("watch", &both, watch));
    trials.push(trial("follow", &both, follow));
    trials.push(trial("helm", &both, helm));
    trials.push(trial("python", &both, python));
    trials.push(trial("older", &both, older));
    let conclusion = libtest_mimic::run(&arguments, trials);
    if let Ok(Some(Ok(both))) = Arc::try_unwrap(both) {
        both.runtime.block_on(both.embedded.end()).unwrap();
    }
    conclusion.exit_code()
}

fn here() -> PathBuf {
    sts_plus_harness::package()
}

fn start() -> Result<Both, AssetsMissing> {
    let assets = Assets::find()?;
    let runtime = Runtime::new().unwrap();
    let (embedded, real, real_kubeconfig) = runtime.block_on(async {
        let real = RealCluster::start(&assets, true).await.unwrap();
        let all = || Some(vec!["*".to_owned()]);
        let everything = PolicyRule {
            api_groups: all(),
            resources: all(),
            verbs: vec!["*".to_owned()],
            ..PolicyRule::default()
        };
        let anything =
            PolicyRule { non_resource_urls: all(), verbs: vec!["*".to_owned()], ..PolicyRule::default() };
        let user = real.newcomer("kubectl").unwrap();
        real.grant(&user, None, vec![everything, anything]).await.unwrap();
        let kubeconfig = real.kubeconfig(&user).unwrap();
        (Playground::start().await.unwrap(), real, kubeconfig)
    });
    let (neutral, alone) = (Neutral::new().unwrap(), RwLock::default());
    let programs = assets.folder().to_owned();
    Ok(Both { embedded, real_kubeconfig, programs, neutral, alone, _real: real, runtime })
}

/// A shell whose commands mean a namespace of their own.
struct Seat {
    shell: Shell,
    _home: TempDir,
}

impl Both {
    fn shell(&self, namespace: &str, real: bool) -> Seat {
        let home = tempfile::tempdir().unwrap();
        let kubeconfig = home.path().join("kubeconfig");
        let known = if real { self.real_kubeconfig.clone() } else { self.embedded.kubeconfig() };
        std::fs::copy(known, &kubeconfig).unwrap();
        let shell = Shell { folder: here().join("scripts"), kubeconfig, programs: self.programs.clone() };
        // Pods can be made once the namespace has its account.
        let prepare = format!(
            "kubectl create namespace {namespace} && kubectl config set-context --current --namespace={namespace} && \
             kubectl wait --for=create serviceaccount/default --timeout=60s"
        );
        let said = shell.run(&prepare).unwrap();
        assert!(said.success, "{}", said.text);
        Seat { shell, _home: home }
    }
}

fn trial<F>(name: &str, both: &Shared, test: F) -> Trial
where
    F: FnOnce(&Both) -> Result<Completion, Failed> + Send + 'static,
{
    let (both, name) = (Arc::clone(both), name.to_owned());
    Trial::ignorable_test(name.clone(), move || match &*both {
        None => Err(Failed::from("nothing was started")),
        Some(Err(missing)) => missing.verdict(),
        Some(Ok(both)) if ALONE.contains(&name.as_str()) => {
            let _alone = both.alone.write();
            test(both)
        }
        Some(Ok(both)) => {
            let _shared = both.alone.read();
            test(both)
        }
    })
}

fn run(shell: &Shell, line: &str) -> Result<String, Failed> {
    let said = shell.run(line)?;
    if said.success { Ok(said.text) } else { Err(format!("{line}\n{}", said.text).into()) }
}

/// `kubectl get -w` shows each change as a row, on both clusters the same ones.
fn watch(both: &Both) -> Result<Completion, Failed> {
    let mut seen = Vec::new();
    for real in [false, true] {
        let seat = both.shell("watch", real);
        let shell = &seat.shell;
        let (quick, home) = (shell.clone(), shell.kubeconfig.parent().unwrap().to_owned());
        run(shell, "kubectl create configmap one --from-literal=a=1")?;
        let begun = move || {
            let changes = "kubectl create configmap two --from-literal=a=1 && \
                           kubectl patch configmap two -p '{\"data\":{\"b\":\"2\"}}' && kubectl delete configmap two";
            let said = quick.run(changes).unwrap();
            assert!(said.success && home.exists(), "{}", said.text);
        };
        let line = "kubectl get configmaps -w --output-watch-events --field-selector=metadata.name!=kube-root-ca.crt";
        let shown = shell.until(line, begun, |text| text.contains("DELETED"))?;
        // The first rows may come before or after the changes began.
        let of_two = shown.lines().filter(|line| line.contains("EVENT") || line.contains(" two "));
        seen.push(both.neutral.text(&of_two.collect::<Vec<_>>().join("\n")));
    }
    if seen.first() == seen.last() && seen.first().is_some_and(|seen| seen.lines().count() > 1) {
        Ok(Completion::Completed)
    } else {
        Err(format!("{seen:#?}").into())
    }
}

/// `kubectl logs -f` goes on until the pod is gone.
fn follow(both: &Both) -> Result<Completion, Failed> {
    let seat = both.shell("follow", false);
    let shell = &seat.shell;
    run(shell, "kubectl apply -f web.yaml && kubectl rollout status sts/web --timeout=60s")?;
    let quick = shell.clone();
    let begun = move || {
        let said = quick.run("kubectl delete pod web-0 --wait=false").unwrap();
        assert!(said.success, "{}", said.text);
    };
    let said =
        shell.until("kubectl logs -f web-0 -c main", begun, |text| text.contains("is asked to stop"))?;
    if said.starts_with("starts run 1 of image main:1") {
        Ok(Completion::Completed)
    } else {
        Err(said.into())
    }
}

/// Our own chart goes in and is upgraded.
fn helm(both: &Both) -> Result<Completion, Failed> {
    let seat = both.shell("helm", false);
    let shell = &seat.shell;
    let chart = "../../../charts/sts-plus";
    run(shell, &format!("helm install here {chart} --namespace helm --take-ownership"))?;
    run(shell, &format!("helm upgrade here {chart} --namespace helm --set image.tag=other"))?;
    let listed = run(shell, "helm list --namespace helm")?;
    let image =
        run(shell, "kubectl get deployments -o jsonpath={.items[*].spec.template.spec.containers[*].image}")?;
    run(shell, "helm get manifest here --namespace helm")?;
    run(shell, "helm rollback here 1 --namespace helm")?;
    run(shell, "helm uninstall here --namespace helm")?;
    if listed.contains("deployed") && image.ends_with(":other") {
        Ok(Completion::Completed)
    } else {
        Err(format!("{listed}\n{image}").into())
    }
}

/// The official Python client lists, watches and writes.
fn python(both: &Both) -> Result<Completion, Failed> {
    let python = both.programs.parent().unwrap_or(&both.programs).join("python/bin/python");
    if !python.exists() {
        return cannot_run("Python's Kubernetes client is not there: make testbed, with Python 3 installed");
    }
    let seat = both.shell("python", false);
    let said = run(&seat.shell, &format!("{} client.py python", python.display()))?;
    if said.contains("all is well") { Ok(Completion::Completed) } else { Err(said.into()) }
}

/// A kubectl three minors older does the everyday things.
fn older(both: &Both) -> Result<Completion, Failed> {
    let kubectl = both.programs.parent().unwrap_or(&both.programs).join("kubectl-old");
    if !kubectl.exists() {
        return cannot_run("there is no older kubectl: make testbed");
    }
    let seat = both.shell("older", false);
    for line in [
        "apply -f web.yaml",
        "rollout status sts/web --timeout=60s",
        "get pods -o wide",
        "describe sts web",
        "explain sts.spec",
        "diff -f web.yaml",
        "set image sts/web main=main:2",
        // There is nothing to go back to before the controller has seen the new image.
        "rollout status sts/web --timeout=60s",
        "rollout undo sts/web",
        "scale sts/web --replicas=1",
        "create configmap c --from-literal=a=1",
        "apply --server-side -f small.yaml",
        "logs web-0 -c main",
        "auth can-i get pods",
        "delete -f web.yaml",
    ] {
        run(&seat.shell, &format!("{} {line}", kubectl.display()))?;
    }
    Ok(Completion::Completed)
}
