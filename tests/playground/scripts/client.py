"""Lists, writes and watches with the official client; says that all is well if it is."""

import sys

from kubernetes import client, config, watch

namespace = sys.argv[1]
config.load_kube_config()
core, apps = client.CoreV1Api(), client.AppsV1Api()

names = [node.metadata.name for node in core.list_node().items]
assert names == ["node-a", "node-b", "node-c"], names

labels = {"app": "py"}
body = client.V1StatefulSet(
    metadata=client.V1ObjectMeta(name="py"),
    spec=client.V1StatefulSetSpec(
        replicas=2,
        service_name="py",
        selector=client.V1LabelSelector(match_labels=labels),
        template=client.V1PodTemplateSpec(
            metadata=client.V1ObjectMeta(labels=labels),
            spec=client.V1PodSpec(containers=[client.V1Container(name="main", image="main:1")]),
        ),
    ),
)
made = apps.create_namespaced_stateful_set(namespace, body)
seen = set()
events = watch.Watch().stream(
    apps.list_namespaced_stateful_set,
    namespace,
    resource_version=made.metadata.resource_version,
    timeout_seconds=60,
)
for event in events:
    seen.add(event["type"])
    if event["object"].status.ready_replicas == 2:
        break
else:
    sys.exit("the set never became ready")
assert "MODIFIED" in seen, seen

page = core.list_namespaced_pod(namespace, limit=1)
rest = core.list_namespaced_pod(namespace, limit=1, _continue=page.metadata._continue)
assert [pod.metadata.name for pod in page.items + rest.items] == ["py-0", "py-1"]

apps.patch_namespaced_stateful_set_scale("py", namespace, {"spec": {"replicas": 1}})
assert apps.read_namespaced_stateful_set_scale("py", namespace).spec.replicas == 1
assert "starts run 1" in core.read_namespaced_pod_log("py-0", namespace)

try:
    core.read_namespaced_config_map("nobody", namespace)
except client.ApiException as refused:
    assert refused.status == 404, refused
else:
    sys.exit("there is nobody")

apps.delete_namespaced_stateful_set("py", namespace)
print("all is well")
