//! Drafts: objects on their way into the store.
//!
//! A [`Draft`] remembers what it was decided from, so that admission may take its time: whoever is overtaken starts
//! over.

use std::sync::Arc;

use serde_json::{Value, json};

use super::answer::Refusal;
use super::apply;
use super::object;
use super::packed;
use super::show::Fields;
use super::state::State;
use super::store::Key;
use super::stored::Stored;
use crate::kinds::{Kind, Scale, meta};

/// Largest object that is stored, in bytes: what etcd takes, less what it needs besides. Without it patches could make an
/// object larger than any body.
pub(crate) const MAX_OBJECT_BYTES: usize = 3 * 512 * 1024 - 512;

/// An object on its way into the store, in its stored version.
pub(crate) struct Draft {
    pub(crate) kind: Arc<Kind>,
    pub(crate) key: Key,
    /// What it is to replace.
    pub(crate) before: Option<Arc<Stored>>,
    pub(crate) object: Value,
    /// Whether only the status is written.
    pub(crate) is_status: bool,
    /// What the request was about, if not the object itself.
    pub(crate) subresource: String,
    /// Where replicas are kept, for a write through them.
    pub(crate) scale: Option<Scale>,
    /// The version in which the request came.
    pub(crate) version: String,
    /// The options of the request, as webhooks see them.
    pub(crate) options: Value,
    pub(crate) dry_run: bool,
    pub(crate) warnings: Vec<String>,
}

/// What a write has led to.
pub(crate) struct Written {
    pub(crate) object: Arc<Stored>,
    pub(crate) created: bool,
}

impl Draft {
    /// Whether an object is being made.
    pub(crate) fn is_create(&self) -> bool {
        self.before.is_none()
    }

    /// Refuses what Kubernetes would refuse.
    pub(crate) fn judge(&self) -> Result<(), Refusal> {
        let (kind, object) = (&self.kind, &self.object);
        let before = self.before.as_deref().map(Stored::value);
        let mut causes = meta::validate(kind, object, before);
        if kind.custom {
            let version = kind.version(&kind.stored).or(kind.versions.first());
            let mut judged = version.map(|version| version.schema.judge(object, before)).unwrap_or_default();
            for cause in judged.iter_mut().filter(|_| self.is_status) {
                // A status that is written alone is spoken of as if it were alone.
                cause.message = cause.message.replace(": status.", ": ");
            }
            causes.append(&mut judged);
        }
        causes.extend(match &self.before {
            None => kind.strategy.validate(object),
            Some(before) if self.is_status => kind.strategy.validate_status(object, before),
            Some(before) => kind.strategy.validate_update(object, before),
        });
        if causes.is_empty() {
            Ok(())
        } else {
            Err(Refusal::invalid(kind.about(), object::name(object), &causes))
        }
    }

    /// Puts what a webhook has made of the object in its place, or says why Go could not read it. Nobody comes to own
    /// anything by it.
    pub(crate) fn replace(&mut self, mut object: Value) -> Result<(), String> {
        let Some(version) = self.kind.version(&self.kind.stored) else {
            return Ok(());
        };
        if let Some(why) = version.schema.mistyped(&object).filter(|_| !self.kind.custom) {
            return Err(why);
        }
        version.schema.prune(&mut object);
        version.schema.default(&mut object);
        version.schema.normalize(&mut object);
        self.kind.strategy.default(&mut object);
        self.object = object;
        Ok(())
    }

    /// Whether nobody has written the object since the draft was made.
    pub(crate) fn is_current(&self, state: &State) -> bool {
        match (state.store.get(&self.key), &self.before) {
            (Some(live), Some(before)) => Arc::ptr_eq(live, before),
            (None, Some(_)) => false,
            (_, None) => true,
        }
    }

    /// Stores the object. The draft must be current.
    pub(crate) fn commit(self, state: &mut State) -> Result<Written, Refusal> {
        let Draft { kind, key, before, mut object, dry_run, .. } = self;
        packed::pack(&mut object);
        if let Some(before) = before.as_deref().filter(|before| is_same_but_for_managers(before, &object)) {
            packed::unpack(&mut object);
            object = apply::without_needless_times(&before.whole(), object);
            packed::pack(&mut object);
        }
        let created = before.is_none();
        if created && state.store.get(&key).is_some() {
            return Err(Refusal::already_exists(kind.resource(), &key.name));
        }
        if dry_run {
            return Ok(Written { object: Stored::new(object), created });
        }
        if let Some(version) = kind.version(&kind.stored) {
            version.schema.empty_to_null(&mut object);
        }
        if let Some(before) = &before {
            if **before == object {
                return Ok(Written { object: Arc::clone(before), created });
            }
            if object::is_deleting(&object) && is_free(&kind, &object) {
                // Watchers see it go as it was; the writer sees what it wrote.
                state.store.remove(key, (**before).clone());
                kind.strategy.written(state, Some(before), None);
                return Ok(Written { object: Stored::new(object), created });
            }
        }
        if bytes(&object) > MAX_OBJECT_BYTES {
            return Err(Refusal::internal("etcdserver: request is too large"));
        }
        let object = state.store.put(key, object);
        kind.strategy.written(state, before.as_deref().map(Stored::value), Some(&object));
        Ok(Written { object, created })
    }
}

/// Whether nothing changes but who owns what since when: only then do times have to be compared.
fn is_same_but_for_managers(before: &Value, after: &Value) -> bool {
    rest(Some(before), "metadata").eq(rest(Some(after), "metadata"))
        && rest(before.get("metadata"), "managedFields").eq(rest(after.get("metadata"), "managedFields"))
}

/// The fields of an object but one.
fn rest<'a>(object: Option<&'a Value>, but: &'a str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    let fields = object.and_then(Value::as_object).into_iter().flatten();
    fields.filter(move |(name, _)| *name != but)
}

/// How long the text of an object is.
fn bytes(object: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, &Fields(object)).map_or(usize::MAX, |()| count.0)
}

/// Whether nothing keeps a deleted object there any longer.
pub(crate) fn is_free(kind: &Kind, object: &Value) -> bool {
    let grace = object::number(object, "/metadata/deletionGracePeriodSeconds").unwrap_or_default();
    object::list(object, "/metadata/finalizers").is_empty() && grace == 0 && !kind.strategy.is_held(object)
}

/// Writes an object on the cluster's own account: no admission, no owner of fields, only what must always hold. Returns
/// what is stored, or nothing where the object is gone or was not changed.
pub(crate) fn amend(
    state: &mut State,
    kind: &Arc<Kind>,
    key: &Key,
    change: impl FnOnce(&mut Value),
) -> Option<Arc<Stored>> {
    let before = Arc::clone(state.store.get(key)?);
    let mut object = before.whole();
    change(&mut object);
    packed::pack(&mut object);
    if *before == object {
        return None;
    }
    let is_gone = object::is_deleting(&object) && is_free(kind, &object);
    let draft = Draft {
        kind: Arc::clone(kind),
        key: key.clone(),
        before: Some(before),
        object,
        is_status: false,
        subresource: String::new(),
        scale: None,
        version: kind.stored.clone(),
        options: Value::Null,
        dry_run: false,
        warnings: Vec::new(),
    };
    let written = draft.commit(state).ok()?;
    (!is_gone).then_some(written.object)
}

/// Creates an object on the cluster's own account, unless there is one of that name.
pub(crate) fn introduce(state: &mut State, kind: &Arc<Kind>, mut object: Value) -> Option<Arc<Stored>> {
    let key = kind.key(object::namespace(&object), object::name(&object));
    if state.store.get(&key).is_some() {
        return None;
    }
    let fields = object::fields(&mut object);
    fields.insert("apiVersion".into(), kind.api_version(&kind.stored).into());
    fields.insert("kind".into(), kind.kind.clone().into());
    if let Some(version) = kind.version(&kind.stored) {
        version.schema.default(&mut object);
    }
    kind.strategy.default(&mut object);
    let mut metadata = json!({ "uid": state.uid(), "creationTimestamp": state.now() });
    if kind.habits.generation {
        object::fields(&mut metadata).insert("generation".into(), 1.into());
    }
    object::metadata(&mut object).append(object::fields(&mut metadata));
    let object = state.store.put(key, object);
    kind.strategy.written(state, None, Some(&object));
    Some(object)
}
