//! Runs of the charge script: keys, arguments, answer, and the repetition after a value was replaced.
//!
//! All keys of a counter have one hash tag, and with it one slot of a cluster. A counter with a slot of its own is named by
//! the slot alone. Beside the counter are the request ids charged on it, and the limit of the region. Calls
//! with a budget have a script of their own, which first finds the quotas in force.

use std::sync::Arc;

use smallvec::SmallVec;
#[cfg(test)]
use tollgate_core::clock::Clock;
use tollgate_core::counter::{Charge, ChargeResults, CounterId, HashSlotId, RequestId};
use tollgate_redis::{
    KEY_CLAIM, RedisConnection, RedisSettings, Script, ServerWay, Socket, counter_key, floor_key, key_claim_key,
    limit_key,
};

use super::codec::{self, StepAnswer, charge_bytes};
use super::conversion::{self, Replacement};
use crate::store::StoreError;

/// Lua of the steps that need no functions and tables.
macro_rules! short_steps {
    () => {
        concat!(
            include_str!("../lua/window_step.lua"),
            include_str!("../lua/bucket_step.lua"),
            include_str!("../lua/log_step.lua"),
        )
    };
}

/// Lua of a step of one call, after the layout.
macro_rules! one_call {
    () => {
        concat!(
            include_str!("../lua/one_call.lua"),
            short_steps!(),
            include_str!("../lua/counter.lua"),
            include_str!("../lua/log.lua"),
            include_str!("../lua/meter.lua"),
            include_str!("../lua/reserve.lua"),
            include_str!("../lua/evaluate.lua"),
            include_str!("../lua/commit.lua"),
        )
    };
}

/// Steps of one call.
const CHARGE: &str = concat!(include_str!("../lua/layout.lua"), one_call!());
/// Steps of one call with budgets. It is a script of its own, so that others do not pay for it.
const CHARGE_BUDGETED: &str = concat!(
    include_str!("../lua/layout.lua"),
    include_str!("../lua/budgets.lua"),
    "local function step()\n",
    one_call!(),
    "end\nlocal answer = step()\nreturn type(answer) == 'string' and in_force .. answer or answer\n",
);
/// Steps of many calls, each with one charge.
const CHARGE_EACH: &str = concat!(
    include_str!("../lua/layout.lua"),
    include_str!("../lua/many_calls.lua"),
    short_steps!(),
    "dones[i] = done or pack('<I1', LEFT)\nend\nreturn table.concat(dones)\n",
);
const REPLACE: &str = include_str!("../lua/replace.lua");
/// Number of repetitions of a step beyond one for each of its charges, for values that change while they are replaced.
const REPETITIONS_MAX: usize = 4;

/// Binds `now` to the last argument: the clock of a test.
#[cfg(test)]
const TEST_TIME: &str = "local now = tonumber(table.remove(ARGV))\n";

pub(super) type StepResult = Result<ChargeResults, StoreError>;

#[derive(Clone)]
pub(super) struct Steps {
    pub(super) prefix: Arc<str>,
    key_fingerprint: u64,
    pub(super) connection: Arc<RedisConnection>,
    charge: Arc<Script>,
    charge_budgeted: Arc<Script>,
    charge_each: Arc<Script>,
    replace: Arc<Script>,
    #[cfg(test)]
    clock: Option<Arc<dyn Clock>>,
}

/// The script that charges counters; without keys it returns the store's time.
pub(super) fn charge_script() -> Script {
    Script::at_store_time(CHARGE)
}

fn charge_budgeted() -> String {
    format!("{KEY_CLAIM}{CHARGE_BUDGETED}")
}

impl Steps {
    pub(super) fn new(settings: &RedisSettings, connection: Arc<RedisConnection>) -> Self {
        Self {
            prefix: settings.prefix.as_str().into(),
            key_fingerprint: settings.key_fingerprint,
            connection,
            charge: Arc::new(charge_script()),
            charge_budgeted: Arc::new(Script::at_store_time(&charge_budgeted())),
            charge_each: Arc::new(Script::at_store_time(CHARGE_EACH)),
            replace: Arc::new(Script::new(REPLACE)),
            #[cfg(test)]
            clock: None,
        }
    }

    #[cfg(test)]
    pub(super) fn at_test_time(self, clock: Arc<dyn Clock>) -> Self {
        let [charge, charge_budgeted, charge_each] = [CHARGE, &charge_budgeted(), CHARGE_EACH]
            .map(|script| Arc::new(Script::new(&format!("{TEST_TIME}{script}"))));
        Self { charge, charge_budgeted, charge_each, clock: Some(clock), ..self }
    }

    /// Evaluates and charges these counters in one step on this socket, so that steps keep their order.
    pub(super) async fn run_on(&self, socket: &Arc<Socket>, charges: &[Charge]) -> StepResult {
        self.run_by(&ServerWay { socket, is_passing: false }, charges).await
    }

    /// Does the same for counters whose slot is on its way to the server.
    pub(super) async fn run_passing(&self, socket: &Arc<Socket>, charges: &[Charge]) -> StepResult {
        self.run_by(&ServerWay { socket, is_passing: true }, charges).await
    }

    async fn run_by(&self, way: &ServerWay<'_>, charges: &[Charge]) -> StepResult {
        let keys = self.keys(charges);
        for _ in 0..=charges.len() + REPETITIONS_MAX {
            match self.evaluate(way, &keys, charges).await? {
                StepAnswer::Expired(now) => return Err(StoreError::Expired(now)),
                StepAnswer::Evaluated(results) => return Ok(results),
                // A late step changes nothing, and the script finds a stale value before it finds a late charge.
                StepAnswer::Stale { now, .. } if codec::has_expired(charges, now) => {
                    return Err(StoreError::Expired(now));
                }
                // Charges of one step give a new counter two forms or windows.
                StepAnswer::Stale { value, .. } if value.is_empty() => return Err(StoreError::Contended),
                StepAnswer::Stale { charge, now, value } => {
                    let key = &keys[charge];
                    let replacement = conversion::replacement(&charges[charge], &value, now)
                        .ok_or_else(|| self.connection.value_unreadable(key))?;
                    self.replace(way, key, &value, &replacement).await?;
                }
            }
        }
        // Other agents change a value faster than it can be replaced.
        Err(StoreError::Contended)
    }

    /// Runs steps of different calls, each with one charge, in one script. The bench `redis_step` compares its cost with that of a
    /// script for each step. Returns none for a step that needs a [run of its own](Self::run_on): it has charged nothing.
    pub(super) async fn run_each(
        &self,
        socket: &Arc<Socket>,
        charges: &[Charge],
    ) -> Result<Vec<Option<ChargeResults>>, StoreError> {
        let keys = self.keys(charges);
        let args = self.args(charges);
        let answer: Vec<u8> = self.connection.run_on(socket, &self.charge_each, &keys, &args).await?;
        codec::read_each(&answer, charges).ok_or_else(|| self.connection.answer_unreadable())
    }

    pub(super) async fn evaluate(
        &self,
        way: &ServerWay<'_>,
        keys: &[String],
        charges: &[Charge],
    ) -> Result<StepAnswer, StoreError> {
        let args = self.args(charges);
        let script = if codec::has_budget(charges) { &self.charge_budgeted } else { &self.charge };
        let answer: Vec<u8> = self.connection.run_by(way, script, keys, &args).await?;
        if codec::is_of_other_key(&answer, charges) {
            self.connection.other_digest_key(&key_claim_key(&self.prefix));
        }
        StepAnswer::read(&answer, charges).ok_or_else(|| self.connection.answer_unreadable())
    }

    /// Replaces a value, unless it has changed. Returns whether it was replaced; no outcome charges anything.
    pub(super) async fn replace(
        &self,
        way: &ServerWay<'_>,
        key: &String,
        old: &[u8],
        new: &Replacement,
    ) -> Result<bool, StoreError> {
        let ttl_ms = new.ttl_ms.to_string();
        let args = [old, &new.value, ttl_ms.as_bytes()];
        let replaced = self.connection.run_by(way, &self.replace, &[key], &args).await;
        replaced.map_err(|error| if error.may_have_charged() { StoreError::Unreachable } else { error })
    }

    /// Arguments of the script, one for each charge, and with budgets the fingerprint of the digest key.
    fn args(&self, charges: &[Charge]) -> SmallVec<[Vec<u8>; 2]> {
        let args = charges.iter().map(charge_bytes);
        let args = args.chain(codec::has_budget(charges).then(|| self.key_fingerprint.to_le_bytes().to_vec()));
        #[cfg(test)]
        let args = args.chain(self.clock.as_ref().map(|clock| clock.now().as_ms().to_string().into_bytes()));
        args.collect()
    }

    /// Keys of the counters, then of what each charge wants besides.
    pub(super) fn keys(&self, charges: &[Charge]) -> SmallVec<[String; 2]> {
        let mut keys: SmallVec<[String; 2]> =
            charges.iter().map(|charge| self.counter(charge.slot, charge.counter)).collect();
        for (place, charge) in charges.iter().enumerate() {
            if let Some(id) = charge.request {
                keys.push(request(&keys[place], id));
            }
            keys.extend(charge.refunds_whole().map(|id| request(&keys[place], id)));
        }
        // The script takes these away first.
        for (place, charge) in charges.iter().enumerate() {
            if let Some(rule) = &charge.budget {
                let limit = limit_key(&keys[place]);
                keys.extend([limit, floor_key(&self.prefix, rule)]);
            }
        }
        keys.extend(codec::has_budget(charges).then(|| key_claim_key(&self.prefix)));
        keys
    }

    /// Key of a counter.
    pub(super) fn counter(&self, slot: HashSlotId, counter: CounterId) -> String {
        let prefix = &self.prefix;
        let of_slot = counter_key(prefix, slot);
        if slot.is_of(counter) { of_slot } else { format!("{of_slot}{counter}") }
    }
}

/// Key of a request id that was charged on a counter.
pub(super) fn request(counter: &str, id: RequestId) -> String {
    format!("{counter}:{id}")
}
