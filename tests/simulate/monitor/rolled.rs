//! Since when a set is rolled to its template, as the monitor counts it.

use std::time::Duration;

use serde_json::{Value, json};
use sts_plus_simulate::truth::Truth;

/// A set whose user changes its template, and whose controller observes that.
#[derive(Default)]
struct Story(Truth);

impl Story {
    fn template(version: u64) -> Value {
        json!({ "containers": [{ "image": format!("app:v{version}") }] })
    }

    fn show(&mut self, at: u64, template: u64, observed: u64) {
        let stored = json!({ "spec": Self::template(observed), "$patch": "replace" });
        let (at, name) = (Duration::from_secs(at), format!("web-v{observed}"));
        let revision = json!({ "data": { "spec": { "template": stored } } });
        self.0.take(at, "controllerrevisions", &name, &revision, false);
        let set = json!({
            "metadata": { "uid": "u", "generation": at.as_secs() },
            "spec": { "template": { "spec": Self::template(template) } },
            "status": { "updateRevision": name },
        });
        self.0.take(at, "statefulsets", "web", &set, false);
    }

    fn rolled_since(&self) -> u64 {
        self.0.sets.get("web").map(|set| self.0.rolled_since(set).as_secs()).unwrap_or_default()
    }
}

/// A template that returns before another one was observed has never been left.
pub(crate) fn returns() {
    let mut story = Story::default();
    story.show(1, 1, 1);
    story.show(10, 2, 1);
    assert_eq!(story.rolled_since(), 10, "nobody has observed it");
    story.show(11, 2, 2);
    assert_eq!(story.rolled_since(), 10);
    story.show(20, 3, 2);
    assert_eq!(story.rolled_since(), 20);
    story.show(21, 2, 2);
    assert_eq!(story.rolled_since(), 10, "the third was never observed");
    story.show(30, 3, 2);
    story.show(31, 3, 3);
    assert_eq!(story.rolled_since(), 30);
    story.show(40, 2, 3);
    assert_eq!(story.rolled_since(), 40);
    story.show(41, 2, 2);
    assert_eq!(story.rolled_since(), 40, "the third was observed");
}

/// A template that is observed when another one is there already is rolled from when it came.
pub(crate) fn observed_late() {
    let mut story = Story::default();
    story.show(1, 1, 1);
    story.show(10, 2, 1);
    story.show(11, 3, 1);
    // Its controller has seen the second one only, and the third one is there already.
    story.show(12, 3, 2);
    assert_eq!(story.rolled_since(), 11);
    story.show(20, 2, 2);
    assert_eq!(story.rolled_since(), 10);
}
