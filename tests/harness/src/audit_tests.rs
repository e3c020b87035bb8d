use std::{fs::OpenOptions, io::Write, path::Path};

use super::*;

fn append(log: &Path, text: &str) {
    OpenOptions::new().create(true).append(true).open(log).unwrap().write_all(text.as_bytes()).unwrap();
}

fn line(id: &str, stage: &str, code: u16) -> String {
    format!(
        r#"{{"kind":"Event","level":"Metadata","auditID":"{id}","stage":"{stage}","requestURI":"/apis/apps/v1/namespaces/a/statefulsets/s/status?x=1","verb":"patch","user":{{"username":"scenario-00","groups":["g"]}},"userAgent":"test/1","objectRef":{{"resource":"statefulsets","namespace":"a","name":"s","apiGroup":"apps","apiVersion":"v1","subresource":"status"}},"responseStatus":{{"metadata":{{}},"code":{code}}},"requestReceivedTimestamp":"2026-01-02T03:04:05.678901Z"}}"#
    ) + "\n"
}

#[test]
fn a_line_tells_who_asked_for_what() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    append(&path, &line("1", "ResponseComplete", 409));
    let entries = AuditLog::new(path).requests(|_| true).unwrap();
    assert_eq!(
        entries,
        [AuditEntry {
            verb: "patch".into(),
            group: "apps".into(),
            resource: "statefulsets".into(),
            subresource: "status".into(),
            namespace: "a".into(),
            name: "s".into(),
            code: 409,
            user: "scenario-00".into(),
            user_agent: "test/1".into(),
            timestamp: "2026-01-02T03:04:05.678901Z".parse().unwrap(),
            uri: "/apis/apps/v1/namespaces/a/statefulsets/s/status?x=1".into(),
        }]
    );
}

#[test]
fn a_watch_that_begins_and_ends_is_one_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    append(&path, &line("1", "ResponseStarted", 200));
    append(&path, &line("2", "ResponseComplete", 200));
    append(&path, &line("1", "ResponseComplete", 500));
    let entries = AuditLog::new(path).requests(|_| true).unwrap();
    assert_eq!(entries.iter().map(|entry| entry.code).collect::<Vec<_>>(), [500, 200]);
}

#[test]
fn half_a_line_is_read_when_it_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let log = AuditLog::new(path.clone());
    let text = line("2", "ResponseComplete", 200);
    let (head, tail) = text.split_at(text.len() / 2);
    append(&path, &(line("1", "ResponseComplete", 201) + head));
    assert_eq!(log.requests(|_| true).unwrap().len(), 1);
    append(&path, tail);
    assert_eq!(log.requests(|_| true).unwrap().len(), 2);
    assert_eq!(log.requests(|entry| entry.code == 201).unwrap().len(), 1);
}

#[test]
fn an_address_that_is_no_resource_has_no_object() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    append(
        &path,
        "{\"auditID\":\"1\",\"requestURI\":\"/readyz\",\"verb\":\"get\",\"user\":{\"username\":\"admin\"},\
         \"responseStatus\":{\"code\":200},\"requestReceivedTimestamp\":\"2026-01-02T03:04:05Z\"}\n",
    );
    let entries = AuditLog::new(path).requests(|_| true).unwrap();
    assert_eq!((entries[0].resource.as_str(), entries[0].uri.as_str()), ("", "/readyz"));
}
