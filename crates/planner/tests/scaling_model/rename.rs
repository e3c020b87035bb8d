//! Numbers of which only equality matters are renamed in every state, so that states that differ in nothing else are one state and
//! there are finitely many.

use crate::state::{Model, ORDINALS, Record, Request, Seen, State, Status, To, Write};

/// Restarts are told apart as 0, as equal, as one more and as more than that.
const FAR: u8 = 2;

type Name<'n> = &'n mut dyn FnMut(&mut u8);

impl State {
    /// Hands out all writes that are under way.
    fn each_request(&mut self, of: &mut dyn FnMut(&mut Request)) {
        self.operator.sent.iter_mut().chain(&mut self.late).for_each(of);
    }

    /// Hands out every status that anybody has or writes.
    fn each_status(&mut self, of: &mut dyn FnMut(&mut Status)) {
        let policies = [&mut self.policy, &mut self.operator.policy].into_iter().flatten();
        policies.for_each(|policy| of(&mut policy.status));
        self.each_request(&mut |request| {
            if let Write::Status(status) = &mut request.write {
                of(status);
            }
        });
    }

    /// Hands out every record of an ordinal.
    fn each_record(&mut self, ordinal: usize, of: &mut dyn FnMut(&mut Record)) {
        self.each_status(&mut |status| status.leaving[ordinal].iter_mut().for_each(&mut *of));
    }

    /// Hands out every pod of an ordinal, as anybody has seen it.
    fn each_seen(&mut self, ordinal: usize, of: &mut dyn FnMut(&mut Seen)) {
        self.pods[ordinal].iter_mut().for_each(|pod| of(&mut pod.seen));
        self.operator.pods[ordinal].iter_mut().for_each(&mut *of);
        self.each_request(&mut |request| match &mut request.write {
            Write::DeletePod(at, seen) if *at == ordinal => of(seen),
            _ => {}
        });
    }

    /// Hands out every UID of an ordinal's pods that anybody remembers.
    fn each_uid(&mut self, ordinal: usize, name: Name<'_>) {
        self.each_seen(ordinal, &mut |seen| name(&mut seen.uid));
        self.each_record(ordinal, &mut |record| record.uid.iter_mut().for_each(&mut *name));
        let operator = &mut self.operator;
        let awaited = operator.awaits_pod.iter_mut().filter(|(at, _)| *at == ordinal);
        awaited.for_each(|(_, uid)| name(uid));
        if let Some(then) = &mut operator.then {
            then.begin.iter_mut().filter(|it| it.ordinal == ordinal).for_each(|it| name(&mut it.uid));
            then.keep.iter_mut().filter(|(at, ..)| *at == ordinal).for_each(|(_, uid, _)| name(uid));
        }
        let outcomes = operator.outcomes.iter_mut().map(|outcome| &mut outcome.calling);
        let calls = operator.calls.iter_mut().chain(outcomes);
        calls.filter(|calling| calling.ordinal == ordinal).for_each(|calling| name(&mut calling.uid));
    }

    fn each_restarts(&mut self, ordinal: usize, name: Name<'_>) {
        self.each_seen(ordinal, &mut |seen| name(&mut seen.restarts));
        self.each_record(ordinal, &mut |record| name(&mut record.restarts));
    }

    /// Hands out every time of an ordinal that anybody remembers.
    fn each_time(&mut self, ordinal: usize, name: Name<'_>) {
        self.each_seen(ordinal, &mut |seen| {
            name(&mut seen.started);
            name(&mut seen.ended);
        });
        self.each_record(ordinal, &mut |record| record.accepted.iter_mut().for_each(&mut *name));
        let outcomes = self.operator.outcomes.iter_mut();
        let of_ordinal = outcomes.filter(|outcome| outcome.calling.ordinal == ordinal);
        of_ordinal.for_each(|outcome| name(&mut outcome.at));
    }

    fn each_claim(&mut self, ordinal: usize, name: Name<'_>) {
        self.claims[ordinal].iter_mut().for_each(&mut *name);
        self.each_record(ordinal, &mut |record| record.claim.iter_mut().flatten().for_each(&mut *name));
        self.each_request(&mut |request| match &mut request.write {
            Write::DeleteClaim(at, claim) if *at == ordinal => name(claim),
            _ => {}
        });
    }

    fn each_version(&mut self, to: To, name: Name<'_>) {
        let operator = &mut self.operator;
        match to {
            To::Set => [&mut self.set.version, &mut operator.set.version].into_iter().for_each(&mut *name),
            To::Lock => [&mut self.lock.version, &mut operator.lock.version].into_iter().for_each(&mut *name),
            To::Policy => {
                let policies = [&mut self.policy, &mut operator.policy].into_iter().flatten();
                policies.for_each(|policy| name(&mut policy.version));
            }
            To::Pod | To::Claim => return,
        }
        self.each_request(&mut |request| {
            if request.write.to() == to {
                name(&mut request.version);
            }
        });
    }

    /// Hands out every generation of the set that anybody remembers.
    fn each_generation(&mut self, name: Name<'_>) {
        name(&mut self.set.generation);
        name(&mut self.operator.set.generation);
        self.each_status(&mut |status| name(&mut status.template));
    }

    /// A UID that nobody remembers.
    pub(crate) fn fresh_uid(&mut self, ordinal: usize) -> u8 {
        let mut fresh = 0;
        self.each_uid(ordinal, &mut |uid| fresh = fresh.max(*uid + 1));
        fresh
    }

    /// A time after all that anybody remembers.
    pub(crate) fn next_time(&mut self, ordinal: usize, model: &Model) -> u8 {
        let mut next = 0;
        self.each_time(ordinal, &mut |time| next = next.max(*time + 1));
        if model.exits { next } else { 0 }
    }

    /// A claim that nobody remembers.
    pub(crate) fn fresh_claim(&mut self, ordinal: usize) -> u8 {
        let mut fresh = 0;
        self.each_claim(ordinal, &mut |claim| fresh = fresh.max(*claim + 1));
        fresh
    }

    /// Renames what there is.
    pub(crate) fn rename(&mut self) {
        for ordinal in 0..ORDINALS {
            self.rank(&mut |state, name| state.each_uid(ordinal, name));
            self.rank(&mut |state, name| state.each_claim(ordinal, name));
            self.rank(&mut |state, name| state.each_time(ordinal, name));
            let mut used = 1;
            self.each_restarts(ordinal, &mut |restarts| used |= bit(*restarts));
            self.each_restarts(ordinal, &mut |restarts| *restarts = closer(used, *restarts));
        }
        for to in [To::Set, To::Policy, To::Lock] {
            self.rank(&mut |state, name| state.each_version(to, name));
        }
        self.rank(&mut State::each_generation);
    }

    /// Gives the lowest numbers to what is handed out, in the same order.
    fn rank(&mut self, each: &mut dyn FnMut(&mut Self, Name<'_>)) {
        let mut used = 0;
        each(self, &mut |number| used |= bit(*number));
        let rank = |number: u8| u8::try_from((used & (bit(number) - 1)).count_ones()).unwrap();
        each(self, &mut |number| *number = rank(*number));
    }
}

fn bit(number: u8) -> u64 {
    1 << number
}

/// A number of those that are used, with no more than [`FAR`] between it and the next lower one.
fn closer(used: u64, number: u8) -> u8 {
    let mut new = 0;
    let mut last = 0;
    for one in (1..=number).filter(|one| used & bit(*one) != 0) {
        new += FAR.min(one - last);
        last = one;
    }
    new
}
