use std::sync::{Arc, Mutex};

use http::{Request, Response, StatusCode};
use kube::client::Body;
use serde_json::json;
use tokio::task::JoinSet;

use super::*;

/// Wants each key to show a number, and asks for it to be written where it does not.
#[derive(Default)]
struct Toy {
    wanted: BTreeMap<Key, u32>,
    shown: BTreeMap<Key, u32>,
    not_before: Moment,
}

#[derive(Debug)]
enum Told {
    Want(u32, u32),
    Show(u32, u32),
    Gone(u32),
}

fn key(number: u32) -> Key {
    Key::from(number.to_string())
}

impl Keeper for Toy {
    type Input = Told;
    type Write = u32;

    fn take(&mut self, told: Told, _now: Moment) -> Vec<Key> {
        match told {
            Told::Want(number, value) => {
                self.wanted.insert(key(number), value);
                vec![key(number)]
            }
            Told::Show(number, value) => {
                self.shown.insert(key(number), value);
                vec![key(number)]
            }
            Told::Gone(number) => {
                self.wanted.remove(&key(number));
                vec![key(number)]
            }
        }
    }

    fn next(&self, key: &Key, now: Moment) -> Next<u32> {
        match self.wanted.get(key) {
            None => Next::Forget,
            Some(wanted) if self.shown.get(key) == Some(wanted) => Next::Rest,
            Some(_) if now < self.not_before => Next::Wait(self.not_before),
            Some(wanted) => Next::Write(*wanted),
        }
    }

    fn perform(&mut self, key: &Key, write: &u32, _now: Moment) -> Vec<Call> {
        vec![Call::create(format!("/toy/{key}/{write}"), json!({}))]
    }
}

/// What the API server of a test was asked, when, and what it is to answer.
#[derive(Default)]
struct Server {
    asked: Vec<(Moment, String)>,
    /// Answers to give before all others are yes.
    refusals: VecDeque<(StatusCode, serde_json::Value)>,
    open: usize,
    most_open: usize,
}

/// Time that the API server of a test takes.
const LATENCY: Duration = Duration::from_millis(10);

struct Stage {
    server: Arc<Mutex<Server>>,
    tell: mpsc::Sender<Told>,
    clock: Clock,
    _work: JoinSet<()>,
}

impl Stage {
    fn set(toy: Toy, refusals: Vec<(StatusCode, serde_json::Value)>) -> Self {
        let server = Arc::new(Mutex::new(Server { refusals: refusals.into(), ..Server::default() }));
        let clock = Clock::start();
        let answering = Arc::clone(&server);
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = Arc::clone(&answering);
            async move {
                let refusal = {
                    let mut server = server.lock().unwrap();
                    server.asked.push((clock.now(), request.uri().path().to_owned()));
                    server.open += 1;
                    server.most_open = server.most_open.max(server.open);
                    server.refusals.pop_front()
                };
                tokio::time::sleep_until(tokio::time::Instant::now() + LATENCY).await;
                server.lock().unwrap().open -= 1;
                let (code, body) = refusal.unwrap_or((StatusCode::OK, json!({})));
                Ok::<_, std::convert::Infallible>(
                    Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap(),
                )
            }
        });
        let (tell, inputs) = mpsc::channel(MAX_WAITING_EVENTS);
        let mut work = JoinSet::new();
        work.spawn(Shell::new(toy, Client::new(service, "default"), clock).run(inputs));
        Stage { server, tell, clock, _work: work }
    }

    async fn tell(&self, told: Told) {
        self.tell.send(told).await.unwrap();
    }

    /// What has been asked once this much time has passed since the start.
    async fn asked_by(&self, moment: Moment) -> Vec<(u64, String)> {
        tokio::time::sleep_until(self.clock.instant(moment)).await;
        let asked = &self.server.lock().unwrap().asked;
        asked
            .iter()
            .map(|(moment, path)| (u64::try_from(moment.as_millis()).unwrap(), path.clone()))
            .collect()
    }
}

fn paths(asked: &[(u64, String)]) -> Vec<&str> {
    asked.iter().map(|(_, path)| path.as_str()).collect()
}

fn times(asked: &[(u64, String)]) -> Vec<u64> {
    asked.iter().map(|(time, _)| *time).collect()
}

fn refusal(code: u16, details: &serde_json::Value) -> (StatusCode, serde_json::Value) {
    let status = json!({ "kind": "Status", "status": "Failure", "code": code, "reason": "x", "message": "no", "details": details });
    (StatusCode::from_u16(code).unwrap(), status)
}

const MS: fn(u64) -> Duration = Duration::from_millis;

#[tokio::test(start_paused = true)]
async fn a_write_is_not_repeated_while_its_echo_is_on_the_way() {
    let stage = Stage::set(Toy::default(), Vec::new());
    stage.tell(Told::Want(1, 7)).await;
    stage.tell(Told::Want(1, 7)).await;
    assert_eq!(paths(&stage.asked_by(MS(1_000)).await), ["/toy/1/7"]);
    // Something else about the object is seen, not yet the write.
    stage.tell(Told::Show(1, 0)).await;
    assert_eq!(stage.asked_by(MS(2_000)).await.len(), 1);
    stage.tell(Told::Show(1, 7)).await;
    stage.tell(Told::Want(1, 8)).await;
    assert_eq!(paths(&stage.asked_by(MS(3_000)).await), ["/toy/1/7", "/toy/1/8"]);
    // The echo of 8 came and somebody undid it: that is news, not a late echo.
    stage.tell(Told::Show(1, 8)).await;
    stage.asked_by(MS(3_100)).await;
    stage.tell(Told::Show(1, 7)).await;
    assert_eq!(paths(&stage.asked_by(MS(3_200)).await), ["/toy/1/7", "/toy/1/8", "/toy/1/8"]);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_never_shows_is_made_again_at_the_deadline() {
    let stage = Stage::set(Toy::default(), Vec::new());
    stage.tell(Told::Want(1, 7)).await;
    assert_eq!(times(&stage.asked_by(MS(70_000)).await), [0, 30_010, 60_020]);
}

#[tokio::test(start_paused = true)]
async fn failures_are_retried_ever_more_slowly_and_the_server_is_obeyed() {
    let refusals = vec![
        refusal(500, &json!({})),
        refusal(409, &json!({})),
        refusal(429, &json!({ "retryAfterSeconds": 2 })),
    ];
    let stage = Stage::set(Toy::default(), refusals);
    stage.tell(Told::Want(1, 7)).await;
    // Answers take 10 ms; pauses are 20 ms, 40 ms and then what the server asks for.
    assert_eq!(times(&stage.asked_by(MS(4_000)).await), [0, 30, 80, 2_090]);
    assert_eq!(retry_pause(1), RETRY_FIRST);
    assert_eq!(retry_pause(u32::MAX), RETRY_MOST);
}

#[tokio::test(start_paused = true)]
async fn what_exists_already_counts_as_created() {
    let exists = json!({ "kind": "Status", "status": "Failure", "code": 409, "reason": "AlreadyExists", "message": "there" });
    let stage = Stage::set(Toy::default(), vec![(StatusCode::CONFLICT, exists)]);
    stage.tell(Told::Want(1, 7)).await;
    assert_eq!(times(&stage.asked_by(MS(4_000)).await), [0]);
}

#[tokio::test(start_paused = true)]
async fn many_keys_are_served_within_the_limit_and_one_key_one_at_a_time() {
    let stage = Stage::set(Toy::default(), Vec::new());
    for number in 0..500 {
        stage.tell(Told::Want(number, 1)).await;
    }
    let asked = stage.asked_by(MS(1_000)).await;
    let mut distinct = paths(&asked);
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!((asked.len(), distinct.len()), (500, 500));
    assert_eq!(stage.server.lock().unwrap().most_open, MAX_WRITES_IN_FLIGHT);

    let stage = Stage::set(Toy::default(), Vec::new());
    for value in 0..8 {
        stage.asked_by(MS(3) * value).await;
        stage.tell(Told::Want(1, value)).await;
    }
    // Answers come at 10, 20 and 30 ms, and each time the newest wish is next.
    let asked = stage.asked_by(MS(1_000)).await;
    assert_eq!(paths(&asked), ["/toy/1/0", "/toy/1/3", "/toy/1/6", "/toy/1/7"]);
    assert_eq!(stage.server.lock().unwrap().most_open, 1);
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_on_time_and_gone_keys_are_not_written() {
    let stage = Stage::set(Toy { not_before: MS(250), ..Toy::default() }, Vec::new());
    stage.tell(Told::Want(1, 7)).await;
    stage.tell(Told::Want(2, 7)).await;
    stage.tell(Told::Gone(2)).await;
    assert_eq!(stage.asked_by(MS(1_000)).await, [(250, "/toy/1/7".to_owned())]);
}
