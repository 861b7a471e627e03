//! The bytes between the agent and the step that charges (`steps/take.lua`).
//!
//! The step decides; the agent words the verdict. So an answer holds what was counted, as units at instants, and the limit
//! by which it was judged: entered into a fresh [`State`] they read as the counter did, and the arithmetic stays in one
//! place. A counter that was only added to is a single such entry.

use redis::ToRedisArgs;
use tollgate_common::algorithm::{Algorithm, Limit, State};
use tollgate_common::clock::Timestamp;
use tollgate_common::window::{Estimate, Window};

use crate::enforce::{Take, TakeKind, Taken};
use crate::store::{Answers, StoreError};

/// Above this a script's numbers are not exact; larger quotas, times and generations read as this.
const EXACT_MAX: u64 = (1 << 53) - 1;
const TAKE_LEN: usize = 35;

/// A take as the script reads it.
pub(super) struct Packed([u8; TAKE_LEN]);

/// What a step says besides its answers.
pub(super) struct Stepped<'a> {
    pub(super) now: Timestamp,
    outcome: u8,
    rest: Bytes<'a>,
}

/// What is not yet read of a reply.
struct Bytes<'a>(&'a [u8]);

const LATE: u8 = 0;
const CHARGED: u8 = 2;

impl Packed {
    pub(super) fn new(take: &Take) -> Self {
        let (owed, time) = match take.kind {
            TakeKind::Ask { expires_at } | TakeKind::Count { expires_at } => (false, expires_at),
            TakeKind::Owed { at } | TakeKind::GiveBack { at } => (true, at),
        };
        let window = take.limit.window;
        let mut bytes = [0; TAKE_LEN];
        let mut rest = &mut bytes[..];
        let mut put = |len: usize, number: u64| {
            let (field, left) = std::mem::take(&mut rest).split_at_mut(len);
            field.copy_from_slice(&number.to_le_bytes()[..len]);
            rest = left;
        };
        put(1, u64::from(kind_of(take.limit.algorithm)));
        put(1, u64::from(owed));
        put(1, u64::from(window.parts()));
        put(4, window.width_ms());
        put(7, take.limit.units.min(EXACT_MAX));
        put(7, take.generation.min(EXACT_MAX));
        // More than any quota, and still exact.
        put(7, take.cost.min(EXACT_MAX + 1));
        put(7, time.as_ms().min(EXACT_MAX));
        Self(bytes)
    }
}

impl ToRedisArgs for Packed {
    fn write_redis_args<W: ?Sized + redis::RedisWrite>(&self, out: &mut W) {
        out.write_arg(&self.0);
    }
}

impl<'a> Stepped<'a> {
    /// Reads the head of a reply; `None` when it makes no sense.
    pub(super) fn read(reply: &'a [u8]) -> Option<Self> {
        let mut rest = Bytes(reply);
        let outcome = rest.byte()?;
        Some(Self { now: rest.time()?, outcome, rest })
    }

    /// The answers to these takes; `None` when they make no sense.
    pub(super) fn answers(mut self, takes: &[Take]) -> Option<Result<Answers, StoreError>> {
        if self.outcome == LATE {
            return Some(Err(StoreError::Expired));
        }
        let charged = self.outcome == CHARGED;
        let answers: Option<Answers> = takes.iter().map(|take| self.rest.answer(take.cost, charged)).collect();
        Some(Ok(answers.filter(|_| self.rest.0.is_empty())?))
    }
}

impl Bytes<'_> {
    fn number(&mut self, len: usize) -> Option<u64> {
        let (field, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        let mut bytes = [0; 8];
        bytes[..len].copy_from_slice(field);
        Some(u64::from_le_bytes(bytes))
    }

    fn byte(&mut self) -> Option<u8> {
        u8::try_from(self.number(1)?).ok()
    }

    fn time(&mut self) -> Option<Timestamp> {
        self.number(6).map(Timestamp::from_ms)
    }

    fn answer(&mut self, cost: u64, charged: bool) -> Option<Taken> {
        let algorithm = algorithm_of(self.byte()?)?;
        let rebased = self.byte()? == 1;
        let parts = u32::from(self.byte()?);
        let window = Window::new(self.number(4)?, parts).ok()?;
        let limit = Limit { algorithm, units: self.number(7)?, window, burst: 0 };
        let at = self.time()?;
        let mut state = State::new(&limit);
        for _ in 0..self.number(2)? {
            let held_at = self.time()?;
            state.charge(held_at, self.number(7)?);
        }
        let at = state.advance(at).now;
        let verdict = state.judge(&limit, at, cost);
        Some(Taken { verdict, charged, repeated: false, firm: true, at, limit: limit.units, rebased })
    }
}

const fn kind_of(algorithm: Algorithm) -> u8 {
    match algorithm {
        Algorithm::SlidingWindow(Estimate::Interpolated) => 1,
        Algorithm::SlidingWindow(_) => 2,
        Algorithm::SlidingLog => 3,
        Algorithm::FixedWindow => 4,
        Algorithm::TokenBucket => 5,
        Algorithm::LeakyBucket => 6,
        Algorithm::Concurrency => 7,
    }
}

const fn algorithm_of(kind: u8) -> Option<Algorithm> {
    match kind {
        1 => Some(Algorithm::SlidingWindow(Estimate::Interpolated)),
        2 => Some(Algorithm::SlidingWindow(Estimate::Conservative)),
        3 => Some(Algorithm::SlidingLog),
        _ => None,
    }
}
