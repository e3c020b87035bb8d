//! What a spec asks for, parsed once: from here on nothing about it can be wrong.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use sts_plus_api::extended::{IntOrString, Scheme};
use sts_plus_api::scaling_policy::{
    self as api, Claims, Fence, HttpHook as ApiHttp, ScaleDown, ScalingPolicySpec, TargetRef,
};

use super::hook::{CancelCall, Hook, HookKind, HttpHook, StatusCall};
use crate::phased_rollout::policy::Fault;
use crate::remedy::sizes::Size;
use crate::revision::fnv64;

/// The greatest number of pods that a policy may ask for: a status and an annotation name some of them, and a number typed with
/// a digit too many must not be tried.
pub const MAX_REPLICAS: u32 = 10_000;

/// A spec without faults.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// The number of pods; `None` until it was taken from the set.
    pub replicas: Option<u32>,
    pub paused: bool,
    /// How many pods may leave at the same time.
    pub max_concurrent: u32,
    /// Whether pods that leave are kept from coming back by a lock.
    pub lock: bool,
    /// Whether the claims of a drained pod are deleted.
    pub deletes_claims: bool,
    /// The hook of pods that leave.
    pub down: Option<Arc<Hook>>,
    /// The hook of pods that join.
    pub up: Option<Arc<Hook>>,
    /// The sizes of claims, each by another claim template.
    pub volume_claims: Vec<Size>,
}

/// What is found to be wrong, field by field.
struct Faults(Vec<Fault>);

impl Faults {
    fn must(&mut self, wrong: bool, field: &str, must: &'static str) {
        if wrong {
            self.0.push(Fault::Field { field: field.to_owned(), must });
        }
    }
}

impl Policy {
    /// Parses a spec, or says all that is wrong with it.
    pub fn parse(spec: &ScalingPolicySpec) -> Result<Self, Vec<Fault>> {
        let mut faults = Faults(Vec::new());
        let target = &spec.target_ref;
        let is_set = target.api_version == TargetRef::API_VERSION && target.kind == TargetRef::KIND;
        faults.must(!is_set || target.name.is_empty(), "targetRef", "name a StatefulSet of apps/v1");
        let replicas = spec.replicas.map(u32::try_from);
        let is_wrong =
            replicas.is_some_and(|replicas| replicas.is_ok_and(|n| n > MAX_REPLICAS) || replicas.is_err());
        faults.must(is_wrong, "replicas", "be from 0 to 10000");
        let most = spec.scale_down.max_concurrent;
        let range = 1..=ScaleDown::MAX_CONCURRENT;
        faults.must(!range.contains(&most), "scaleDown.maxConcurrent", "be from 1 to 100");
        let down = spec.scale_down.hook.as_ref().and_then(|it| hook("scaleDown.hook", it, &mut faults));
        let up = spec.scale_up.hook.as_ref().and_then(|it| hook("scaleUp.hook", it, &mut faults));
        let lock = spec.scale_down.fence == Fence::Lock;
        let deletes_claims = spec.scale_down.claims == Claims::DeleteAfterDrain;
        let exits = |hook: Option<&api::Hook>| hook.is_some_and(|hook| hook.expect_exit);
        let is_wrong = exits(spec.scale_down.hook.as_ref()) && !lock;
        faults.must(is_wrong, "scaleDown.hook.expectExit", "be false without fence Lock");
        faults.must(exits(spec.scale_up.hook.as_ref()), "scaleUp.hook.expectExit", "be false");
        let is_wrong = deletes_claims && spec.scale_down.hook.is_none();
        faults.must(is_wrong, "scaleDown.claims", "be Retain without a hook");
        let volume_claims = volume_claims(spec, &mut faults);
        if !faults.0.is_empty() {
            return Err(faults.0);
        }
        Ok(Self {
            volume_claims,
            lock,
            deletes_claims,
            replicas: replicas.and_then(Result::ok),
            paused: spec.paused,
            max_concurrent: u32::try_from(most).unwrap_or(1),
            down,
            up,
        })
    }
}

/// A set has few claim templates, and each size may mean a read for each of its pods.
const MAX_VOLUME_CLAIMS: usize = 64;

fn volume_claims(spec: &ScalingPolicySpec, faults: &mut Faults) -> Vec<Size> {
    let given = &spec.volume_claims;
    faults.must(given.len() > MAX_VOLUME_CLAIMS, "volumeClaims", "have at most 64 entries");
    let sizes: Vec<_> = given.iter().filter_map(|claim| Size::parse(&claim.name, &claim.storage)).collect();
    let is_wrong = sizes.len() != given.len();
    faults.must(is_wrong, "volumeClaims", "have a name and a storage above 0, such as 20Gi, in each entry");
    let is_twice = |size: &Size| sizes.iter().filter(|other| other.claim == size.claim).count() > 1;
    faults.must(sizes.iter().any(is_twice), "volumeClaims", "have each name once");
    sizes
}

fn hook(field: &str, hook: &api::Hook, faults: &mut Faults) -> Option<Arc<Hook>> {
    let timeout = hook.timeout_seconds;
    let range = 1..=api::Hook::MAX_TIMEOUT_SECONDS;
    faults.must(!range.contains(&timeout), &format!("{field}.timeoutSeconds"), "be from 1 to 60");
    faults.must(hook.deadline_seconds < 1, &format!("{field}.deadlineSeconds"), "be at least 1");
    let kind = match (&hook.http, &hook.named) {
        (Some(request), None) => HookKind::Http(Box::new(http(&format!("{field}.http"), request, faults)?)),
        (None, Some(name)) if !name.is_empty() => HookKind::Named(name.as_str().into()),
        _ => {
            faults.must(true, field, "have exactly one of http and named");
            return None;
        }
    };
    let called = serde_json::to_vec(&(&hook.http, &hook.named)).unwrap_or_default();
    Some(Arc::new(Hook {
        kind,
        timeout: Duration::from_secs(u64::try_from(timeout).unwrap_or(1)),
        deadline: SignedDuration::from_secs(i64::from(hook.deadline_seconds)),
        on_failure: hook.on_failure,
        expect_exit: hook.expect_exit,
        hash: fnv64(&called).into(),
    }))
}

fn http(field: &str, http: &ApiHttp, faults: &mut Faults) -> Option<HttpHook> {
    let before = faults.0.len();
    let status = http.status.as_ref();
    let cancel = http.cancel.as_ref();
    let paths = [
        ("path", Some(&http.path)),
        ("status.path", status.map(|status| &status.path)),
        ("cancel.path", cancel.map(|cancel| &cancel.path)),
    ];
    for (name, path) in paths {
        let is_wrong = path.is_some_and(|path| !is_path(path));
        faults.must(
            is_wrong,
            &format!("{field}.{name}"),
            "begin with a slash and consist of characters of a URL",
        );
    }
    for (name, method) in [("method", Some(&http.method)), ("cancel.method", cancel.map(|it| &it.method))] {
        let is_wrong = method.is_some_and(|method| !ApiHttp::METHODS.contains(&method.as_str()));
        faults.must(is_wrong, &format!("{field}.{name}"), "be GET, POST, PUT, PATCH or DELETE");
    }
    let is_port = match &http.port {
        IntOrString::Int(number) => (1..=i64::from(u16::MAX)).contains(number),
        IntOrString::String(name) => (1..=63).contains(&name.len()),
    };
    faults.must(!is_port, &format!("{field}.port"), "be a number from 1 to 65535, or the name of a port");
    let is_tls_in_vain = http.tls.is_some() && http.scheme != Scheme::Https;
    faults.must(is_tls_in_vain, &format!("{field}.tls"), "be absent unless the scheme is HTTPS");
    let has_header = http.headers.iter().any(|header| header.name.eq_ignore_ascii_case("authorization"));
    let is_twice = has_header && http.authorization.is_some();
    faults.must(is_twice, &format!("{field}.authorization"), "be absent with a header Authorization");
    let is_half = status.is_some_and(|status| status.json_pointer.is_some() != status.equals.is_some());
    faults.must(is_half, &format!("{field}.status"), "have jsonPointer and equals, or neither");
    let success = codes(&format!("{field}.successCodes"), &http.success_codes, faults);
    let polled = status.map(|status| StatusCall {
        path: status.path.as_str().into(),
        codes: codes(&format!("{field}.status.codes"), &status.codes, faults),
        pointer: status.json_pointer.as_deref().map(Into::into),
        equals: status.equals.clone(),
    });
    (faults.0.len() == before).then(|| HttpHook {
        method: http.method.as_str().into(),
        path: http.path.as_str().into(),
        port: http.port.clone(),
        scheme: http.scheme,
        headers: http.headers.clone(),
        authorization: http.authorization.clone(),
        tls: http.tls.clone(),
        success,
        status: polled,
        cancel: cancel
            .map(|it| CancelCall { method: it.method.as_str().into(), path: it.path.as_str().into() }),
    })
}

/// Whether a text is a path with or without a query, in which nothing ends the request line or begins a fragment.
fn is_path(path: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._~!$&'()*+,;=:@%/?-".contains(c);
    path.starts_with('/') && path.chars().all(is_allowed)
}

fn codes(field: &str, codes: &[i32], faults: &mut Faults) -> Vec<u16> {
    let is_code = |code: &i32| (100..=599).contains(code);
    faults.must(codes.is_empty() || !codes.iter().all(is_code), field, "be status codes from 100 to 599");
    codes.iter().filter_map(|code| u16::try_from(*code).ok()).collect()
}
