//! Creating and changing objects, as one pipeline: decode, own, prepare, default, admit, judge, store.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};

use super::answer::Refusal;
use super::apply::{self, Manager, Operation};
use super::decode::{self, PatchKind};
use super::draft::Draft;
use super::go;
use super::json::Document;
use super::object::{self, keep};
use super::patch;
use super::read::parse_version;
use super::request::Request;
use super::schema::Cause;
use super::show;
use super::state::State;
use super::store::Key;
use super::stored::Stored;
use crate::kinds::{Kind, Version, meta};

pub(crate) use super::draft::{amend, introduce};

/// A write as it was asked for.
pub(crate) struct WriteRequest<'a> {
    pub(crate) request: &'a Request,
    pub(crate) kind: &'a Arc<Kind>,
    pub(crate) version: &'a Version,
    pub(crate) body: &'a [u8],
}

impl WriteRequest<'_> {
    pub(super) fn namespace(&self) -> &str {
        self.request.path.namespace.as_deref().unwrap_or_default()
    }

    fn is_status(&self) -> bool {
        self.request.path.subresource.as_deref() == Some("status")
    }

    pub(super) fn api_version(&self) -> String {
        self.kind.api_version(&self.version.name)
    }

    pub(super) fn manager(&self, operation: Operation) -> Manager {
        Manager {
            name: self.request.manager(),
            operation,
            api_version: self.api_version(),
            subresource: self.request.path.subresource.clone(),
            resets: match (self.is_status(), self.version.status) {
                (true, _) => self.kind.strategy.status_resets(),
                (false, true) => &["status"],
                (false, false) => &[],
            },
        }
    }

    /// The options of the request, as webhooks see them.
    fn options(&self, is_create: bool, dry_run: bool) -> Value {
        let kind = if is_create { "CreateOptions" } else { "UpdateOptions" };
        let mut options = json!({ "kind": kind, "apiVersion": "meta.k8s.io/v1" });
        let fields = object::fields(&mut options);
        for field in ["fieldManager", "fieldValidation"] {
            fields.extend(self.request.query.get(field).map(|said| (field.to_owned(), said.into())));
        }
        if dry_run {
            fields.insert("dryRun".into(), json!(["All"]));
        }
        options
    }

    /// What is to be stored, up to the point where admission has its say.
    pub(crate) fn draft(&self, state: &mut State) -> Result<Draft, Refusal> {
        match (&self.request.method, self.request.path.name.as_deref()) {
            (&Method::POST, None) => self.create(state),
            (&Method::PUT, Some(name)) => self.update(state, name),
            (&Method::PATCH, Some(name)) => self.patch(state, name),
            _ => Err(Refusal::method_not_allowed()),
        }
    }

    fn create(&self, state: &mut State) -> Result<Draft, Refusal> {
        let dry_run = self.request.write_options("CreateOptions", false)?;
        let (object, warnings) =
            decode::object(self.request, self.kind, self.version, self.body, &state.table)?;
        if !object::text(&object, "/metadata/resourceVersion").is_empty() {
            return Err(Refusal::internal("resourceVersion should not be set on objects to be created"));
        }
        let manager = self.manager(Operation::Update);
        self.newcomer(state, object, dry_run, warnings, |object, state| {
            Ok(self.track(None, object, &manager, state))
        })
    }

    /// Gives the fields that a writer has set or changed, defaults included, to it.
    pub(super) fn track(
        &self,
        before: Option<&Value>,
        mut object: Value,
        manager: &Manager,
        state: &State,
    ) -> Value {
        self.default(&mut object);
        if before.is_none() && self.version.status {
            // A status that nobody has set has no owner.
            object::fields(&mut object).remove("status");
        }
        apply::track(before, object, manager, &self.version.schema, state.clock.timestamp())
    }

    fn default(&self, object: &mut Value) {
        self.version.schema.default(object);
        if self.version.convert.is_none() {
            self.kind.strategy.default(object);
        }
    }

    /// A new object; `own` gives its fields their owner.
    fn newcomer(
        &self,
        state: &mut State,
        object: Value,
        dry_run: bool,
        warnings: Vec<String>,
        own: impl FnOnce(Value, &State) -> Result<Value, Refusal>,
    ) -> Result<Draft, Refusal> {
        let warned = warnings.clone();
        self.unwarned_newcomer(state, object, dry_run, warnings, own)
            .map_err(|refusal| refusal.warning(&warned))
    }

    fn unwarned_newcomer(
        &self,
        state: &mut State,
        mut object: Value,
        dry_run: bool,
        warnings: Vec<String>,
        own: impl FnOnce(Value, &State) -> Result<Value, Refusal>,
    ) -> Result<Draft, Refusal> {
        self.settle_namespace(&mut object)?;
        meta::reset(&mut object);
        if object::name(&object).is_empty() {
            let prefix = object::text(&object, "/metadata/generateName").to_owned();
            if prefix.is_empty() {
                let why = "name or generateName is required";
                let cause = Cause::required("metadata.name", why);
                return Err(Refusal::invalid(self.kind.about(), "", &[cause]));
            }
            let name = format!("{}{}", meta::room_for_suffix(&prefix), state.suffix());
            object::metadata(&mut object).insert("name".into(), name.into());
        }
        let key = self.kind.key(self.namespace(), object::name(&object));
        if self.kind.namespaced {
            meta::check_namespace(state, self.kind, self.namespace(), object::name(&object))?;
        }
        object = own(object, state)?;
        self.kind.strategy.prepare_create(&mut object);
        if self.version.status {
            object::fields(&mut object).remove("status");
        }
        self.complete(&mut object);
        let uid = state.uid();
        let metadata = object::metadata(&mut object);
        metadata.insert("uid".into(), uid.into());
        metadata.insert("creationTimestamp".into(), state.now().into());
        if self.kind.habits.generation {
            metadata.insert("generation".into(), 1.into());
        }
        self.kind.strategy.admit(&mut object, state)?;
        let warnings = [warnings, self.kind.strategy.warnings(&object)].concat();
        let is_status = false;
        Ok(Draft {
            kind: Arc::clone(self.kind),
            key,
            before: None,
            object,
            is_status,
            subresource: String::new(),
            scale: None,
            version: self.version.name.clone(),
            options: self.options(true, dry_run),
            dry_run,
            warnings,
        })
    }

    /// Defaults, and the stored version.
    fn complete(&self, object: &mut Value) {
        self.default(object);
        if let Some(convert) = self.version.convert {
            *object = (convert.to_stored)(std::mem::take(object));
        }
        let stored = self.kind.api_version(&self.kind.stored);
        object::fields(object).insert("apiVersion".into(), stored.into());
        let is_another = self.kind.custom && self.kind.stored != self.version.name;
        if let Some(stored) = self.kind.version(&self.kind.stored).filter(|_| is_another) {
            stored.schema.prune(object);
        }
    }

    fn check_namespace(&self, object: &Value) -> Result<(), Refusal> {
        let said = object::namespace(object);
        if !said.is_empty() && said != self.namespace() {
            let why = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(Refusal::bad_request(why));
        }
        Ok(())
    }

    fn settle_namespace(&self, object: &mut Value) -> Result<(), Refusal> {
        self.check_namespace(object)?;
        let namespace = self.namespace().to_owned();
        let metadata = object::metadata(object);
        if namespace.is_empty() {
            metadata.remove("namespace");
        } else {
            metadata.insert("namespace".into(), namespace.into());
        }
        Ok(())
    }

    pub(super) fn check_name(object: &Value, name: &str) -> Result<(), Refusal> {
        let said = object::name(object);
        if said.is_empty() {
            let why = format!(
                "the name of the object ({name} based on URL) was undeterminable: name must be provided"
            );
            return Err(Refusal::bad_request(why));
        }
        if said != name {
            let why = format!("the name of the object ({said}) does not match the name on the URL ({name})");
            return Err(Refusal::bad_request(why));
        }
        Ok(())
    }

    fn update(&self, state: &mut State, name: &str) -> Result<Draft, Refusal> {
        let dry_run = self.request.write_options("UpdateOptions", false)?;
        let (mut object, warnings) =
            decode::object(self.request, self.kind, self.version, self.body, &state.table)?;
        Self::check_name(&object, name)?;
        self.settle_namespace(&mut object)?;
        let key = self.kind.key(self.namespace(), name);
        let said_version = object::text(&object, "/metadata/resourceVersion").to_owned();
        let Some(live) = state.store.get(&key).cloned() else {
            if self.kind.habits.create_on_update && !self.is_status() {
                object::metadata(&mut object).remove("resourceVersion");
                let manager = self.manager(Operation::Update);
                return self.newcomer(state, object, dry_run, warnings, |object, state| {
                    Ok(self.track(None, object, &manager, state))
                });
            }
            return Err(Refusal::not_found(self.kind.resource(), name));
        };
        let uid = object::uid(&object);
        if !uid.is_empty() && uid != object::uid(&live) {
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: /registry/{}/{}{}{name}, ResourceVersion: 0, \
                 AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                self.kind.plural,
                key.namespace,
                if key.namespace.is_empty() { "" } else { "/" },
                object::uid(&live)
            );
            return Err(Refusal::conflict(self.kind.resource(), name, &why));
        }
        self.check_version(&said_version, &live, name)?;
        let manager = self.manager(Operation::Update);
        self.revise(state, &key, live, object, dry_run, warnings, |object, before, state| {
            Ok(self.track(Some(before), object, &manager, state))
        })
    }

    pub(super) fn check_version(&self, said: &str, live: &Value, name: &str) -> Result<(), Refusal> {
        if said.is_empty() || said == "0" {
            if self.kind.habits.unconditional_update {
                return Ok(());
            }
            let why = "must be specified for an update";
            let cause = Cause::invalid("metadata.resourceVersion", &Value::from(0), why);
            return Err(Refusal::invalid(self.kind.resource(), name, &[cause]));
        }
        parse_version(said).map_err(Refusal::internal)?;
        if said == object::text(live, "/metadata/resourceVersion") {
            Ok(())
        } else {
            Err(Refusal::modified(self.kind.resource(), name))
        }
    }

    fn patch(&self, state: &mut State, name: &str) -> Result<Draft, Refusal> {
        let kind_of_patch = PatchKind::of(&self.request.content_type, self.kind.custom)?;
        let is_apply = kind_of_patch == PatchKind::Apply;
        let dry_run = self.request.write_options("PatchOptions", is_apply)?;
        if is_apply {
            return self.apply(state, name, dry_run);
        }
        let key = self.kind.key(self.namespace(), name);
        let Some(live) = state.store.get(&key).cloned() else {
            return Err(Refusal::not_found(self.kind.resource(), name));
        };
        let Document { value: patch, complaints } = decode::patch(kind_of_patch, self.body)?;
        let shown = show::convert(self.kind, self.version, &live);
        let patched = match kind_of_patch {
            PatchKind::Json => patch::json(&shown, &patch),
            PatchKind::Strategic => patch::strategic(&shown, &patch, &self.version.schema),
            _ => Ok(patch::merge(&shown, &patch)),
        };
        let mut object = patched.map_err(decode::patch_refusal)?;
        // A patch that leads to no object of the kind is shown as Go shows what it has read.
        let outcome = match kind_of_patch {
            PatchKind::Strategic => go::plain(&patch),
            _ => object.to_string(),
        };
        let unfit = |why: String| Refusal::unfit_patch(&outcome, &why);
        if let Some(why) = decode::patched_kind(self.kind, self.version, &object, &state.table) {
            return Err(unfit(why));
        }
        // What came of a strategic patch is put into types without ever being text.
        if kind_of_patch == PatchKind::Strategic
            && let Some(why) = self.version.schema.unrestorable(&object)
        {
            return Err(unfit(why));
        }
        let warnings = decode::conform(self.request, self.kind, self.version, &mut object, &complaints)
            .map_err(unfit)?;
        Self::check_name(&object, name)?;
        self.settle_namespace(&mut object)?;
        let said_version = object::text(&object, "/metadata/resourceVersion");
        if !said_version.is_empty() {
            self.check_version(said_version, &live, name)?;
        }
        self.check_uid(object::uid(&object), &live, name)?;
        let manager = self.manager(Operation::Update);
        self.revise(state, &key, Arc::clone(&live), object, dry_run, warnings, |object, before, state| {
            Ok(self.track(Some(before), object, &manager, state))
        })
    }

    fn check_uid(&self, said: &str, live: &Value, name: &str) -> Result<(), Refusal> {
        if said.is_empty() || said == object::uid(live) {
            return Ok(());
        }
        let cause = Cause::invalid("metadata.uid", &said.into(), "field is immutable");
        Err(Refusal::invalid(self.kind.about(), name, &[cause.clone(), cause]))
    }

    fn apply(&self, state: &mut State, name: &str, dry_run: bool) -> Result<Draft, Refusal> {
        let (applied, warnings) =
            decode::applied(self.request, &self.kind.kind, &self.api_version(), self.body)?;
        if !object::name(&applied).is_empty() {
            Self::check_name(&applied, name)?;
        }
        self.check_namespace(&applied)?;
        let key = self.kind.key(self.namespace(), name);
        let live = state.store.get(&key).cloned();
        let manager = self.manager(Operation::Apply);
        let force = self.request.query.flag("force");
        let said_uid = object::uid(&applied).to_owned();
        let said_version = object::text(&applied, "/metadata/resourceVersion").to_owned();
        let schema = &self.version.schema;
        let own = |live: Option<&Value>, applied: &Value, state: &State| {
            let mut merged = apply::apply(live, applied, &manager, force, schema, state.clock.timestamp())
                .map_err(decode::apply_refusal)?;
            if let Some(why) = schema.mistyped(&merged).filter(|_| !self.kind.custom) {
                return Err(self.unconverted(name, &why));
            }
            schema.prune(&mut merged);
            schema.normalize(&mut merged);
            Ok::<Value, Refusal>(merged)
        };
        let Some(live) = live else {
            if self.is_status() {
                return Err(Refusal::not_found(self.kind.resource(), name));
            }
            let made = own(None, &applied, state)?;
            Self::check_name(&made, name)?;
            if !said_uid.is_empty() {
                let why = format!(
                    "uid mismatch: the provided object specified uid {said_uid}, and no existing object was found"
                );
                return Err(Refusal::conflict(self.kind.resource(), name, &why));
            }
            if !said_version.is_empty() {
                parse_version(&said_version).map_err(Refusal::internal)?;
            }
            return self.newcomer(state, made, dry_run, warnings, |object, _| Ok(object));
        };
        self.check_uid(&said_uid, &live, name)?;
        if !said_version.is_empty() {
            self.check_version(&said_version, &live, name)?;
        }
        let shown = show::convert(self.kind, self.version, &live);
        let merged = own(Some(&shown), &applied, state)?;
        self.revise(state, &key, live, merged, dry_run, warnings, |object, _, _| Ok(object))
    }

    /// What is applied has the right types, but not every text is a time or an amount. Go converts it here instead of
    /// reading it, and words that differently.
    fn unconverted(&self, name: &str, why: &str) -> Refusal {
        let kind = format!("{}/{}, Kind={}", self.kind.group, self.version.name, self.kind.kind);
        let why = match why.split_once(" of type ") {
            Some((unread, wanted)) if unread.starts_with("json: cannot unmarshal number") => {
                format!("cannot convert float64 to {wanted}")
            }
            _ if why.starts_with("illegal base64") => format!("error decoding from json: {why}"),
            _ => why.to_owned(),
        };
        Refusal::internal(format!(
            "failed to convert new object (/{name}; {kind}) to proper version: unable to convert unstructured object to \
             {kind}: {why}"
        ))
    }

    /// A new state of an object that exists.
    #[expect(clippy::too_many_arguments, reason = "the parts of one write, each used once")]
    pub(super) fn revise(
        &self,
        state: &State,
        key: &Key,
        live: Arc<Stored>,
        mut object: Value,
        dry_run: bool,
        warnings: Vec<String>,
        own: impl FnOnce(Value, &Value, &State) -> Result<Value, Refusal>,
    ) -> Result<Draft, Refusal> {
        let shown = show::convert(self.kind, self.version, &live);
        let deleted = object.pointer("/metadata/deletionTimestamp").filter(|stamp| !stamp.is_null());
        if let Some(stamp) = deleted.filter(|_| !object::is_deleting(&live)) {
            let cause = Cause::invalid("metadata.deletionTimestamp", stamp, "field is immutable");
            return Err(Refusal::invalid(self.kind.about(), &key.name, &[cause.clone(), cause]));
        }
        let grace = object.pointer("/metadata/deletionGracePeriodSeconds").filter(|grace| !grace.is_null());
        if let Some(grace) =
            grace.filter(|grace| live.pointer("/metadata/deletionGracePeriodSeconds") != Some(grace))
        {
            let cause = Cause::invalid("metadata.deletionGracePeriodSeconds", grace, "field is immutable");
            return Err(Refusal::invalid(self.kind.about(), &key.name, &[cause.clone(), cause]));
        }
        self.take_back(&mut object, &shown);
        object = own(object, &shown, state)?;
        self.complete(&mut object);
        if self.request.path.subresource.as_deref() != Some("finalize") {
            self.kind.strategy.prepare_update(&mut object, &live);
        }
        if self.is_status() {
            self.kind.strategy.prepare_status(&mut object, &live);
        }
        if self.kind.habits.generation {
            let generation = object::number(&live, "/metadata/generation").unwrap_or_default();
            let changed = !self.is_status()
                && self.kind.strategy.counts_changes()
                && spec_changed(self.kind, self.version, &live, &object);
            let generation = generation + i64::from(changed);
            object::metadata(&mut object).insert("generation".into(), generation.into());
        }
        let is_scale = self.request.path.subresource.as_deref() == Some("scale");
        Ok(Draft {
            kind: Arc::clone(self.kind),
            key: key.clone(),
            before: Some(live),
            object,
            is_status: self.is_status(),
            subresource: self.request.path.subresource.clone().unwrap_or_default(),
            scale: self.version.scale.clone().filter(|_| is_scale),
            version: self.version.name.clone(),
            options: self.options(false, dry_run),
            dry_run,
            warnings,
        })
    }

    /// Undoes what the writer may not change through this door.
    fn take_back(&self, object: &mut Value, shown: &Value) {
        if self.is_status() {
            let status = object.get("status").cloned();
            let metadata = object.get("metadata").cloned();
            let mut kept = shown.clone();
            let fields = object::fields(&mut kept);
            match status {
                Some(status) => fields.insert("status".into(), status),
                None => fields.remove("status"),
            };
            // Built-in kinds let labels and annotations through with the status, custom resources do not; who owns
            // what travels in the metadata of both.
            if let Some(metadata) = metadata {
                if self.kind.custom {
                    let mine = object::entry(fields, "metadata");
                    keep(mine, &metadata, "managedFields");
                } else {
                    fields.insert("metadata".into(), metadata);
                }
            }
            *object = kept;
        } else if self.version.status {
            keep(object::fields(object), shown, "status");
        }
        let live = shown.get("metadata").unwrap_or(&Value::Null);
        let metadata = object::metadata(object);
        for field in meta::SYSTEM_FIELDS {
            keep(metadata, live, field);
        }
        metadata.remove("selfLink");
    }
}

fn spec_changed(kind: &Kind, version: &Version, before: &Value, after: &Value) -> bool {
    let counts = |name: &str| name != "metadata" && (name != "status" || kind.custom && !version.status);
    let names = |object: &Value| -> Vec<String> {
        object.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect()
    };
    let mut names: Vec<String> = names(before).into_iter().chain(names(after)).collect();
    names.retain(|name| counts(name) && name != "apiVersion");
    names.iter().any(|name| before.get(name) != after.get(name))
}
