//! Services and their endpoint slices.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Strategy, meta};
use crate::chance;
use crate::machinery::answer::Refusal;
use crate::machinery::object::{self, fill, text};
use crate::machinery::schema::Cause;
use crate::machinery::state::State;

/// Addresses of services: 10.96.0.0/16 without its first and last.
const ADDRESSES: u64 = 65_534;

pub(super) struct Services;
pub(super) struct Slices;

impl Strategy for Services {
    fn default(&self, object: &mut Value) {
        let spec = object::child(object, "spec");
        fill(spec, "type", "ClusterIP");
        fill(spec, "sessionAffinity", "None");
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
            let at = |field: &str| format!("spec.ports[{index}].{field}");
            let number = object::number(port, "/port").unwrap_or_default();
            if !(1..=65535).contains(&number) {
                causes.push(Cause::invalid(
                    at("port"),
                    &number.into(),
                    "must be between 1 and 65535, inclusive",
                ));
            }
            let name = text(port, "/name");
            if name.is_empty() && ports.len() > 1 {
                causes.push(Cause::required(at("name"), ""));
            } else if !name.is_empty() && !names.insert(name) {
                causes.push(Cause::duplicate(at("name"), &name.into()));
            }
        }
        causes
    }

    fn validate_update(&self, object: &Value, before: &Value) -> Vec<Cause> {
        let mut causes = self.validate(object);
        let (now, then) = (text(object, "/spec/clusterIP"), text(before, "/spec/clusterIP"));
        if now != then && !then.is_empty() && text(object, "/spec/type") != "ExternalName" {
            let shown = object.pointer("/spec/clusterIPs").unwrap_or(&Value::Null);
            causes.push(Cause::invalid("spec.clusterIPs[0]", shown, "may not change once set"));
        }
        causes
    }
}

impl Strategy for Slices {
    fn validate(&self, object: &Value) -> Vec<Cause> {
        meta::one_of(object, "/addressType", &["FQDN", "IPv4", "IPv6"]).into_iter().collect()
    }

    fn validate_update(&self, object: &Value, before: &Value) -> Vec<Cause> {
        meta::immutable("addressType", object, before).into_iter().chain(self.validate(object)).collect()
    }
}
