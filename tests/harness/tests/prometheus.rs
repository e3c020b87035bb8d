//! A real Prometheus, and what stands before and behind it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test, which clippy recognises by an attribute that this kind does not have"
)]

use std::{collections::BTreeMap, path::Path, process::ExitCode, sync::Arc};

use http::StatusCode;
use libtest_mimic::{Arguments, Completion, Trial};
use sts_plus_harness::{
    Assets, AssetsMissing, AuthProxy, Credential, Prometheus, Target,
    prometheus::{PrometheusError, Sample, query},
};
use tokio::runtime::Runtime;

type Prerequisites = Arc<Result<Assets, AssetsMissing>>;

fn main() -> ExitCode {
    let assets = Assets::find().and_then(|assets| assets.binary("prometheus").map(|_| assets));
    let assets = Arc::new(assets);
    let trials = vec![
        trial("a_gauge_that_turns_bad_and_good_is_seen", &assets, gauges),
        trial("other_targets_can_be_scraped_without_a_restart", &assets, targets),
        trial("prometheus_itself_can_ask_for_a_password", &assets, basic_auth),
        trial("a_proxy_lets_only_the_credential_of_the_moment_pass", &assets, rotation),
        trial("a_dropped_prometheus_leaves_nothing", &assets, dropped),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial<F>(name: &'static str, assets: &Prerequisites, test: fn(Assets) -> F) -> Trial
where
    F: Future<Output = ()> + 'static,
{
    let assets = assets.clone();
    Trial::ignorable_test(name, move || match &*assets {
        Err(missing) => missing.verdict(),
        Ok(assets) => {
            Runtime::new().unwrap().block_on(test(assets.clone()));
            Ok(Completion::Completed)
        }
    })
}

async fn gauges(assets: Assets) {
    let target = Target::start().await.unwrap();
    target.set("app_errors", &[("pod", "web-0"), ("path", r#"C:\ "x""#)], 0.0);
    let prometheus = Prometheus::start(&assets, &[target.address()]).await.unwrap();
    let samples = prometheus.until_data("app_errors").await;
    let instance = target.address().to_string();
    let labels = [
        ("__name__", "app_errors"),
        ("instance", &*instance),
        ("job", "test"),
        ("path", r#"C:\ "x""#),
        ("pod", "web-0"),
    ];
    let labels: BTreeMap<_, _> = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    assert_eq!(samples, [Sample { labels, value: 0.0 }]);
    assert_eq!(prometheus.query("app_errors > 0").await.unwrap(), []);
    assert!(target.scrapes() > 0);

    target.set("app_errors", &[("pod", "web-1")], 2.5);
    let bad = prometheus.until_data("sum(app_errors) > 2").await;
    assert_eq!(bad, [Sample { labels: BTreeMap::new(), value: 2.5 }]);
    target.set("app_errors", &[("pod", "web-1")], 0.0);
    prometheus.until_no_data("app_errors > 0").await;
    prometheus.until_data("count(app_errors) == 2").await;
    target.clear("app_errors");
    prometheus.until_no_data("app_errors").await;

    drop(target);
    prometheus.until_data("up == 0").await;
    let refused = prometheus.query("up{").await.unwrap_err();
    assert!(matches!(refused, PrometheusError::Refused { status: StatusCode::BAD_REQUEST, .. }), "{refused}");
    assert!(matches!(prometheus.query("1").await, Err(PrometheusError::NoVector(_))));
}

async fn targets(assets: Assets) {
    let prometheus = Prometheus::start(&assets, &[]).await.unwrap();
    assert_eq!(prometheus.query("up").await.unwrap(), []);
    let (first, second) = (Target::start().await.unwrap(), Target::start().await.unwrap());
    prometheus.scrape(&[first.address()]).await.unwrap();
    prometheus.until_data("up == 1").await;
    prometheus.scrape(&[second.address()]).await.unwrap();
    prometheus.until_data(&format!(r#"up{{instance="{}"}} == 1"#, second.address())).await;
    prometheus.until_no_data(&format!(r#"up{{instance="{}"}}"#, first.address())).await;
}

async fn basic_auth(assets: Assets) {
    let target = Target::start().await.unwrap();
    let prometheus = Prometheus::start_with_basic_auth(&assets, &[target.address()]).await.unwrap();
    prometheus.until_data("up == 1").await;
    let address = prometheus.address();
    for credential in [None, Some(Credential::basic("prometheus", "wrong"))] {
        assert_unauthorised(query(address, credential.as_ref(), "up").await);
    }
    assert_eq!(query(address, prometheus.credential(), "up").await.unwrap().len(), 1);
}

async fn rotation(assets: Assets) {
    let target = Target::start().await.unwrap();
    let prometheus = Prometheus::start(&assets, &[target.address()]).await.unwrap();
    prometheus.until_data("up == 1").await;
    let (old, new) = (Credential::bearer("old"), Credential::basic("user", "new"));
    let proxy = AuthProxy::start(prometheus.address(), Some(old.clone())).await.unwrap();
    let ask = async |credential| query(proxy.address(), credential, "up").await;

    assert_unauthorised(ask(None).await);
    assert_eq!(ask(Some(&old)).await.unwrap().len(), 1);
    proxy.require(Some(new.clone()));
    assert_unauthorised(ask(Some(&old)).await);
    assert_eq!(ask(Some(&new)).await.unwrap().len(), 1);

    let calls = proxy.calls();
    let authorised: Vec<_> = calls.iter().map(|call| call.authorised).collect();
    assert_eq!(authorised, [false, true, false, true]);
    for call in calls {
        assert_eq!((call.method.as_str(), &*call.path), ("POST", "/api/v1/query"));
        assert_eq!(call.form, [("query".to_owned(), "up".to_owned())]);
        assert_eq!(call.parameter("query"), Some("up"));
    }
}

async fn dropped(assets: Assets) {
    let prometheus = Prometheus::start(&assets, &[]).await.unwrap();
    let address = prometheus.address();
    let process = Path::new("/proc").join(prometheus.pid().to_string());
    assert!(process.exists());
    drop(prometheus);
    assert!(!process.exists());
    assert!(matches!(query(address, None, "up").await, Err(PrometheusError::Send(_))));
}

fn assert_unauthorised(answer: Result<Vec<Sample>, PrometheusError>) {
    match answer {
        Err(PrometheusError::Refused { status: StatusCode::UNAUTHORIZED, .. }) => {}
        other => panic!("{other:?}"),
    }
}
