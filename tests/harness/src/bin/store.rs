//! A store for tests on a real node: it keeps records in memory, and has them on its volume once it was asked to shut down.
//!
//! | port | request | |
//! |---|---|---|
//! | 8080 | `PUT /records/ID` | keeps a record, answered with 201 |
//! | 8081 | `GET /ready` | 200 while it takes records, then 503 |
//! | 8081 | `GET /records` | what it holds in memory, an id per line |
//! | 8081 | `POST /shutdown` | takes no further record, writes those in memory to the volume, answers 200; with `exit` as its argument it then ends |
//!
//! With a number of seconds as its second argument it takes no record before that time, as a store that reads its volume first.
//!
//! A process that ends without that call loses what it holds, as a store does whose memory is its only copy.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Where records are taken, and where the store is asked about itself.
const DATA: u16 = 8080;
const ADMIN: u16 = 8081;

/// On the volume: an id per line, and for each shutdown a line with the word and its time in ms.
const FILE: &str = "/data/records";
const DRAINED: &str = "drained";

/// How long a client may take for its request.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest line of a request, in bytes, that is read.
const MAX_LINE_BYTES: u64 = 4096;

/// What is to happen after the answer to a shutdown.
const EXIT: &str = "exit";

#[derive(Default)]
struct Store {
    records: BTreeSet<String>,
    is_open: bool,
    is_drained: bool,
}

impl Store {
    fn takes_records(&self) -> bool {
        self.is_open && !self.is_drained
    }
}

type Shared = Arc<Mutex<Store>>;

fn main() -> Result<(), Box<dyn Error>> {
    let exits = std::env::args().nth(1).is_some_and(|argument| argument == EXIT);
    let opens_after = std::env::args().nth(2).map_or(Ok(0), |seconds| seconds.parse())?;
    let store = Shared::default();
    let admin = listen(ADMIN)?;
    let taking = Arc::clone(&store);
    thread::spawn(move || {
        thread::sleep(Duration::from_secs(opens_after));
        let Ok(data) = listen(DATA) else { std::process::exit(1) };
        lock(&taking).is_open = true;
        for stream in data.incoming().flatten() {
            // Nobody hears from a store that is drained: the port is closed when this ends.
            if lock(&taking).is_drained {
                return;
            }
            let store = Arc::clone(&taking);
            thread::spawn(move || take(&store, stream));
        }
    });
    for mut stream in admin.incoming().flatten() {
        // A client that goes away early is none of our business.
        if let Ok(line) = request(&stream) {
            answer(&store, &line, &mut stream, exits).ok();
        }
    }
    Ok(())
}

fn listen(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))
}

fn lock(store: &Shared) -> MutexGuard<'_, Store> {
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first line of a request. What follows is read, so that the connection is not reset.
fn request(stream: &TcpStream) -> io::Result<String> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(stream);
    let mut first = String::new();
    io::Read::take(&mut lines, MAX_LINE_BYTES).read_line(&mut first)?;
    loop {
        let mut line = String::new();
        let read = io::Read::take(&mut lines, MAX_LINE_BYTES).read_line(&mut line)?;
        if read == 0 || line.trim().is_empty() {
            return Ok(first.trim_end().to_owned());
        }
    }
}

fn say(stream: &mut TcpStream, code: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    write!(stream, "HTTP/1.1 {code}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")?;
    stream.flush()
}

/// Keeps a record. The answer is sent before anybody else has the store, so that there is none after it was drained.
fn take(store: &Shared, mut stream: TcpStream) {
    let Ok(line) = request(&stream) else { return };
    let id = line.strip_prefix("PUT /records/").and_then(|rest| rest.split(' ').next());
    let mut store = lock(store);
    if store.is_drained {
        return;
    }
    let answered = match id {
        Some(id) => {
            store.records.insert(id.to_owned());
            say(&mut stream, "201 Created", "")
        }
        None => say(&mut stream, "404 Not Found", ""),
    };
    // A record whose client has not heard of it may be kept all the same.
    answered.ok();
}

fn answer(store: &Shared, line: &str, stream: &mut TcpStream, exits: bool) -> io::Result<()> {
    let mut words = line.split(' ');
    match (words.next(), words.next()) {
        (Some("GET"), Some("/ready")) if !lock(store).takes_records() => {
            say(stream, "503 Service Unavailable", "")
        }
        (Some("GET"), Some("/ready")) => say(stream, "200 OK", ""),
        (Some("GET"), Some("/records")) => {
            let records: Vec<_> = lock(store).records.iter().cloned().collect();
            say(stream, "200 OK", &records.join("\n"))
        }
        (Some("POST"), Some("/shutdown")) => {
            drain(&mut lock(store))?;
            // Whoever waits for connections looks whether it still has to.
            TcpStream::connect((Ipv4Addr::LOCALHOST, DATA)).ok();
            say(stream, "200 OK", "flushed")?;
            if exits {
                std::process::exit(0);
            }
            Ok(())
        }
        _ => say(stream, "404 Not Found", ""),
    }
}

/// Writes what is in memory, once.
fn drain(store: &mut Store) -> io::Result<()> {
    if store.is_drained {
        return Ok(());
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let drained = format!("{DRAINED} {}", now.as_millis());
    let lines: Vec<_> = store.records.iter().map(String::as_str).chain([&*drained]).collect();
    let mut file = OpenOptions::new().create(true).append(true).open(FILE)?;
    file.write_all(format!("{}\n", lines.join("\n")).as_bytes())?;
    file.sync_all()?;
    store.is_drained = true;
    Ok(())
}
