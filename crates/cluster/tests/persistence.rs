//! A cluster in a file, whose process is killed at any moment: it comes back with every write that it has answered.

#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test, which clippy recognises by an attribute that this kind does not have"
)]

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::json;
use sts_plus_cluster::Clock;
use sts_plus_cluster::machinery::service::{Server, Settings};

/// Where the process that is to be killed finds its file.
const FILE: &str = "STS_PLUS_TEST_CLUSTER_FILE";
/// Whether there is little room for that file.
const ROOM: &str = "STS_PLUS_TEST_LITTLE_ROOM";
/// Room that is left, in blocks of 512 bytes, or 1024 in some shells. A file that was closed has shrunk to 48 KiB and grows
/// again by doubling, to 304 KiB first: with less room than that not even the first object could be written. These 4 or 8 MiB
/// hold some objects and not all of them, which are 20 MB together.
const ROOM_BLOCKS: u64 = 8192;
/// Bytes of each object that fills it, and how many there are.
const LARGE: usize = 100_000;
const MANY: usize = 200;
/// How often it is killed.
const KILLS: usize = 12;
/// Writers that it has, each with its own objects.
const WRITERS: usize = 4;
/// Objects of each.
const OBJECTS: usize = 5;
/// What is told of an object that was deleted.
const GONE: &str = "gone";

fn main() -> ExitCode {
    if let Some(file) = env::var_os(FILE) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            if env::var(ROOM).is_ok() {
                fill(Path::new(&file)).await;
            } else {
                write(Path::new(&file)).await;
            }
        });
        return ExitCode::SUCCESS;
    }
    let arguments = Arguments::from_args();
    let trials = vec![
        Trial::test("killed_at_any_moment_it_comes_back_with_every_answered_write", killed),
        Trial::test("without_room_writes_are_refused_and_reads_go_on", without_room),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn open(file: &Path) -> Api<ConfigMap> {
    let server = Server::open(Settings::new(Clock::at(jiff::Timestamp::now())), file).unwrap();
    Api::default_namespaced(Client::new(server, "default"))
}

/// Writes without end and tells of each write that was answered: the name, and what it is or that it is gone.
async fn write(file: &Path) {
    let maps = open(file);
    let writers = (0..WRITERS).map(|writer| {
        let maps = maps.clone();
        tokio::spawn(async move {
            for round in 0_u64.. {
                let name = format!("map-{writer}-{}", round % OBJECTS as u64);
                let stamp = format!("{}-{round}", std::process::id());
                let (patch, params) = (json!({ "data": { "stamp": stamp } }), PatchParams::default());
                let said = match maps.get_opt(&name).await.unwrap() {
                    None => {
                        let map = json!({ "metadata": { "name": name }, "data": { "stamp": stamp } });
                        let map = serde_json::from_value(map).unwrap();
                        maps.create(&PostParams::default(), &map).await.unwrap();
                        stamp
                    }
                    Some(_) if round % 7 == 0 => {
                        maps.delete(&name, &DeleteParams::default()).await.unwrap();
                        GONE.to_owned()
                    }
                    Some(_) => {
                        maps.patch(&name, &params, &Patch::Merge(patch)).await.unwrap();
                        stamp
                    }
                };
                let mut out = std::io::stdout().lock();
                writeln!(out, "{name} {said}").unwrap();
                out.flush().unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
}

fn stamp(map: &ConfigMap) -> String {
    map.data.as_ref().and_then(|data| data.get("stamp")).cloned().unwrap_or_default()
}

fn killed() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("cluster.redb");
    let mut told: BTreeMap<String, String> = BTreeMap::new();
    for kill in 0..KILLS {
        let mut child = Command::new(env::current_exe()?).env(FILE, &file).stdout(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        // Now sooner, now later: also before the first answer, while it opens the file.
        for line in lines.by_ref().take(kill * kill * 3) {
            let line = line?;
            let (name, said) = line.split_once(' ').ok_or("a line without a word")?;
            told.insert(name.to_owned(), said.to_owned());
        }
        child.kill()?;
        // What was told before it died counts too.
        for line in lines {
            let line = line?;
            if let Some((name, said)) = line.split_once(' ') {
                told.insert(name.to_owned(), said.to_owned());
            }
        }
        child.wait()?;
        // What nobody was told of and is there all the same has to stay from now on.
        let runtime = tokio::runtime::Runtime::new()?;
        let found = runtime.block_on(look(&file, &told, kill))?;
        // A client's server lives in a task; only with the runtime is the file certainly closed before the next one opens it.
        drop(runtime);
        for (name, said) in &mut told {
            *said = found.get(name).cloned().unwrap_or_else(|| GONE.to_owned());
        }
    }
    Ok(())
}

/// Each writer has one write at most that nobody was told of.
async fn look(
    file: &Path,
    told: &BTreeMap<String, String>,
    kill: usize,
) -> Result<BTreeMap<String, String>, Failed> {
    let maps = open(file);
    let listed = maps.list(&ListParams::default()).await?;
    let found: BTreeMap<String, String> = listed.iter().map(|map| (map.name_any(), stamp(map))).collect();
    let round = |stamp: &str| -> Option<(u64, u64)> {
        let (process, round) = stamp.split_once('-')?;
        Some((process.parse().ok()?, round.parse().ok()?))
    };
    for writer in 0..WRITERS {
        let theirs = format!("map-{writer}-");
        let mut untold = 0;
        for (name, said) in told.iter().filter(|(name, _)| name.starts_with(&theirs)) {
            let is = found.get(name).map_or(GONE, String::as_str);
            if is != said {
                untold += 1;
                let later = match (round(said), round(is)) {
                    (Some((before, said)), Some((after, is))) => before != after || is > said,
                    _ => true,
                };
                if !later {
                    return Err(format!("kill {kill}: {name} is {is}, although {said} was answered").into());
                }
            }
        }
        if untold > 1 {
            return Err(
                format!("kill {kill}: {untold} objects of writer {writer} are not as answered").into()
            );
        }
    }
    Ok(found)
}

/// Writes until there is no room, and tells what was answered and what comes after that.
async fn fill(file: &Path) {
    let maps = open(file);
    for number in 0..MANY {
        let name = format!("large-{number}");
        // Nothing that could be packed.
        let text: String = (0..LARGE).map(|at| char::from(b'a' + ((at * at + number) % 26) as u8)).collect();
        let map = json!({ "metadata": { "name": name }, "data": { "text": text } });
        let map = serde_json::from_value(map).unwrap();
        match maps.create(&PostParams::default(), &map).await {
            Ok(_) => println!("answered {name}"),
            Err(error) => {
                println!("refused {error}");
                break;
            }
        }
    }
    let listed = maps.list(&ListParams::default()).await.unwrap();
    println!("read {}", listed.items.len());
    let patch = Patch::Merge(json!({ "data": { "more": "1" } }));
    let again = maps.patch("large-0", &PatchParams::default(), &patch).await;
    println!("again {}", again.unwrap_err());
}

fn without_room() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("cluster.redb");
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async { drop(open(&file)) });
    // As above: the child needs the file.
    drop(runtime);
    let blocks = std::fs::metadata(&file)?.len() / 512 + ROOM_BLOCKS;
    let script = format!(r#"trap "" XFSZ; ulimit -f {blocks}; exec "$0""#);
    let mut child = Command::new("sh");
    child.arg("-c").arg(script).arg(env::current_exe()?).env(FILE, &file).env(ROOM, "1");
    let output = child.output()?;
    let said = String::from_utf8(output.stdout)?;
    let told =
        |word: &str| -> Vec<&str> { said.lines().filter_map(|line| line.strip_prefix(word)).collect() };
    let problem = |what: &str| Failed::from(format!("{what}:\n{said}"));
    for word in ["refused ", "again "] {
        let refusals = told(word);
        if !matches!(refusals[..], [only] if only.contains("cannot write to the data file")) {
            return Err(problem("no refusal that says why"));
        }
    }
    let answered = told("answered ");
    if answered.is_empty() || told("read ").is_empty() {
        return Err(problem("it neither wrote nor read"));
    }
    let runtime = tokio::runtime::Runtime::new()?;
    let maps = runtime.block_on(async { open(&file) });
    for name in answered {
        runtime.block_on(maps.get(name))?;
    }
    Ok(())
}
