use std::future::{pending, ready};

use tokio::sync::{Notify, oneshot};

use super::*;

/// Calls that do what the text says, and end with a text.
type Calls = PodCalls<&'static str, &'static str, String>;

fn outcome(uid: &str) -> String {
    format!("the outcome of {uid}")
}

fn uids(uids: &[&str]) -> BTreeSet<Box<str>> {
    uids.iter().map(|&uid| uid.into()).collect()
}

#[tokio::test]
async fn a_pod_has_one_call_at_a_time_and_its_outcome_is_handed_over_once() {
    let calls = Calls::default();
    let (answer, asked) = oneshot::channel();
    let answered = Arc::new(Notify::new());
    let told = Arc::clone(&answered);
    let first = async move {
        asked.await.unwrap();
        outcome("a")
    };
    calls.start(&"db", ("a", "first"), first, move || told.notify_one());
    calls.start(&"db", ("a", "second"), async { panic!("a second call to the pod") }, || panic!());
    calls.start(&"db", ("b", "other"), pending(), || panic!());
    assert_eq!(calls.take(&"db"), (vec![], uids(&["a", "b"])));
    answer.send(()).unwrap();
    answered.notified().await;
    assert_eq!(calls.take(&"db"), (vec![outcome("a")], uids(&["b"])));
    assert_eq!(calls.take(&"db"), (vec![], uids(&["b"])));
}

#[tokio::test]
async fn nothing_is_kept_of_a_key_at_rest() {
    let calls = Calls::default();
    let answered = Arc::new(Notify::new());
    let told = Arc::clone(&answered);
    calls.start(&"db", ("a", "first"), ready(outcome("a")), move || told.notify_one());
    answered.notified().await;
    assert_eq!(calls.take(&"db").0.len(), 1);
    assert!(calls.keys.lock().is_empty());
}

/// Says when it is dropped.
struct Guard(Option<oneshot::Sender<()>>);

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(sender) = self.0.take() {
            sender.send(()).ok();
        }
    }
}

#[tokio::test]
async fn the_calls_of_a_key_that_is_gone_are_given_up() {
    let calls = Calls::default();
    let (sender, dropped) = oneshot::channel();
    let guard = Guard(Some(sender));
    let call = async move {
        let _guard = guard;
        pending().await
    };
    calls.start(&"db", ("a", "first"), call, || panic!());
    calls.forget(&"db");
    dropped.await.unwrap();
    assert_eq!(calls.take(&"db"), (vec![], uids(&[])));
}

/// One whose call ends in the moment in which it is forgotten does not come back.
#[tokio::test]
async fn an_outcome_for_a_key_that_is_gone_is_dropped() {
    let calls = Arc::new(Calls::default());
    let (forgetting, guard) = (Arc::clone(&calls), oneshot::channel());
    let guarded = Guard(Some(guard.0));
    let call = async move {
        let _guard = guarded;
        // Aborting a task takes effect where it waits next, and it waits for nothing any more.
        forgetting.forget(&"db");
        outcome("a")
    };
    calls.start(&"db", ("a", "first"), call, || panic!("nobody is to be woken"));
    guard.1.await.unwrap();
    while calls.tasks.lock().try_join_next().is_none() {
        tokio::task::yield_now().await;
    }
    assert!(calls.keys.lock().is_empty());
}

#[tokio::test]
async fn a_call_that_is_not_wanted_any_more_is_given_up_and_its_pod_may_be_called_again() {
    let calls = Calls::default();
    let (sender, dropped) = oneshot::channel();
    let guard = Guard(Some(sender));
    let given_up = async move {
        let _guard = guard;
        pending().await
    };
    calls.start(&"db", ("a", "prepare"), given_up, || panic!());
    calls.start(&"db", ("b", "prepare"), pending(), || panic!());
    assert!(!calls.retain(&"db", |_, _| true));
    assert!(calls.retain(&"db", |uid, what| uid != "a" || *what == "cancel"));
    assert!(!calls.retain(&"other", |_, _| false));
    dropped.await.unwrap();
    assert_eq!(calls.take(&"db"), (vec![], uids(&["b"])));
    let answered = Arc::new(Notify::new());
    let told = Arc::clone(&answered);
    calls.start(&"db", ("a", "cancel"), ready(outcome("a")), move || told.notify_one());
    answered.notified().await;
    assert_eq!(calls.take(&"db"), (vec![outcome("a")], uids(&["b"])));
}

/// One that ends in the moment in which it is given up does not count, and does not end its successor.
#[tokio::test]
async fn the_outcome_of_a_call_that_was_given_up_is_dropped() {
    let calls = Arc::new(Calls::default());
    let (giving_up, (sender, succeeded)) = (Arc::clone(&calls), oneshot::channel());
    let call = async move {
        giving_up.retain(&"db", |_, _| false);
        giving_up.start(&"db", ("a", "successor"), pending(), || panic!());
        sender.send(()).ok();
        outcome("a")
    };
    calls.start(&"db", ("a", "first"), call, || panic!("nobody is to be woken"));
    succeeded.await.unwrap();
    while calls.tasks.lock().try_join_next().is_none() {
        tokio::task::yield_now().await;
    }
    assert_eq!(calls.take(&"db"), (vec![], uids(&["a"])));
}
