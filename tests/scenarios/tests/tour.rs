//! What the playground prints and what its page says, as printed, with the test bed's kubectl.

#![expect(
    clippy::unwrap_used,
    reason = "a test, which clippy recognises by an attribute that this kind does not have"
)]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::sync::{Arc, Mutex};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use sts_plus_harness::wait::{NotYet, until};
use sts_plus_harness::{Assets, checkout};
use sts_plus_scenarios::binary;
use sts_plus_scenarios::observer::DEADLINE;
use tokio::runtime::Runtime;

/// A playground that the page starts.
struct Start {
    /// The command of the page.
    command: &'static str,
    /// The flags with which this test starts it.
    flags: &'static [&'static str],
    /// What it prints last of what it does by itself.
    end: &'static str,
}

const STARTS: [Start; 3] = [
    Start { command: "cargo run", flags: &[], end: "phasedrollout/gated RolloutCompleted" },
    Start {
        command: "cargo run -- --demo extended",
        flags: &["--demo", "extended"],
        end: " hollow.sts.plus/http-",
    },
    Start {
        command: "cargo run -- --demo scaling",
        flags: &["--demo", "scaling"],
        end: "$ kubectl scale scp ingester --replicas=3",
    },
];

/// How a command of the page begins that asks a pod itself.
const CURL: &str = "curl -sS \"http://$(kubectl get pod ";

/// What a reader sees before going on: after a command with these words, this question is answered so.
const EFFECTS: [(&str, &str, &str); 10] = [
    ("VERSION=3", "cargo run -q -- status", "3/3 Ready on store-zone-c"),
    (r#""crash-loop""#, "kubectl get pods -l app=store", "CrashLoopBackOff"),
    (r#""hollow.sts.plus/fault":null"#, "cargo run -q -- status", "store-zone-c  UpToDate"),
    ("VERSION=4", "kubectl get phasedrollout gated -o jsonpath='{.status.message}'", "has failed"),
    (
        r#""errors_per_second":"0""#,
        "kubectl get phasedrollout gated -o jsonpath='{.status.phase}'",
        "Updated",
    ),
    (
        "store-zone-b --replicas=3",
        "kubectl get statefulset store-zone-b -o jsonpath='{.status.replicas}'",
        "3",
    ),
    ("web:9", "cargo run -q -- status", "version 3 (update)   running, 2/2 Ready"),
    (r#""log_level":"trace""#, "kubectl get ests db -o jsonpath='{.status.currentVersion}'", "3"),
    // The pod that is active is not told to fail.
    (
        "=/leader 503'",
        "kubectl get pods -l sts.plus/pod-designation=active \
         -o jsonpath='{.items[0].metadata.name} {.items[0].metadata.annotations.hollow\\.sts\\.plus/http}.'",
        " .",
    ),
    (
        "=Requested scp/ingester",
        "kubectl get scp ingester -o jsonpath='{.status.leaving[0].lastError} {.status.replicas}'",
        "answered 503: the object storage is unavailable 2",
    ),
];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let [rollouts, extended, scaling] = &STARTS;
    let trial = |name: &str, start: &'static Start, tell: fn(&Stage) -> Vec<String>| {
        Trial::ignorable_test(name, move || match Assets::find() {
            Ok(assets) => Runtime::new().unwrap().block_on(follow(&assets, start, tell)),
            Err(missing) => missing.verdict(),
        })
    };
    let printed = |stage: &Stage| stage.printed.clone();
    let trials = vec![
        trial("every_command_of_the_tour_works_as_printed", rollouts, Stage::tour),
        trial("every_command_that_the_playground_prints_works_as_printed", rollouts, printed),
        trial("every_command_of_the_tour_of_extended_stateful_sets_works_as_printed", extended, Stage::tour),
        trial(
            "every_command_that_the_demo_of_extended_stateful_sets_prints_works_as_printed",
            extended,
            printed,
        ),
        trial("every_command_of_the_tour_of_scaling_policies_works_as_printed", scaling, Stage::tour),
        trial("every_command_that_the_demo_of_scaling_policies_prints_works_as_printed", scaling, printed),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

async fn follow(
    assets: &Assets,
    start: &'static Start,
    tell: fn(&Stage) -> Vec<String>,
) -> Result<Completion, Failed> {
    let stage = Stage::start(assets, start).await;
    let commands = tell(&stage);
    assert!(commands.len() >= 3, "there are commands: {commands:?}");
    for command in commands {
        let output = stage.run(&stage.printed_or_elsewhere(&command));
        if !output.status.success() {
            return Err(format!("{command}\n{}\n{}", told(&output), stage.lines()).into());
        }
        if let Some((_, question, answer)) = EFFECTS.iter().find(|(words, _, _)| command.contains(words)) {
            until(DEADLINE, &format!("{answer} after {command}"), || async {
                let told = told(&stage.run(question));
                told.contains(answer).then_some(()).ok_or_else(|| NotYet::saw(told))
            })
            .await;
        }
    }
    Ok(Completion::Completed)
}

/// A playground, and a terminal beside it.
struct Stage {
    start: &'static Start,
    child: Child,
    folder: PathBuf,
    programs: Vec<PathBuf>,
    kubeconfig: String,
    printed: Vec<String>,
    told: Arc<Mutex<Vec<String>>>,
}

impl Stage {
    /// Starts one and waits until what it does by itself is over.
    async fn start(assets: &Assets, start: &'static Start) -> Self {
        let binary = binary::find().unwrap();
        let mut child = Command::new(&binary)
            .args(["playground", "--fast", "--port", "0"])
            .args(start.flags)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let sink = Arc::clone(&told);
        std::thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| sink.lock().unwrap().push(line));
        });
        until(DEADLINE, start.end, || async {
            let told = told.lock().unwrap();
            let is_over = |line: &String| line.contains(start.end);
            told.iter().any(is_over).then_some(()).ok_or_else(|| NotYet::saw(told.join("\n")))
        })
        .await;
        let is_command = |line: &&String| line.starts_with("  KUBECONFIG=");
        let printed: Vec<String> =
            told.lock().unwrap().iter().filter(is_command).map(|line| line.trim().to_owned()).collect();
        let (setting, _) = printed.first().unwrap().split_once(' ').unwrap();
        Stage {
            start,
            child,
            folder: checkout(),
            programs: vec![assets.folder().to_owned(), binary.parent().unwrap().to_owned()],
            kubeconfig: setting.trim_start_matches("KUBECONFIG=").to_owned(),
            printed,
            told,
        }
    }

    /// The lines of the `sh` blocks of the page from the one that starts this playground to the next that starts one.
    fn tour(&self) -> Vec<String> {
        let page = std::fs::read_to_string(self.folder.join("docs/playground.md")).unwrap();
        let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split_once("```"));
        let lines =
            blocks.flat_map(|(block, _)| block.lines()).map(str::trim).filter(|line| !line.is_empty());
        let is_start = |line: &&str| STARTS.iter().any(|start| start.command == *line);
        let mut own = lines.skip_while(|line| *line != self.start.command);
        own.next().unwrap();
        own.take_while(|line| !is_start(line)).map(str::to_owned).collect()
    }

    /// The command as printed. The addresses of pods are the same in every playground of a machine, so that another one, which
    /// another test runs, may have the port: then the pod listens elsewhere, and the page says how to find out where.
    fn printed_or_elsewhere(&self, command: &str) -> String {
        let Some((pod, _)) = command.strip_prefix(CURL).and_then(|rest| rest.split_once(' ')) else {
            return command.to_owned();
        };
        let question = format!(
            "kubectl get pod {pod} -o jsonpath='{{.metadata.annotations.hollow\\.sts\\.plus/ports}}'"
        );
        let elsewhere = told(&self.run(&question));
        match elsewhere.split(',').find_map(|port| port.strip_prefix("8080=")) {
            Some(address) => format!("curl -sS http://{address}/"),
            None => command.to_owned(),
        }
    }

    fn run(&self, command: &str) -> Output {
        let command = command.replace("cargo run -q --", "sts-plus");
        let machine = std::env::var_os("PATH").unwrap_or_default();
        let path = self.programs.iter().cloned().chain(std::env::split_paths(&machine));
        Command::new("sh")
            .args(["-ec", &command])
            .current_dir(&self.folder)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("PATH", std::env::join_paths(path).unwrap())
            .output()
            .unwrap()
    }

    fn lines(&self) -> String {
        self.told.lock().unwrap().join("\n")
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // Asked, not killed: it has a folder to remove.
        Command::new("kill").arg(self.child.id().to_string()).status().ok();
        self.child.wait().ok();
    }
}

fn told(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
