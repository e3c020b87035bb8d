use std::io;

use super::*;

struct Named(&'static str);

impl ScaleDown for Named {
    async fn prepare(&self, _: &PodTarget, _: &HookContext) -> Result<HookProgress, HookError> {
        Ok(HookProgress::pending(format!("{} prepares", self.0)))
    }

    async fn poll(&self, _: &PodTarget, _: &HookContext) -> Result<HookProgress, HookError> {
        Ok(HookProgress::pending(format!("{} polls", self.0)))
    }

    async fn cancel(&self, _: &PodTarget, _: &HookContext) -> Result<HookProgress, HookError> {
        Ok(HookProgress::pending(format!("{} cancels", self.0)))
    }
}

impl ScaleUp for Named {
    async fn join(&self, _: &PodTarget, _: &HookContext) -> Result<HookProgress, HookError> {
        Ok(HookProgress::pending(format!("{} joins", self.0)))
    }
}

async fn called(hooks: &Hooks, name: &str, call: Call) -> Option<String> {
    let pod = PodTarget {
        namespace: "ns".into(),
        name: "db-2".into(),
        uid: "uid-2".into(),
        ip: None,
        set: "db".into(),
        ordinal: 2,
    };
    let context = HookContext { policy: "db".into(), timeout: Duration::ZERO, deadline: Duration::ZERO };
    match hooks.find(name, call)?.call(call, &pod, &context).await {
        Ok(HookProgress::Pending { message, retry_after: None }) => Some(message),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_hook_is_found_by_name_and_by_what_it_is_for() {
    let hooks = Hooks::default().scale_down("leave", Named("leave")).scale_up("join", Named("join"));
    for (name, call, expected) in [
        ("leave", Call::Prepare, Some("leave prepares")),
        ("leave", Call::Poll, Some("leave polls")),
        ("leave", Call::Cancel, Some("leave cancels")),
        ("leave", Call::Join, None),
        ("join", Call::Join, Some("join joins")),
        ("join", Call::Poll, Some("join joins")),
        ("join", Call::Prepare, None),
        ("other", Call::Prepare, None),
    ] {
        assert_eq!(called(&hooks, name, call).await.as_deref(), expected, "{name} {call:?}");
    }
    assert!(hooks.find("join", Call::Cancel).is_some(), "there is nothing to take back");
    assert_eq!(format!("{hooks:?}"), r#"{"join", "leave"}"#);
}

#[tokio::test]
async fn the_last_of_a_name_counts() {
    let hooks = Hooks::default().scale_down("leave", Named("former")).scale_down("leave", Named("latter"));
    assert_eq!(called(&hooks, "leave", Call::Poll).await.as_deref(), Some("latter polls"));
    let hooks = hooks.scale_up("leave", Named("last"));
    assert_eq!(called(&hooks, "leave", Call::Poll).await.as_deref(), Some("last joins"));
    assert_eq!(called(&hooks, "leave", Call::Prepare).await, None, "a name is for one of the two");
}

#[test]
fn an_error_shows_what_has_caused_it() {
    let cause = io::Error::other("no route");
    assert_eq!(HookError::of(cause).to_string(), "no route");
    assert_eq!(HookError::new("not now").to_string(), "not now");
}
