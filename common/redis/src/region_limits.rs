//! The limits of a region in Redis, beside the counters: the aggregator of the region writes them, and the script that charges
//! counters reads them (`agent/src/store/lua/budgets.lua`).
//!
//! A script decides on each write, as [`StoredLimit::after`] does, because several aggregators write. It refuses the writes of an
//! aggregator with another digest key than that of the region's agents ([`KEY_CLAIM`]).

use std::sync::Arc;

use tollgate_core::clock::{Clock, Timestamp};
use tollgate_core::counter::{CounterId, HashSlotId, StoreError};
use tollgate_core::regions::EntryId;
use tollgate_core::regions::limit_store::LimitStore;
use tollgate_core::regions::stored_limit::{Fence, LimitAnswer, LimitView, LimitWrite, ShownBudget, StoredLimit};

use crate::address::RedisAddressError;
use crate::connection::RedisConnection;
use crate::keys::{counter_key, floor_key, key_claim_key, limit_key};
use crate::script::Script;
use crate::settings::RedisSettings;

/// Largest number of a script that is exact. It stands for itself and for all larger ones.
const NUMBER_MAX: u64 = (1 << 53) - 1;
/// Length of a record without a fence.
const RECORD_LEN: usize = 57;
/// Length of its numbers.
const NUMBERS_LEN: usize = 49;
const WRITE: &str = include_str!("lua/region_limit.lua");
/// Returns the time and the record. A foreign value counts as none.
const READ: &str = "local found = redis.pcall('GET', KEYS[1])\nreturn { now, type(found) == 'string' and found or '' }";
/// Lua function `holds_region`, which tells if a digest key holds the region. It needs `now`.
pub const KEY_CLAIM: &str = include_str!("lua/key_claim.lua");
const NO_ARGS: &[&str] = &[];
/// Binds `now` to the last argument: the clock of a test.
const TEST_TIME: &str = "local now = tonumber(table.remove(ARGV))\n";

/// Limits of a region in Redis.
pub struct RegionLimits {
    connection: Arc<RedisConnection>,
    prefix: String,
    key_fingerprint: u64,
    write: Script,
    test_clock: Option<Arc<dyn Clock>>,
}

/// Answer of the script: the time, the record in force, the floor, and the units of the last window.
type ScriptAnswer = (u64, Vec<u8>, u64, u64);

impl RegionLimits {
    /// Limits with a connection of their own, which the first question for the time opens.
    ///
    /// # Errors
    /// When the address is not that of a Redis.
    pub fn new(settings: &RedisSettings, clock: Arc<dyn Clock>) -> Result<Self, RedisAddressError> {
        if settings.is_cluster() {
            return Err(RedisAddressError::Settings(
                "budgets of regions need one Redis, which holds the floors beside the counters; give a region one in place of the cluster",
            ));
        }
        let connection = RedisConnection::new(settings, clock, Script::store_time())?;
        Ok(Self::on(Arc::new(connection), settings))
    }

    /// Limits on this connection; the connection's owner pings it. Keys have the prefix of the counters.
    #[must_use]
    pub fn on(connection: Arc<RedisConnection>, settings: &RedisSettings) -> Self {
        let write = Script::at_store_time(&format!("{KEY_CLAIM}{WRITE}"));
        let (prefix, key_fingerprint) = (settings.prefix.clone(), settings.key_fingerprint);
        Self { connection, prefix, key_fingerprint, write, test_clock: None }
    }

    /// Returns these limits with a test's clock.
    #[doc(hidden)]
    #[must_use]
    pub fn at_test_time(self, clock: Arc<dyn Clock>) -> Self {
        Self { write: Script::new(&format!("{TEST_TIME}{KEY_CLAIM}{WRITE}")), test_clock: Some(clock), ..self }
    }

    /// Writes a record. Returns the answer, with the record as a limit.
    async fn write(&self, keys: &[String], write: &LimitWrite) -> Result<(ScriptAnswer, StoredLimit), StoreError> {
        let fingerprint = self.key_fingerprint.to_le_bytes().to_vec();
        let mut args = vec![record(write), write.seen.map(entry).unwrap_or_default(), fingerprint];
        args.extend(self.test_clock.as_ref().map(|clock| clock.now().as_ms().to_string().into_bytes()));
        let answer: ScriptAnswer = self.connection.run(&self.write, keys, &args).await?;
        let (limit, _) = read(&answer.1).ok_or_else(|| self.connection.answer_unreadable())?;
        Ok((answer, limit))
    }
}

impl LimitStore for RegionLimits {
    async fn write_limit(
        &self,
        rule: &str,
        counter: CounterId,
        write: &LimitWrite,
    ) -> Result<(Timestamp, LimitAnswer), StoreError> {
        let counter = counter_key(&self.prefix, HashSlotId::of(counter));
        let claim = key_claim_key(&self.prefix);
        let keys = [claim, limit_key(&counter), counter, floor_key(&self.prefix, rule)];
        let ((now_ms, _, floor, used), limit) = self.write(&keys, write).await?;
        let (floor, used) = (from_script(floor), from_script(used));
        Ok((Timestamp::from_ms(now_ms), LimitAnswer { limit, floor, used }))
    }

    async fn write_floor(&self, rule: &str, write: &LimitWrite) -> Result<(Timestamp, StoredLimit), StoreError> {
        let keys = [key_claim_key(&self.prefix), floor_key(&self.prefix, rule)];
        let ((now_ms, ..), limit) = self.write(&keys, write).await?;
        Ok((Timestamp::from_ms(now_ms), limit))
    }

    async fn time(&self) -> Result<Timestamp, StoreError> {
        self.connection.ping().await
    }
}

/// Returns a number as it was before it was written.
const fn from_script(number: u64) -> u64 {
    if number >= NUMBER_MAX { u64::MAX } else { number }
}

/// Reads the record of a counter's limit, for display; none if there is none, or a foreign value.
///
/// # Errors
/// When the store does not answer.
pub async fn read_limit(
    connection: &RedisConnection,
    prefix: &str,
    counter: CounterId,
) -> Result<Option<LimitView>, StoreError> {
    let key = limit_key(&counter_key(prefix, HashSlotId::of(counter)));
    let (now_ms, found): (u64, Vec<u8>) = connection.run(&Script::at_store_time(READ), &[key], NO_ARGS).await?;
    Ok(read(&found).map(|(limit, shown)| limit.view(shown, Timestamp::from_ms(now_ms))))
}

fn record(write: &LimitWrite) -> Vec<u8> {
    let StoredLimit { units, from, until, window_ms, ledger, as_of, fence } = write.limit;
    let ShownBudget { wants, moves } = write.shown;
    let mut bytes = Vec::with_capacity(RECORD_LEN + 40);
    for number in [units, until.as_ms(), as_of, from.as_ms(), window_ms, wants, moves] {
        bytes.extend_from_slice(&number.min(NUMBER_MAX).to_le_bytes()[..7]);
    }
    bytes.extend_from_slice(&ledger.to_le_bytes());
    if let Some(Fence { id, grant, keeps }) = fence {
        bytes.extend(entry(id).into_iter().chain(entry(grant)).chain(keeps.to_le_bytes()));
    }
    bytes
}

fn entry(id: EntryId) -> Vec<u8> {
    [id.writer.to_le_bytes(), id.sequence.to_le_bytes()].concat()
}

/// Reads a limit and what is shown with it; `None` if the record is not one.
fn read(record: &[u8]) -> Option<(StoredLimit, ShownBudget)> {
    let (limit, fence) = record.split_at_checked(RECORD_LEN)?;
    let (numbers, ledger) = limit.split_at(NUMBERS_LEN);
    let (numbers, _) = numbers.as_chunks::<7>();
    let ledger = u64::from_le_bytes(ledger.try_into().ok()?);
    let number = |place: usize| {
        let mut bytes = [0; 8];
        bytes[..7].copy_from_slice(numbers.get(place)?);
        Some(from_script(u64::from_le_bytes(bytes)))
    };
    let fence = match fence.as_chunks::<8>() {
        ([], []) => None,
        ([writer, sequence, grant_writer, grant_sequence, keeps], []) => {
            let entry = |writer: &[u8; 8], sequence: &[u8; 8]| EntryId {
                writer: u64::from_le_bytes(*writer),
                sequence: u64::from_le_bytes(*sequence),
            };
            let (id, grant) = (entry(writer, sequence), entry(grant_writer, grant_sequence));
            Some(Fence { id, grant, keeps: u64::from_le_bytes(*keeps) })
        }
        _ => return None,
    };
    let (from, until) = (Timestamp::from_ms(number(3)?), Timestamp::from_ms(number(1)?));
    let shown = ShownBudget { wants: number(5)?, moves: number(6)? };
    let (units, window_ms, as_of) = (number(0)?, number(4)?, number(2)?);
    Some((StoredLimit { units, from, until, window_ms, ledger, as_of, fence }, shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_as_it_was_written() {
        let id = |writer| EntryId { writer, sequence: 3 };
        let fence = Fence { id: id(u64::MAX), grant: id(8), keeps: u64::MAX };
        for (units, until_ms, fence) in [(0, 0, None), (7, u64::MAX, Some(fence)), (u64::MAX, 1 << 48, Some(fence))] {
            let (from, until) = (Timestamp::from_ms(until_ms >> 20), Timestamp::from_ms(until_ms));
            let (window_ms, ledger) = (1 << 45, u64::MAX - 1);
            let limit = StoredLimit { units, from, until, window_ms, ledger, as_of: 1 << 40, fence };
            let shown = ShownBudget { wants: units, moves: 7 };
            let write = LimitWrite { limit, shown, ..LimitWrite::default() };
            assert_eq!(read(&record(&write)), Some((limit, shown)));
        }
        for len in [0, 36, 43, 56, 58, 96, 98] {
            assert_eq!(read(&vec![1; len]), None, "{len}");
        }
    }
}
