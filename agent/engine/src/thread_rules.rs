//! The rules in force and the known calls, as a thread keeps them.
//!
//! Each thread keeps the rules that it used last: to look whether they are still in force writes nothing that other threads
//! read. A set that was replaced is thus freed when each thread that used it has decided another call or has ended.

use std::cell::Cell;
use std::sync::Arc;

use crate::active_rules::{ActiveRules, RulesCache, RulesInForce};
use crate::known_calls::KnownCalls;

/// Rules and known calls of the current thread, for the time of a call. A call that runs meanwhile on the same thread knows no
/// calls.
pub(crate) struct ThreadRules(Option<Box<UsedLast>>);

/// Rules that a thread used last, and the calls that it knows.
struct UsedLast {
    rules: RulesCache,
    calls: KnownCalls,
}

thread_local! {
    static USED_LAST: Cell<Option<Box<UsedLast>>> = const { Cell::new(None) };
}

impl ThreadRules {
    /// Takes those of the current thread.
    #[inline]
    pub(crate) fn of(rules: &RulesInForce) -> Self {
        match USED_LAST.take() {
            Some(used) if rules.is_of(&used.rules) => Self(Some(used)),
            used => Self::first(rules, used),
        }
    }

    #[cold]
    fn first(rules: &RulesInForce, used: Option<Box<UsedLast>>) -> Self {
        let calls = used.map_or_else(KnownCalls::default, |used| used.calls);
        Self(Some(Box::new(UsedLast { rules: rules.cache(), calls })))
    }

    /// Returns the rules in force, and the calls that the thread knows.
    #[inline]
    pub(crate) fn load(&mut self) -> (&Arc<ActiveRules>, &mut KnownCalls) {
        let UsedLast { rules, calls } = &mut **self.0.as_mut().expect("only the drop takes it");
        (rules.load(), calls)
    }
}

impl Drop for ThreadRules {
    #[inline]
    fn drop(&mut self) {
        USED_LAST.set(self.0.take());
    }
}
