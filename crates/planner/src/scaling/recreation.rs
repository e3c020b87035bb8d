//! A set that has been deleted without its pods: it is created again from its record. Until then this is all that is done,
//! whatever becomes of the policy.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use sts_plus_api::keys;

use super::World;
use super::moves::{Moves, READ_AGAIN};
use super::record::later;
use super::remedy::asker;
use super::wait::Wait;
use crate::plan::{Action, Ask, Kind, Note, Object, Subject, When};
use crate::reason::Severity;
use crate::remedy::record::Found;

/// Creates the set of this UID again, once it is gone.
pub(super) fn recreate(world: &World, replaced: &str, now: Timestamp) -> Moves {
    let row = &world.row;
    let status = row.status.clone();
    let name = row.target().map(str::to_owned);
    let known = || status.target.as_ref().map(|target| target.name.clone());
    let Some(name) = name.or_else(known) else {
        return Moves::waiting(status, Wait::TargetMissing { set: "".into() });
    };
    let set: Arc<str> = name.as_str().into();
    if world.target.is_some() {
        return Moves::waiting(status, Wait::Orphaning { set });
    }
    let record = status.remedy.as_ref().and_then(|remedy| remedy.record.clone()).unwrap_or_default();
    let mut moves = Moves::waiting(status, Wait::Recreating { set: Arc::clone(&set) });
    let asker = asker(row);
    let objects = (
        asker.object(&record),
        Object { kind: Kind::StatefulSet, namespace: Arc::clone(&row.namespace), name: (*set).into() },
    );
    let read = |moves: &mut Moves, object: &Object| {
        let found = world.reads.get(object).map(Option::as_ref);
        if found.is_none() {
            if world.hooked.is_empty() {
                moves.asks.push(Ask::Read(object.clone()));
            }
            moves.wake(later(now, READ_AGAIN));
        }
        found
    };
    let (stored, live) = (read(&mut moves, &objects.0), read(&mut moves, &objects.1));
    let (Some(stored), Some(live)) = (stored, live) else { return moves };
    if let Some(live) = live {
        // The cache lags behind. The object that was deleted is waited for, and any other one is taken.
        let uid = live.pointer("/metadata/uid").and_then(Value::as_str);
        if uid == Some(replaced) {
            moves.waits = vec![Wait::Orphaning { set }];
        }
        moves.wake(later(now, READ_AGAIN));
        return moves;
    }
    let Found::Own(found) = asker.found(stored) else {
        moves.waits = vec![Wait::RecordLost { set, record }];
        moves.wake(later(now, READ_AGAIN));
        return moves;
    };
    moves.set_write =
        Some(Action::create(objects.1.clone(), &row.uid, found.data.clone(), keys::MANAGER_SCALING));
    moves.notes.push(Note {
        on: vec![Subject::from(&**row)],
        severity: Severity::Normal,
        reason: "Recreated",
        message: format!(
            "StatefulSet {set} was created again, with the sizes of volumeClaims. It adopts its pods."
        ),
        when: When::Written(objects.1),
    });
    moves
}
