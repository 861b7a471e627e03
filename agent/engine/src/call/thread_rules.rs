//! The rules in force and the known calls, as a thread keeps them.
//!
//! Each thread keeps the rules that it used last: to look whether they are still in force writes nothing that other threads
//! read. A set that was replaced is thus freed when each thread that used it has decided another call or has ended. A thread
//! that ends keeps nothing any more, and other destructors of it may still decide calls.

use std::cell::Cell;
use std::sync::Arc;

use crate::call::known_calls::KnownCalls;
use crate::rules::{ActiveRules, RulesCache, RulesInForce};

/// Rules and known calls of the current thread, for the time of a call. A call that runs meanwhile on the same thread
/// knows no calls.
pub(crate) struct ThreadRules(Option<Box<UsedLast>>);

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
        match USED_LAST.try_with(Cell::take).unwrap_or_default() {
            Some(used) if rules.is_of(&used.rules) => Self(Some(used)),
            used => Self::first(rules, used),
        }
    }

    #[cold]
    fn first(rules: &RulesInForce, used: Option<Box<UsedLast>>) -> Self {
        let calls = used.map_or_else(KnownCalls::default, |used| used.calls);
        Self(Some(Box::new(UsedLast { rules: rules.cache(), calls })))
    }

    #[inline]
    pub(crate) fn load(&mut self) -> (&Arc<ActiveRules>, &mut KnownCalls) {
        let UsedLast { rules, calls } = &mut **self.0.as_mut().expect("only the drop takes it");
        (rules.load(), calls)
    }
}

impl Drop for ThreadRules {
    #[inline]
    fn drop(&mut self) {
        let _ = USED_LAST.try_with(|used_last| used_last.set(self.0.take()));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::mpsc;
    use std::thread;

    use tollgate_core::call::Call;
    use tollgate_core::clock::Timestamp;
    use tollgate_core::rules::{Rule, RuleSet};

    use super::*;
    use crate::engine::Engine;
    use crate::engine_settings::EngineSettings;
    use crate::request::{Operation, Progress};

    const NOW: Timestamp = Timestamp::from_ms(1_000_000);

    thread_local! {
        static LAST: RefCell<Option<DecidesAtItsEnd>> = const { RefCell::new(None) };
    }

    struct DecidesAtItsEnd(Arc<Engine>, mpsc::Sender<bool>);

    impl Drop for DecidesAtItsEnd {
        fn drop(&mut self) {
            let _ = self.1.send(is_admitted(&self.0));
        }
    }

    fn is_admitted(engine: &Engine) -> bool {
        let call = Call::new().with("api_key", "k");
        engine.decide(
            NOW,
            &call,
            |decision| decision.allowed,
            |_| match engine.begin(NOW, Operation::check(&call)) {
                Progress::Done(output) => output.into_decisions()[0].allowed,
                Progress::Deferred(..) | Progress::NeedsStore(_) => unreachable!("the table is its own"),
            },
        )
    }

    /// A runtime in a variable of a thread drops its tasks with their permits at the end of the thread.
    #[test]
    fn a_thread_that_ends_still_decides_calls() {
        let rule = Rule::per("per-key", &["api_key"], "4/min".parse().unwrap());
        let settings = EngineSettings { owns_table: true, ..EngineSettings::new("a", NOW) };
        let engine = Arc::new(Engine::new(settings, RuleSet::new(1, [rule])));
        let (sender, decisions) = mpsc::channel();
        let held = DecidesAtItsEnd(engine.clone(), sender);
        let ended = thread::spawn(move || {
            // It is set first, and so it is dropped last.
            LAST.set(Some(held));
            (0..3).all(|_| is_admitted(&engine))
        });
        assert!(ended.join().expect("the thread ends"));
        assert_eq!(decisions.iter().collect::<Vec<_>>(), [true]);
    }
}
