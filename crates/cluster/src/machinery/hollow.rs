//! What cannot be asked of pods that run in name only, and what to use instead.

use super::answer::Refusal;
use super::request::ResourcePath;

/// The refusal of a request that would need a process, if it is one.
pub(crate) fn refusal(path: &ResourcePath) -> Option<Refusal> {
    let part = path.subresource.as_deref()?;
    let why = match (path.group.as_str(), path.plural.as_str(), part) {
        ("", "pods", "exec") => {
            "pods here run in name only, so no command can be run in one; use kubectl logs to see what it did and \
             kubectl annotate to change what it does"
        }
        ("", "pods", "attach") => {
            "pods here run in name only, so there is no process to attach to; use kubectl logs -f to follow what it does"
        }
        ("", "pods", "portforward") => {
            "pods here run in name only and ports are not forwarded; use the address that kubectl get pods -o wide shows"
        }
        ("", "pods" | "services" | "nodes", "proxy") => {
            "pods here run in name only and nothing is proxied; use the address that kubectl get pods -o wide shows"
        }
        ("", "pods", "ephemeralcontainers") => {
            "pods here run in name only, so there is nothing to debug inside; use kubectl logs to see what it did"
        }
        _ => return None,
    };
    Some(Refusal::bad_request(why))
}
