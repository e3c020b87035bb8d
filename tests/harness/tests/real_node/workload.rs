//! What is rolled: busybox serving a file that tells its version.

use std::io;

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::ListParams};
use serde_json::{Value, json};
use sts_plus_harness::{
    Image, RealNode,
    wait::{NotYet, until},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{DEADLINE, fleet, stages::Stages};

/// The container in each pod.
pub(crate) const CONTAINER: &str = "app";
pub(crate) const PORT: u16 = 8080;

pub(crate) fn image_name(version: &str) -> String {
    format!("localhost/app:{version}")
}

pub(crate) fn image(version: &str) -> Image {
    // The first process of a container is not ended by a signal that it does not expect.
    let serve = format!("trap exit TERM; /bin/httpd -f -p {PORT} -h /www & wait");
    Image::new(&image_name(version), &["/bin/sh", "-c", &serve], &[])
        .busybox(&["sh", "httpd"])
        .unwrap()
        .file("/www/version", version)
}

/// A set whose pods are ready when they serve.
pub(crate) fn set(namespace: &str, name: &str, replicas: usize, labels: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"namespace": namespace, "name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "OnDelete"},
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{
                        "name": CONTAINER,
                        "image": image_name("v1"),
                        "imagePullPolicy": "Never",
                        "readinessProbe": {
                            "httpGet": {"path": "/version", "port": PORT},
                            "periodSeconds": 1,
                        },
                    }],
                },
            },
        },
    })
}

/// What the containers of the pods themselves say.
pub(crate) async fn versions(pods: &[Pod]) -> Vec<String> {
    let mut versions = Vec::new();
    for pod in pods {
        versions.push(fetch(pod, PORT, "/version").await.unwrap());
    }
    versions
}

/// What a pod answers over HTTP; this test is in the pods' network.
pub(crate) async fn fetch(pod: &Pod, port: u16, path: &str) -> io::Result<String> {
    let address = pod.status.as_ref().and_then(|status| status.pod_ip.as_deref()).unwrap();
    let mut stream = TcpStream::connect((address, port)).await?;
    // In version 1.0 the answer ends with the connection.
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.split(' ').nth(1) == Some("200") => Ok(body.to_owned()),
        _ => Err(io::Error::other(answer)),
    }
}

pub(crate) async fn a_set_of_real_containers(node: &RealNode) {
    let mut stages = Stages::begin("a set");
    node.control_plane().create_namespace("plain").await.unwrap();
    node.kubectl_with(&["apply", "-f", "-"], &set("plain", "web", 3, &json!({})).to_string()).await.unwrap();
    let pods = Api::<Pod>::namespaced(node.control_plane().admin(), "plain");
    let found = until(DEADLINE, "three pods Ready", || async {
        let found = pods.list(&ListParams::default()).await?.items;
        let ready = found.iter().filter(|pod| fleet::is_ready(pod)).count();
        if ready == 3 { Ok(found) } else { Err(NotYet::saw(format!("{ready} Ready of {}", found.len()))) }
    })
    .await;
    stages.end("three pods Ready");
    assert_eq!(versions(&found).await, ["v1", "v1", "v1"]);
    let logs =
        node.kubectl(&["-n", "plain", "exec", "web-0", "--", "/bin/busybox", "id", "-u"]).await.unwrap();
    assert_eq!(logs, "0\n");
    node.kubectl(&["-n", "plain", "delete", "statefulset", "web"]).await.unwrap();
    until(DEADLINE, "the pods to be gone", || async {
        let left = pods.list(&ListParams::default()).await?.items.len();
        if left == 0 { Ok(()) } else { Err(NotYet::saw(left)) }
    })
    .await;
    stages.end("deleted again");
}
