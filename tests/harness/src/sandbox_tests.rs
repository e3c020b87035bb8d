use super::{SandboxError, supported, try_namespaces};

#[test]
fn what_a_sandbox_lacks_is_named() {
    let Err(SandboxError::Unsupported(reason)) = try_namespaces(&["no-such-program"]) else {
        panic!("it ran");
    };
    // Without the right to make namespaces it is unshare itself that fails.
    let named = if supported().is_ok() { "no-such-program" } else { "unshare" };
    assert!(reason.contains(named), "{reason}");
}
