//! Services and their endpoint slices.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Strategy, meta, names};
use crate::chance;
use crate::machinery::answer::Refusal;
use crate::machinery::object::{self, fill, text};
use crate::machinery::schema::Cause;
use crate::machinery::state::State;

/// Addresses of services: 10.96.0.0/16 without its first and last.
const ADDRESSES: u64 = 65_534;

/// Seconds that a client stays with its pod: three hours.
const STICKY_SECONDS: i64 = 10_800;

pub(super) struct Services;
pub(super) struct Slices;

impl Strategy for Services {
    fn default(&self, object: &mut Value) {
        let spec = object::child(object, "spec");
        fill(spec, "type", "ClusterIP");
        fill(spec, "sessionAffinity", "None");
        if spec.get("sessionAffinity").is_some_and(|affinity| affinity == "ClientIP") {
            fill(spec, "sessionAffinityConfig", json!({ "clientIP": { "timeoutSeconds": STICKY_SECONDS } }));
        }
        let kind = spec.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        if kind != "ExternalName" {
            fill(spec, "internalTrafficPolicy", "Cluster");
        }
        if kind == "LoadBalancer" || kind == "NodePort" {
            fill(spec, "externalTrafficPolicy", "Cluster");
        }
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            let port = object::fields(port);
            fill(port, "protocol", "TCP");
            let number = port.get("port").cloned().unwrap_or_default();
            match port.get("targetPort") {
                None | Some(Value::Null) => port.insert("targetPort".into(), number),
                Some(target) if *target == json!(0) || *target == json!("") => {
                    port.insert("targetPort".into(), number)
                }
                Some(_) => None,
            };
        }
    }

    fn admit(&self, object: &mut Value, state: &State) -> Result<(), Refusal> {
        if text(object, "/spec/type") == "ExternalName" {
            return Ok(());
        }
        let place = format!("{}/{}", object::namespace(object), object::name(object));
        let spec = object::child(object, "spec");
        let mut address = spec.get("clusterIP").and_then(Value::as_str).unwrap_or_default().to_owned();
        if address.is_empty() {
            let services = state.objects("", "services", None);
            let taken: BTreeSet<&str> =
                services.iter().map(|service| text(service, "/spec/clusterIP")).collect();
            let first = chance::draw(0, &place) % ADDRESSES;
            let free = (0..ADDRESSES).map(|step| {
                let number = (first + step) % ADDRESSES + 1;
                format!("10.96.{}.{}", number / 256, number % 256)
            });
            address = free.into_iter().find(|address| !taken.contains(address.as_str())).unwrap_or_default();
        }
        spec.insert("clusterIP".into(), address.clone().into());
        fill(spec, "clusterIPs", json!([address]));
        fill(spec, "ipFamilies", json!(["IPv4"]));
        fill(spec, "ipFamilyPolicy", "SingleStack");
        fill(object::child(object, "status"), "loadBalancer", json!({}));
        Ok(())
    }

    fn prepare_update(&self, object: &mut Value, old: &Value) {
        // What a stickiness that ends was set to goes with it.
        let (now, then) =
            (object.pointer("/spec/sessionAffinityConfig"), old.pointer("/spec/sessionAffinityConfig"));
        let ends = text(object, "/spec/sessionAffinity") == "None"
            && text(old, "/spec/sessionAffinity") == "ClientIP";
        if ends && now == then {
            object::child(object, "spec").remove("sessionAffinityConfig");
        }
        // Addresses that an update leaves out stay.
        if text(object, "/spec/type") == text(old, "/spec/type") {
            for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                if let Some(value) = old.pointer(&format!("/spec/{field}")) {
                    fill(object::child(object, "spec"), field, value.clone());
                }
            }
        }
    }

    fn name_problem(&self, name: &str) -> Option<String> {
        meta::label_problem(name)
    }

    fn validate(&self, object: &Value) -> Vec<Cause> {
        let mut causes = Vec::new();
        let kind = text(object, "/spec/type");
        let ports = object::list(object, "/spec/ports");
        let headless = text(object, "/spec/clusterIP") == "None";
        if ports.is_empty() && !headless && kind != "ExternalName" {
            causes.push(Cause::required("spec.ports", ""));
        }
        let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
        causes.extend(meta::one_of(object, "/spec/type", &kinds));
        let mut names = BTreeSet::new();
        for (index, port) in ports.iter().enumerate() {
            causes.extend(port_causes(port, &format!("spec.ports[{index}]"), ports.len() > 1, &mut names));
        }
        let selector = object.pointer("/spec/selector").and_then(Value::as_object);
        causes.extend(meta::label_causes("spec.selector", selector.into_iter().flatten()));
        causes.extend(meta::one_of(object, "/spec/sessionAffinity", &["ClientIP", "None"]));
        let mut seen = BTreeSet::new();
        for (index, port) in ports.iter().enumerate() {
            let number = object::number(port, "/port").unwrap_or_default();
            let protocol = text(port, "/protocol");
            if !seen.insert((number, protocol)) {
                let shown = format!(
                    "{{\"Name\":\"\",\"Protocol\":\"{protocol}\",\"AppProtocol\":null,\"Port\":{number},\
                     \"TargetPort\":0,\"NodePort\":0}}"
                );
                let message = format!("Duplicate value: {shown}");
                let field = format!("spec.ports[{index}]");
                causes.push(Cause { field, reason: "FieldValueDuplicate", message });
            }
        }
        let address = text(object, "/spec/clusterIP");
        if kind == "ExternalName" {
            if text(object, "/spec/externalName").is_empty() {
                causes.push(Cause::required("spec.externalName", ""));
            }
        } else if !matches!(address, "" | "None") && !names::is_address(address) {
            causes.push(Cause::invalid("spec.clusterIPs[0]", &address.into(), names::ADDRESS_RULE));
        }
        causes
    }

    fn validate_update(&self, object: &Value, before: &Value) -> Vec<Cause> {
        let mut causes = self.validate(object);
        let (now, then) = (text(object, "/spec/clusterIP"), text(before, "/spec/clusterIP"));
        if now != then && !then.is_empty() && text(object, "/spec/type") != "ExternalName" {
            causes.push(Cause::invalid("spec.clusterIPs[0]", &json!([now]), "may not change once set"));
        }
        causes
    }
}

fn port_causes<'a>(
    port: &'a Value,
    at: &str,
    is_one_of_many: bool,
    names: &mut BTreeSet<&'a str>,
) -> Vec<Cause> {
    let at = |field: &str| format!("{at}.{field}");
    let mut causes = Vec::new();
    let name = text(port, "/name");
    if name.is_empty() && is_one_of_many {
        causes.push(Cause::required(at("name"), ""));
    } else if let Some(why) = meta::label_problem(name).filter(|_| !name.is_empty()) {
        causes.push(Cause::invalid(at("name"), &name.into(), &why));
    } else if !name.is_empty() && !names.insert(name) {
        causes.push(Cause::duplicate(at("name"), &name.into()));
    }
    let number = object::number(port, "/port").unwrap_or_default();
    if !(1..=names::MAX_PORT).contains(&number) {
        causes.push(Cause::invalid(at("port"), &number.into(), names::PORT_RANGE));
    }
    causes.extend(protocol_cause(port, at("protocol")));
    let target = port.get("targetPort").unwrap_or(&Value::Null);
    causes
        .extend(names::port_problems(target).iter().map(|why| Cause::invalid(at("targetPort"), target, why)));
    causes
}

fn protocol_cause(port: &Value, at: String) -> Option<Cause> {
    let (protocol, protocols) = (text(port, "/protocol"), ["SCTP", "TCP", "UDP"]);
    (!protocols.contains(&protocol)).then(|| Cause::unsupported(at, &protocol.into(), &protocols))
}

impl Strategy for Slices {
    fn default(&self, object: &mut Value) {
        for port in object.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            fill(object::fields(port), "name", "");
            fill(object::fields(port), "protocol", "TCP");
        }
    }

    fn validate(&self, object: &Value) -> Vec<Cause> {
        let mut causes: Vec<Cause> =
            meta::one_of(object, "/addressType", &["FQDN", "IPv4", "IPv6"]).into_iter().collect();
        let is_numeric = matches!(text(object, "/addressType"), "IPv4" | "IPv6");
        for (index, endpoint) in object::list(object, "/endpoints").iter().enumerate() {
            let at = format!("endpoints[{index}].addresses");
            let addresses = object::list(endpoint, "/addresses");
            if addresses.is_empty() {
                causes.push(Cause::required(at.clone(), "must contain at least 1 address"));
            }
            for (index, address) in addresses.iter().enumerate().filter(|_| is_numeric) {
                if !names::is_address(address.as_str().unwrap_or_default()) {
                    causes.push(Cause::invalid(format!("{at}[{index}]"), address, names::ADDRESS_RULE));
                }
            }
        }
        for (index, port) in object::list(object, "/ports").iter().enumerate() {
            causes.extend(protocol_cause(port, format!("ports[{index}].protocol")));
        }
        causes
    }

    fn validate_update(&self, object: &Value, before: &Value) -> Vec<Cause> {
        meta::immutable("addressType", object, before).into_iter().chain(self.validate(object)).collect()
    }
}
