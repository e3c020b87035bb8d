use std::sync::Mutex;

use super::*;

#[tokio::test]
async fn those_who_wait_hear_a_stroke_in_the_order_in_which_they_came() {
    let (bell, order) = (Bell::default(), Arc::new(Mutex::new(Vec::new())));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..50 {
        let (mut ear, order) = (bell.ear(), Arc::clone(&order));
        tasks.spawn(async move {
            ear.hear().await.unwrap();
            order.lock().unwrap().push(number);
        });
    }
    tokio::task::yield_now().await;
    bell.ring();
    tasks.join_all().await;
    assert_eq!(*order.lock().unwrap(), (0..50).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_stroke_before_the_wait_is_heard_once() {
    let bell = Bell::default();
    let mut ear = bell.ear();
    bell.ring();
    bell.ring();
    ear.hear().await.unwrap();
    {
        let mut again = std::pin::pin!(ear.hear());
        assert!(futures::poll!(again.as_mut()).is_pending());
        bell.ring();
        again.await.unwrap();
    }
    bell.ring();
    ear.forget();
    assert!(futures::poll!(std::pin::pin!(ear.hear())).is_pending());
}

#[tokio::test]
async fn who_listens_to_a_bell_that_is_gone_is_told() {
    let bell = Bell::default();
    let (mut waiting, mut late) = (bell.ear(), bell.ear());
    let waits = tokio::spawn(async move { waiting.hear().await });
    tokio::task::yield_now().await;
    drop(bell);
    assert_eq!(waits.await.unwrap(), Err(Broken));
    assert_eq!(late.hear().await, Err(Broken));
}
