//! What an agent does beside calls, on one task: it looks for a store that is away and tells it what passed meanwhile, shows
//! itself there, follows the rules that lie there, and saves what it knows. Without a bus, whose threads would do it, it also
//! does the limiter's housekeeping.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, timeout};
use tollgate_engine::Notice;

use super::{PING_DEADLINE, Shared};
use crate::rules_source::RulesReceiver;
use crate::state_dir::StateDir;
use crate::store::{Store, StoreError};

/// How often it looks whether its store is back.
const TURN: Duration = Duration::from_millis(10);
/// How many turns apart the other duties are.
const TICK_TURNS: u64 = 10;
const SHOW_TURNS: u64 = 100;
const RULES_TURNS: u64 = 1_000;
const SAVE_TURNS: u64 = 1_000;
/// A store that is lost again so soon after it was found has relapsed.
const RELAPSE_TURNS: u64 = 100;
const PAUSE_TURNS_MAX: u64 = 500;
/// So many payments at once, then calls are asked again even if more is owed.
const PAYMENTS_MAX: u32 = 10_000;

/// What there is to do.
pub(super) struct Duties {
    pub(super) has_bus: bool,
    pub(super) follower: Option<Arc<RulesReceiver>>,
    pub(super) state: Option<Arc<StateDir>>,
}

pub(super) async fn look_after<S: Store>(shared: Weak<Shared<S>>, duties: Duties) {
    let mut turns = interval(TURN);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // A new agent reaches for its store before the first call does.
    let (mut reached, mut show_at, mut rules_at) = (false, 0, 0);
    let mut pace = Pace::default();
    for turn in 0_u64.. {
        turns.tick().await;
        let Some(shared) = shared.upgrade() else { return };
        if shared.stop.load(Ordering::Relaxed) {
            return;
        }
        if (!reached || shared.engine.needs_store()) && turn >= pace.seek_at {
            reached = match seek_store(&shared).await {
                Ok(()) => true,
                Err(error) => {
                    shared.engine.store_is_silent(error);
                    false
                }
            };
            pace.sought(turn, reached);
        }
        for notice in shared.engine.take_notices() {
            let node = &shared.engine.settings().node;
            if notice == Notice::StoreRecovered {
                tracing::info!(%node, "{notice}");
            } else {
                tracing::warn!(%node, "{notice}");
            }
        }
        let answers = reached && !shared.engine.is_degraded();
        if !duties.has_bus && turn % TICK_TURNS == 0 {
            shared.engine.tick(shared.clock.now());
        }
        if answers && turn >= show_at {
            show_at = turn + SHOW_TURNS;
            // Who asks nothing would not notice that the store is gone, nor that it is back.
            reached = show(&shared).await;
        }
        if answers
            && turn >= rules_at
            && let Some(follower) = &duties.follower
        {
            rules_at = turn + RULES_TURNS;
            look_for_rules(&shared, follower).await;
        }
        if turn % SAVE_TURNS == 0
            && let (Some(state), Some(agents)) = (&duties.state, shared.engine.known_fleet_size())
        {
            state.change(|saved| saved.agents = Some(agents));
        }
    }
}

/// When to look for the store. One that answers pings and then no calls, again and again, is looked for less and less often.
#[derive(Default)]
struct Pace {
    seek_at: u64,
    found_at: u64,
    pause: u64,
}

impl Pace {
    fn sought(&mut self, turn: u64, found: bool) {
        if found {
            let relapsed = turn - self.found_at < RELAPSE_TURNS + self.pause;
            self.pause = if relapsed { (2 * self.pause).clamp(1, PAUSE_TURNS_MAX) } else { 0 };
            self.found_at = turn;
            self.seek_at = turn + self.pause;
        }
    }
}

/// Asks whether the store answers. First the debts, then the calls: nobody should be admitted on counts that lack them.
pub(super) async fn seek_store<S: Store>(shared: &Shared<S>) -> Result<(), StoreError> {
    let sent = shared.clock.now();
    let store_now = timeout(PING_DEADLINE, shared.store.ping()).await.unwrap_or(Err(StoreError::TimedOut))?;
    let received = shared.clock.now();
    for _ in 0..PAYMENTS_MAX {
        if !shared.engine.has_unsynced() {
            break;
        }
        let payment = shared.engine.pay_debts();
        let answer = timeout(PING_DEADLINE, shared.store.take(payment.takes())).await;
        let answer = answer.unwrap_or(Err(StoreError::TimedOut));
        shared.engine.paid(payment, &answer);
        match answer {
            // One counter of it cannot be charged; the others can.
            Ok(_) | Err(StoreError::Unreadable) => {}
            Err(error) => return Err(error),
        }
    }
    shared.store_seen.store(true, Ordering::Relaxed);
    shared.engine.store_answers(sent, received, store_now);
    Ok(())
}

/// Shows the agent in the store; whether the store took it.
async fn show<S: Store>(shared: &Shared<S>) -> bool {
    let node = &shared.engine.settings().node;
    match timeout(PING_DEADLINE, shared.store.show(node, false)).await {
        Ok(Ok(Some(agents))) => shared.engine.receive_fleet_size(shared.clock.now(), agents),
        Ok(Ok(None)) => {}
        Ok(Err(_)) | Err(_) => return false,
    }
    true
}

async fn look_for_rules<S: Store>(shared: &Shared<S>, follower: &RulesReceiver) {
    if let Ok(Ok(Some((generation, published)))) = timeout(PING_DEADLINE, shared.store.rules()).await {
        follower.receive(generation, None, published);
    }
}
