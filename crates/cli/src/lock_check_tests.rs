use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::{Arguments, FRESH, check, ordinal};

/// A folder as the kubelet makes it of a ConfigMap, written so long ago.
fn mount(name: &str, keys: &[&str], age: Duration) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("sts-plus-lock-{}-{name}", std::process::id()));
    let content = folder.join("..content");
    std::fs::create_dir_all(&content).unwrap();
    for key in keys {
        std::fs::write(content.join(key), "may run").unwrap();
        std::os::unix::fs::symlink(content.join(key), folder.join(key)).unwrap();
    }
    std::fs::File::open(&content).unwrap().set_modified(SystemTime::now() - age).unwrap();
    std::os::unix::fs::symlink(&content, folder.join("..data")).unwrap();
    folder
}

fn arguments(pod: &str, keys: PathBuf) -> Arguments {
    Arguments { pod_name: Some(pod.to_owned()), keys }
}

#[test]
fn a_b9_8_an_ordinal_is_all_of_the_number_at_the_end() {
    for (pod, expected) in [
        ("web-2", Some("2")),
        ("web-12", Some("12")),
        ("a-1-10", Some("10")),
        ("web-0", Some("0")),
        ("web", None),
        ("web-", None),
        ("-1", None),
        ("web-1a", None),
        ("web-01", None),
        ("web-+1", None),
        ("web-99999999999", None),
    ] {
        assert_eq!(ordinal(pod).as_deref(), expected, "{pod}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_a_key_in_a_fresh_mount_starts_at_once() {
    let keys = mount("fresh", &["0", "1", "10"], Duration::ZERO);
    let began = tokio::time::Instant::now();
    check(&arguments("a-1-10", keys.clone())).await.unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO);
    std::fs::remove_dir_all(keys).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_key_in_an_old_mount_counts_after_a_while() {
    let keys = mount("old", &["2"], FRESH * 3);
    let began = tokio::time::Instant::now();
    check(&arguments("web-2", keys.clone())).await.unwrap();
    assert!(began.elapsed() >= super::SETTLED_AFTER);
    std::fs::remove_dir_all(keys).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_a_key_waits_until_it_has_one() {
    let keys = mount("late", &["1"], Duration::ZERO);
    let allow = async {
        tokio::time::sleep(Duration::from_hours(1)).await;
        std::fs::write(keys.join("12"), "may run").unwrap();
    };
    let late = arguments("web-12", keys.clone());
    let (checked, ()) = tokio::join!(check(&late), allow);
    checked.unwrap();
    std::fs::remove_dir_all(keys).unwrap();
}

#[tokio::test]
async fn what_is_missing_or_malformed_is_said() {
    let keys = mount("malformed", &["0"], Duration::ZERO);
    for (pod, folder, expected) in [
        (Some(""), keys.clone(), "the name of the pod is not given"),
        (None, keys.clone(), "the name of the pod is not given"),
        (Some("web"), keys.clone(), "does not end in an ordinal"),
        (Some("web-0"), keys.join("nowhere"), "mount the ConfigMap of the lock there"),
    ] {
        let arguments = Arguments { pod_name: pod.map(str::to_owned), keys: folder };
        let error = check(&arguments).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    std::fs::remove_dir_all(keys).unwrap();
}
