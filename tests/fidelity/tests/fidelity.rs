//! Every sequence, asked of both servers.

#![expect(
    clippy::unwrap_used,
    reason = "a test, which clippy recognises by an attribute that this kind does not have"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use kube::Client;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use serde_json::{Value, json};
use sts_plus_cluster::{
    Clock,
    machinery::{admission::https::HttpsWebhooks, service},
};
use sts_plus_fidelity::{Sequence, Server, Suite, differences, play, report, webhook::Webhook};
use sts_plus_harness::{Assets, AssetsMissing, ControlPlane, Options, schemas::schemas};
use tokio::runtime::Runtime;

/// Sequences that are under way at once; they wait more than they work.
const AT_ONCE: usize = 8;
/// Where the page is rewritten instead of compared, if this is set.
const REWRITE: &str = "FIDELITY_REWRITE";

/// Owned by `main`, so that it is stopped at the end.
struct Both {
    embedded: Server,
    real: Server,
    equal: Mutex<BTreeSet<String>>,
    // Dropped after what uses it.
    _control_plane: ControlPlane,
    runtime: Runtime,
}

type Shared = Arc<Result<Both, Unavailable>>;

enum Unavailable {
    Assets(AssetsMissing),
    Start,
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(AT_ONCE));
    let suite = Suite::read(&here().join("sequences")).unwrap();
    let both: Shared =
        Arc::new(if arguments.list { Err(Unavailable::Start) } else { start(suite.setup.as_ref()) });
    let sequences = suite.areas.iter().flat_map(|area| &area.sequences);
    let mut trials: Vec<_> = sequences.map(|sequence| of_sequence(sequence.clone(), &both)).collect();
    trials.push(trial("the_schemas_are_those_of_this_server", &both, async |both| {
        let theirs = schemas(&both.real.client).await.unwrap();
        let ours = include_str!("../../../crates/cluster/src/kinds/schemas.json");
        if theirs == ours { Ok(()) } else { Err("`make schemas` has not been run".into()) }
    }));
    trials.push(trial("services_are_found_through_the_resolver", &both, resolved));
    let is_whole = arguments.filter.is_none() && arguments.skip.is_empty() && !arguments.list;
    let conclusion = libtest_mimic::run(&arguments, trials);
    if conclusion.has_failed() || !is_whole {
        return conclusion.exit_code();
    }
    // What the page says is known only now.
    let page = trial("the_page_says_what_was_seen", &both, async move |both| {
        let seen = report::page(&suite, &both.equal.lock().unwrap());
        let path = here().join("../../docs/fidelity.md");
        if std::env::var_os(REWRITE).is_some() {
            std::fs::write(&path, &seen).unwrap();
        }
        let said = std::fs::read_to_string(&path).unwrap_or_default();
        if said == seen { Ok(()) } else { Err("docs/fidelity.md is old: run `make fidelity`".into()) }
    });
    libtest_mimic::run(&arguments, vec![page]).exit_code()
}

fn here() -> PathBuf {
    sts_plus_harness::package()
}

fn start(setup: Option<&Sequence>) -> Result<Both, Unavailable> {
    let assets = Assets::find().map_err(Unavailable::Assets)?;
    let runtime = Runtime::new().unwrap();
    let started = runtime.block_on(async {
        let options =
            Options { controllers: vec!["serviceaccount-controller".to_owned()], ..Options::default() };
        let control_plane = ControlPlane::start(&assets, options).await?;
        let webhook = Webhook::start().await?;
        let embedded = service::Server::new(service::Settings::new(Clock::start()))?;
        let embedded = embedded.with_webhooks(Arc::new(HttpsWebhooks::default()));
        let server = |name, client| Server { name, client, webhook: webhook.clone(), known: BTreeMap::new() };
        let mut ours = server("embedded", Client::new(embedded.clone(), "default"));
        let mut theirs = server("real", control_plane.admin());
        if let Some(setup) = setup {
            for server in [&mut ours, &mut theirs] {
                let played = play(setup, server).await;
                assert!(played.surprises.is_empty(), "{:?}", played.surprises);
                server.known = played.known;
            }
        }
        // What the setup has seen is gone when sequences refer to it.
        embedded.compact();
        control_plane.compact().await?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>((control_plane, ours, theirs))
    });
    match started {
        Ok((control_plane, embedded, real)) => {
            Ok(Both { embedded, real, equal: Mutex::default(), _control_plane: control_plane, runtime })
        }
        Err(error) => {
            eprintln!("{error}");
            Err(Unavailable::Start)
        }
    }
}

/// The real server has no way to a service here; the embedded one is handed one.
async fn resolved(both: &Both) -> Result<(), String> {
    let address = both.embedded.webhook.address();
    let resolver = Arc::new(move |namespace: &str, name: &str, port: u16| {
        (namespace == "webhooks" && name == "hook" && port == 8443).then_some(address)
    });
    let server =
        service::Server::new(service::Settings::new(Clock::start())).map_err(|error| error.to_string())?;
    let client = Client::new(server.with_webhooks(Arc::new(HttpsWebhooks::new(resolver))), "default");
    let hook = |name: &str, service: &str| {
        json!({
            "name": name, "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {
                "caBundle": both.embedded.webhook.ca_bundle(),
                "service": { "namespace": "webhooks", "name": service, "port": 8443, "path": "/embedded/resolved/deny" },
            },
            "objectSelector": { "matchLabels": { "asks": service } },
            "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"] }],
        })
    };
    let configuration = json!({
        "metadata": { "name": "hooks" }, "webhooks": [hook("a.example.com", "hook"), hook("b.example.com", "nobody")],
    });
    let configurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    post(&client, configurations, &configuration).await?;
    for (service, said) in [("hook", "not today"), ("nobody", "service \"nobody\" not found")] {
        let object = json!({ "metadata": { "name": "a", "labels": { "asks": service } } });
        match post(&client, "/api/v1/namespaces/default/configmaps", &object).await {
            Err(why) if why.contains(said) => {}
            other => return Err(format!("{service}: {other:?}")),
        }
    }
    Ok(())
}

async fn post(client: &Client, path: &str, body: &Value) -> Result<Value, String> {
    let request = http::Request::post(path).header("content-type", "application/json");
    let request = request.body(body.to_string().into_bytes()).map_err(|error| error.to_string())?;
    client.request::<Value>(request).await.map_err(|error| error.to_string())
}

fn of_sequence(sequence: Sequence, both: &Shared) -> Trial {
    trial(&sequence.name.clone(), both, async move |both| compare(&sequence, both).await)
}

async fn compare(sequence: &Sequence, both: &Both) -> Result<(), String> {
    let (ours, theirs) = tokio::join!(play(sequence, &both.embedded), play(sequence, &both.real));
    let mut found = theirs.surprises.clone();
    for (index, (ours, theirs)) in ours.answers.iter().zip(&theirs.answers).enumerate() {
        let here = differences(ours, theirs);
        found.extend(here.into_iter().map(|difference| format!("step {}{difference}", index + 1)));
    }
    match (&sequence.out_of_scope, found.is_empty()) {
        (None, true) => {
            both.equal.lock().unwrap().insert(sequence.name.clone());
            Ok(())
        }
        (None, false) => Err(found.join("\n")),
        (Some(_), false) => Ok(()),
        (Some(reason), true) => Err(format!("out of scope ({reason}), and yet equal")),
    }
}

fn trial<F>(name: &str, both: &Shared, test: F) -> Trial
where
    F: AsyncFnOnce(&Both) -> Result<(), String> + Send + 'static,
{
    let both = both.clone();
    Trial::ignorable_test(name, move || match &*both {
        Err(Unavailable::Assets(missing)) => missing.verdict(),
        Err(Unavailable::Start) => Err(Failed::from("the control plane did not start, see above")),
        Ok(both) => match both.runtime.block_on(test(both)) {
            Ok(()) => Ok(Completion::Completed),
            Err(why) => Err(Failed::from(why)),
        },
    })
}
