//! How objects are followed, on an API server that has one of them.

use std::collections::BTreeMap;
use std::convert::Infallible;

use futures::StreamExt;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::shell::metrics::Metrics;

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

fn whole(code: u16, body: &Value) -> Answer {
    let body = Full::new(Bytes::from(body.to_string())).boxed_unsync();
    Response::builder().status(code).body(body).unwrap()
}

/// What an API server answers to lists and watches of one namespace.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<Script>>);

#[derive(Default)]
struct Script {
    /// The data of each object.
    objects: BTreeMap<String, Value>,
    version: u64,
    /// What was asked, as `list secrets name` or `watch secrets name from version`.
    asked: Vec<String>,
    watches: Vec<UnboundedSender<Bytes>>,
    /// What lists and watches are refused with.
    list_refused: Option<u16>,
    watch_refused: Option<u16>,
    /// Whether watches end at once.
    watches_end: bool,
}

impl Server {
    fn with(self, name: &str, data: Value) -> Self {
        self.0.lock().objects.insert(name.to_owned(), data);
        self
    }

    /// Changes the data of an object, or nothing but its metadata.
    fn change(&self, name: &str, data: &Value) {
        self.0.lock().objects.insert(name.to_owned(), data.clone());
        self.send("MODIFIED", data);
    }

    /// Tells all watches.
    fn send(&self, kind: &str, data: &Value) {
        let mut script = self.0.lock();
        script.version += 1;
        let object = json!({ "metadata": { "resourceVersion": script.version.to_string() }, "data": data });
        let line = format!("{}\n", json!({ "type": kind, "object": object }));
        script.watches.retain(|watch| watch.unbounded_send(line.clone().into()).is_ok());
    }

    fn end_watches(&self) {
        self.0.lock().watches.clear();
    }

    fn open_watches(&self) -> usize {
        let mut script = self.0.lock();
        script.watches.retain(|watch| !watch.is_closed());
        script.watches.len()
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().asked)
    }

    fn answer(&self, request: &Request<Body>) -> Answer {
        let mut script = self.0.lock();
        let query = request.uri().query().unwrap_or_default();
        let value = |key: &str| query.split('&').find_map(|part| part.strip_prefix(key)?.strip_prefix('='));
        let name = value("fieldSelector").and_then(|selector| selector.strip_prefix("metadata.name%3D"));
        let name = name.expect("nothing is listed but by name").to_owned();
        let resource = request.uri().path().strip_prefix("/api/v1/namespaces/shop/").unwrap().to_owned();
        let refused = |code: u16| {
            let message =
                format!("{resource} is forbidden: User \"u\" cannot do it to resource \"{resource}\"");
            whole(code, &json!({ "kind": "Status", "message": message }))
        };
        if value("watch").is_none() {
            script.asked.push(format!("list {resource} {name}"));
            if let Some(code) = script.list_refused {
                return refused(code);
            }
            let item = script.objects.get(&name).map(|data| json!({ "data": data }));
            let version = script.version.to_string();
            let list = json!({ "metadata": { "resourceVersion": version }, "items": item.as_slice() });
            return whole(200, &list);
        }
        script.asked.push(format!("watch {resource} {name} from {}", value("resourceVersion").unwrap()));
        if let Some(code) = script.watch_refused {
            return refused(code);
        }
        let (sender, lines) = unbounded();
        if !script.watches_end {
            script.watches.push(sender);
        }
        let frames = lines.map(|line| Ok::<_, Infallible>(Frame::data(line)));
        Response::new(StreamBody::new(frames).boxed_unsync())
    }

    fn api(&self) -> Api {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let answer = server.answer(&request);
            async move { Ok::<_, Infallible>(answer) }
        });
        Api::new(kube::Client::new(service, "shop"), Metrics::new())
    }
}

/// Keys that follow objects of a server, and who was woken.
struct Followers {
    digests: Digests<usize>,
    server: Server,
    woken: Arc<Mutex<Vec<usize>>>,
}

impl Followers {
    fn of(server: Server) -> Self {
        Self { digests: Digests::default(), server, woken: Arc::default() }
    }

    fn follow(&self, key: usize, names: &[&str]) {
        let objects = names.iter().map(|name| secret(name)).collect();
        let woken = Arc::clone(&self.woken);
        self.digests.follow(&key, &objects, &self.server.api(), &move |key| woken.lock().push(key));
    }

    /// Lets some time pass; who was woken in it, in order.
    async fn after(&self, passed: Duration) -> Vec<usize> {
        tokio::time::sleep(passed).await;
        let mut woken = std::mem::take(&mut *self.woken.lock());
        woken.sort_unstable();
        woken
    }

    fn known(&self, key: usize, name: &str) -> Digest {
        self.digests.known(&key).remove(&secret(name)).unwrap()
    }
}

const MOMENT: Duration = Duration::from_secs(1);

fn secret(name: &str) -> Object {
    Object { kind: Kind::Secret, namespace: "shop".into(), name: name.into() }
}

fn digest_of(data: &Value) -> Digest {
    Digest::Known(serde_json::from_value::<Config>(json!({ "data": data })).unwrap().digest().into())
}

fn old() -> Value {
    json!({ "password": "b2xk" })
}

fn new() -> Value {
    json!({ "password": "bmV3" })
}

#[tokio::test(start_paused = true)]
async fn d_f4_a_secret_that_200_keys_follow_is_one_watch_by_name_and_its_change_wakes_each_once() {
    let followers = Followers::of(Server::default().with("db", old()));
    let all: Vec<_> = (0..200).collect();
    for key in &all {
        followers.follow(*key, &["db"]);
    }
    assert_eq!(followers.known(7, "db"), Digest::Unknown);
    assert_eq!(followers.after(MOMENT).await, all);
    assert_eq!(followers.server.asked(), ["list secrets db", "watch secrets db from 0"]);
    assert_eq!(followers.known(7, "db"), digest_of(&old()));
    followers.server.change("db", &new());
    assert_eq!(followers.after(MOMENT).await, all);
    assert_eq!(followers.known(7, "db"), digest_of(&new()));
    // What each of them asks for again is followed already.
    for key in &all {
        followers.follow(*key, &["db"]);
    }
    followers.follow(200, &["db"]);
    assert_eq!(followers.after(MOMENT).await, [200]);
    assert_eq!(followers.server.asked(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn d_f11_neither_metadata_nor_a_renewed_watch_wakes_anybody() {
    let followers = Followers::of(Server::default().with("db", old()));
    followers.follow(0, &["db"]);
    followers.after(MOMENT).await;
    followers.server.asked();
    followers.server.change("db", &old());
    followers.server.send("BOOKMARK", &Value::Null);
    assert_eq!(followers.after(RECOVERED_AFTER).await, [0; 0]);
    followers.server.end_watches();
    assert_eq!(followers.after(MOMENT).await, [0; 0]);
    assert_eq!(followers.server.asked(), ["watch secrets db from 2"]);
    // What the server sends once more is no change.
    followers.server.send("ADDED", &old());
    assert_eq!(followers.after(MOMENT).await, [0; 0]);
}

#[tokio::test(start_paused = true)]
async fn d_f10_what_has_changed_while_a_version_was_compacted_is_listed() {
    let server = Server::default().with("db", old());
    let followers = Followers::of(server.clone());
    followers.follow(0, &["db"]);
    followers.after(RECOVERED_AFTER).await;
    let expire = || {
        let status = json!({ "type": "ERROR", "object": { "kind": "Status", "code": 410 } });
        let line = Bytes::from(format!("{status}\n"));
        server.0.lock().watches.iter().for_each(|watch| drop(watch.unbounded_send(line.clone())));
    };
    server.asked();
    expire();
    assert_eq!(followers.after(RECOVERED_AFTER).await, [0; 0]);
    assert_eq!(server.asked(), ["list secrets db", "watch secrets db from 0"]);
    server.0.lock().objects.insert("db".to_owned(), new());
    expire();
    assert_eq!(followers.after(MOMENT).await, [0]);
    assert_eq!(followers.known(0, "db"), digest_of(&new()));
}

#[tokio::test(start_paused = true)]
async fn d_f14_an_object_that_is_deleted_and_created_again_is_the_same_with_the_same_data() {
    let followers = Followers::of(Server::default());
    followers.follow(0, &["db"]);
    assert_eq!(followers.after(MOMENT).await, [0]);
    assert_eq!(followers.known(0, "db"), Digest::Absent);
    followers.server.send("ADDED", &old());
    assert_eq!(followers.after(MOMENT).await, [0]);
    let before = followers.known(0, "db");
    followers.server.send("DELETED", &old());
    assert_eq!(followers.after(MOMENT).await, [0]);
    assert_eq!(followers.known(0, "db"), Digest::Absent);
    followers.server.send("ADDED", &old());
    assert_eq!(followers.after(MOMENT).await, [0]);
    assert_eq!(followers.known(0, "db"), before);
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_may_not_be_read_is_reported_and_asked_for_rarely() {
    let followers = Followers::of(Server::default().with("db", old()));
    followers.server.0.lock().list_refused = Some(403);
    followers.follow(0, &["db"]);
    assert_eq!(followers.after(Duration::from_hours(1)).await, [0]);
    let Digest::Unreadable(why) = followers.known(0, "db") else { panic!("{:?}", followers.known(0, "db")) };
    assert!(why.contains("secrets.namespaces"), "{why}");
    let asked = followers.server.asked();
    assert!((20..100).contains(&asked.len()), "{}", asked.len());
    followers.server.0.lock().list_refused = None;
    assert_eq!(followers.after(Duration::from_mins(3)).await, [0]);
    assert_eq!(followers.known(0, "db"), digest_of(&old()));
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_has_not_read_its_roles_yet_changes_nothing() {
    let followers = Followers::of(Server::default().with("db", old()));
    followers.follow(0, &["db"]);
    followers.after(RECOVERED_AFTER).await;
    for code in [403, 500] {
        followers.server.0.lock().list_refused = Some(code);
        followers.server.0.lock().watch_refused = Some(code);
        followers.server.end_watches();
        assert_eq!(followers.after(MOMENT).await, [0; 0]);
        followers.server.0.lock().list_refused = None;
        followers.server.0.lock().watch_refused = None;
        assert_eq!(followers.after(RECOVERED_AFTER * 2).await, [0; 0]);
        assert_eq!(followers.server.open_watches(), 1);
    }
    followers.server.0.lock().list_refused = Some(403);
    followers.server.0.lock().watch_refused = Some(403);
    followers.server.end_watches();
    assert_eq!(followers.after(RECOVERED_AFTER).await, [0], "a right that was taken away");
}

#[tokio::test(start_paused = true)]
async fn where_only_lists_are_granted_what_is_known_follows_them() {
    let followers = Followers::of(Server::default().with("db", old()));
    followers.server.0.lock().watch_refused = Some(403);
    followers.follow(0, &["db"]);
    assert_eq!(followers.after(Duration::from_hours(1)).await, [0]);
    let asked = followers.server.asked();
    assert!((40..200).contains(&asked.len()), "{}", asked.len());
    followers.server.change("db", &new());
    assert_eq!(followers.after(Duration::from_mins(3)).await, [0]);
    assert_eq!(followers.known(0, "db"), digest_of(&new()));
}

#[tokio::test(start_paused = true)]
async fn watches_that_end_at_once_are_opened_ever_more_rarely() {
    let followers = Followers::of(Server::default().with("db", old()));
    followers.server.0.lock().watches_end = true;
    followers.follow(0, &["db"]);
    assert_eq!(followers.after(Duration::from_hours(1)).await, [0]);
    let asked = followers.server.asked();
    assert!(asked.len() < 500, "{}", asked.len());
}

#[tokio::test(start_paused = true)]
async fn what_nobody_asks_for_any_more_is_not_followed() {
    let followers = Followers::of(Server::default().with("db", old()).with("tls", old()));
    followers.follow(0, &["db", "tls"]);
    followers.follow(1, &["db"]);
    followers.after(MOMENT).await;
    assert_eq!(followers.server.open_watches(), 2);
    followers.follow(0, &["db"]);
    followers.after(MOMENT).await;
    assert_eq!(followers.server.open_watches(), 1);
    followers.digests.forget(&0);
    followers.after(MOMENT).await;
    assert_eq!(followers.server.open_watches(), 1);
    followers.server.change("db", &new());
    assert_eq!(followers.after(MOMENT).await, [1]);
    followers.follow(1, &[]);
    followers.after(MOMENT).await;
    assert_eq!(followers.server.open_watches(), 0);
    let state = followers.digests.state.lock();
    assert!(state.objects.is_empty() && state.keys.is_empty());
}

#[tokio::test(start_paused = true)]
async fn objects_beyond_the_limit_are_reported() {
    let followers = Followers::of(Server::default());
    let names: Vec<_> = (0..MAX_PER_KEY + 2).map(|number| format!("s{number:03}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    followers.follow(0, &names);
    assert_eq!(followers.after(MOMENT).await.len(), MAX_PER_KEY + 1);
    assert_eq!(followers.server.open_watches(), MAX_PER_KEY);
    let Digest::Unreadable(why) = followers.known(0, names[MAX_PER_KEY]) else { panic!() };
    assert_eq!(&*why, "the pod template refers to 66 ConfigMaps and Secrets, and at most 64 are followed");
    followers.follow(0, &names);
    assert_eq!(followers.after(MOMENT).await, [0; 0], "nothing is new");
    followers.follow(0, &names[2..]);
    followers.after(MOMENT).await;
    assert_eq!(followers.known(0, names[MAX_PER_KEY]), Digest::Absent);
}

/// The API server writes six bytes for each of these characters.
#[tokio::test(start_paused = true)]
async fn the_largest_object_that_etcd_takes_is_read() {
    let data = json!({ "page": "<".repeat(1_500_000 * 6) });
    let followers = Followers::of(Server::default().with("db", data.clone()));
    followers.follow(0, &["db"]);
    followers.after(MOMENT).await;
    assert_eq!(followers.known(0, "db"), digest_of(&data));
}
