//! The operator as users run it, and what becomes of a drain when it is killed. The pods answer over sockets.

use std::process::Command;
use std::sync::Arc;

use sts_plus_api::scaling_policy::RecordPhase;
use sts_plus_harness::process::Process;

use super::app::{App, Says};
use super::manifest::{SHUTDOWN, STATUS, down, polled};
use super::stage::{NAME, Scaled};
use crate::binary;
use crate::cluster::Cluster;
use crate::scenarios::{Place, Scenario};

pub(super) fn all() -> Vec<Scenario> {
    vec![Scenario {
        name: "a_b9_6_a_drain_goes_on_over_two_sigkills_of_the_operator_and_its_pod_is_called_once",
        place: Place::OwnWithSockets,
        needs_binary: true,
        play: |cluster, name| Box::pin(killed_twice(cluster, name)),
    }]
}

/// A running binary.
struct Binary(Process);

impl Binary {
    fn start(stage: &Scaled) -> Self {
        let kubeconfig = stage.cluster.kubeconfig(stage.account()).unwrap();
        let mut command = Command::new(binary::find().unwrap());
        command.arg("run").arg("--kubeconfig").arg(&kubeconfig).args(["--server-port", "0"]);
        command.args(["--namespace", &stage.namespace, "--leader-elect=false", "--allow-loopback"]);
        stage.view().note("the binary starts".to_owned());
        Self(Process::spawn(&command, kubeconfig.with_extension("binary.log")).unwrap())
    }

    /// Ends it as the kernel does, in the middle of whatever it does, and starts another one.
    fn killed(mut self, stage: &Scaled) -> Self {
        self.0.kill();
        stage.view().note("the binary is killed".to_owned());
        Self::start(stage)
    }
}

impl Drop for Binary {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("---- the end of the binary's log\n{}\n----", self.0.log_tail());
        }
    }
}

/// Waits until the application is asked once more how far it is.
async fn is_asked(app: &App) {
    let polls = app.asked("GET", STATUS).len();
    app.asked_more("GET", STATUS, polls).await;
}

async fn killed_twice(cluster: Arc<dyn Cluster>, name: &'static str) {
    let stage = Scaled::without_operator(&cluster, name).await;
    let binary = Binary::start(&stage);
    let app = stage.given_scaled(3, &down(NAME, &polled())).await;
    app.hold();
    stage.scale(2).await;
    stage.leaves(2, RecordPhase::Draining).await;
    is_asked(&app).await;

    // Once between two calls, and once within one.
    let binary = binary.killed(&stage);
    is_asked(&app).await;
    app.say("GET", STATUS, &[Says::Nothing]);
    is_asked(&app).await;
    let binary = binary.killed(&stage);
    assert_eq!(stage.numbers(), [3], "nothing is removed before it is done");

    app.finish();
    stage.settled(2).await;
    assert_eq!(app.asked("POST", SHUTDOWN), ["ingester-2"], "called once, whoever was killed");
    assert_eq!(stage.lives(0..3), [1, 1, 1]);
    drop(binary);
    stage.finish(&[&app]).await;
}
