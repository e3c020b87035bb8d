//! Bad values never reach the cluster, and the message says which value and why.

use crate::helm::Helm;

/// Arguments, and words that the message must hold.
const BAD: [(&[&str], &[&str]); 21] = [
    (&["--set", "replica=3"], &["replica", "additional properties"]),
    (&["--set", "image.tags=v1"], &["image", "tags", "additional properties"]),
    (&["--set", "replicas=-1"], &["replicas", "minimum", "0"]),
    (&["--set", "replicas=50"], &["replicas", "maximum", "5"]),
    (&["--set", "replicas=two"], &["replicas", "integer"]),
    (&["--set", "namespaces=blue"], &["namespaces", "array"]),
    (&["--set", "namespaces={Blue}"], &["namespaces/0", "pattern"]),
    (&["--set", "namespaces={blue,blue}"], &["namespaces", "equal"]),
    (&["--set", "controllers={rollout-grup}"], &["controllers/0", "rollout-group"]),
    (&["--set", "controllers=null"], &["controllers"]),
    (
        &["--set", "featureGates.MaxUnavailable=true"],
        &["featureGates", "MaxUnavailable", "additional properties"],
    ),
    (&["--set", "secrets.namespaces={*}"], &["secrets/namespaces/0", "pattern"]),
    (&["--set", "allowLoopback=127.0.0.1"], &["allowLoopback", "boolean"]),
    (&["--set-json", "networkPolicy.prometheusPorts=[]"], &["networkPolicy/prometheusPorts", "minItems"]),
    (&["--set", "logFormat=xml"], &["logFormat", "json", "text"]),
    (&["--set", "stableClaims.mode=Hook"], &["stableClaims/mode", "Policy", "Webhook"]),
    (&["--set", "webhook.port=443"], &["webhook/port", "minimum"]),
    (&["--set", "webhook.certificateSecret=a/b"], &["webhook/certificateSecret", "pattern"]),
    (&["--set", "serverPort=80"], &["serverPort", "minimum"]),
    (&["--set", r"podLabels.app\.kubernetes\.io/name=x"], &["podLabels", "app.kubernetes.io~1name"]),
    (&["--kube-version", "1.32.9"], &["kubeVersion", ">=1.33.0-0", "1.32.9"]),
];

pub(crate) fn bad_values_are_refused(helm: &Helm) {
    for (args, words) in BAD {
        let Err(message) = helm.template(args) else { panic!("{args:?} was accepted") };
        for word in words {
            assert!(message.contains(word), "{args:?}: {word:?} is not in:\n{message}");
        }
    }
}
