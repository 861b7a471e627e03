//! The bytes between the agent and the step that charges (`steps/evaluate.lua`).
//!
//! The step decides; the agent words the verdict. So an answer holds what was counted, as units at instants, and the limit
//! by which it was judged: entered into a fresh [`CounterState`] they read as the counter did, and the arithmetic stays in one
//! place. A counter that was only added to is a single such entry.

use smallvec::SmallVec;
use tollgate_core::algorithm::{Algorithm, CounterState, Limit};
use tollgate_core::clock::Timestamp;
use tollgate_core::window::{Estimate, Window};

use crate::store::StoreError;
use tollgate_core::counter::ChargeResults;
use tollgate_core::counter::{Charge, ChargeMode, ChargeResult};

/// Above this a script's numbers are not exact; larger quotas, times and generations read as this.
const EXACT_MAX: u64 = (1 << 53) - 1;
/// What a take is packed into, at most; all but a few kinds need less.
const TAKE_LEN_MAX: usize = 59;

/// A take as the script reads it.
pub(super) struct Packed(SmallVec<[u8; TAKE_LEN_MAX]>);

/// Whose tentative units are.
pub(super) type Token = u64;

/// How a step charges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// It is the whole call, and every call is one step.
    Whole,
    /// It is the whole call, but others may have charged tentatively.
    WholeAmongOthers,
    /// It is a part of a call: questions are charged tentatively, and nothing at all later than `expires_at`.
    Part { token: Token, expires_at: Timestamp },
    /// It gives back what a part had charged, unless that has confirmed itself.
    TakeBack { token: Token },
}

/// What a step says besides its answers.
pub(super) struct Stepped<'a> {
    outcome: u8,
    rest: Bytes<'a>,
}

/// What is not yet read of a reply.
struct Bytes<'a>(&'a [u8]);

const LATE: u8 = 0;
const CHARGED: u8 = 2;

/// What a take wants besides: its request is looked up, tentative units are, it is tentative itself.
const NAMED: u8 = 8;
const BESIDE_TENTATIVE: u8 = 16;
const TENTATIVE: u8 = 32;

/// What an answer says besides.
const REBASED: u8 = 1;
const REPEATED: u8 = 2;
const LOOSE: u8 = 4;

impl Manner {
    /// Whether the step looks at tentative units.
    pub(super) const fn sees_tentative(self) -> bool {
        !matches!(self, Self::Whole)
    }

    /// What is added to what a take is, and what is appended to it.
    const fn flags(self) -> (u8, Option<(Token, Timestamp)>) {
        match self {
            Self::Whole => (0, None),
            Self::WholeAmongOthers => (BESIDE_TENTATIVE, None),
            Self::Part { token, expires_at } => (BESIDE_TENTATIVE + TENTATIVE, Some((token, expires_at))),
            Self::TakeBack { token } => (BESIDE_TENTATIVE + TENTATIVE, Some((token, Timestamp::from_ms(EXACT_MAX)))),
        }
    }
}

impl Packed {
    pub(super) fn new(take: &Charge, manner: Manner) -> Self {
        let (what, time) = match take.mode {
            _ if matches!(manner, Manner::TakeBack { .. }) => (4, Timestamp::default()),
            ChargeMode::Enforce { expires_at } => (0, expires_at),
            ChargeMode::CountOnly { expires_at } => (1, expires_at),
            ChargeMode::Backfill { at } => (2, at),
            ChargeMode::Refund { at } => (3, at),
        };
        let (flags, tail) = manner.flags();
        let (window, kind) = (take.limit.window, kind_of(&take.limit));
        let mut bytes = SmallVec::new();
        let mut put = |len: usize, number: u64| bytes.extend_from_slice(&number.to_le_bytes()[..len]);
        put(1, u64::from(kind));
        put(1, u64::from(what + if take.request.is_some() { NAMED } else { 0 } + flags));
        put(1, u64::from(window.parts()));
        put(6, window.width_ms());
        put(7, take.limit.units.min(EXACT_MAX));
        put(7, take.generation.min(EXACT_MAX));
        // More than any quota, and still exact.
        put(7, take.cost.min(EXACT_MAX + 1));
        put(7, time.as_ms().min(EXACT_MAX));
        if has_burst(kind) {
            put(7, take.limit.burst.min(EXACT_MAX));
        }
        if let Some((token, expires_at)) = tail {
            put(8, token);
            put(7, expires_at.as_ms().min(EXACT_MAX));
        }
        Self(bytes)
    }

    /// The time of a test, as the script's last argument.
    #[cfg(test)]
    pub(super) fn test_time(now: Timestamp) -> Self {
        Self(now.as_ms().to_string().into_bytes().into())
    }
}

impl AsRef<[u8]> for Packed {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl<'a> Stepped<'a> {
    /// Reads the head of a reply; `None` when it makes no sense.
    pub(super) fn read(reply: &'a [u8]) -> Option<Self> {
        let mut rest = Bytes(reply);
        let outcome = rest.byte()?;
        rest.time()?;
        Some(Self { outcome, rest })
    }

    /// The answers to these takes; `None` when they make no sense.
    pub(super) fn answers(mut self, takes: &[Charge]) -> Option<Result<ChargeResults, StoreError>> {
        if self.outcome == LATE {
            return Some(Err(StoreError::Expired));
        }
        let charged = self.outcome == CHARGED;
        let answers: Option<ChargeResults> = takes.iter().map(|take| self.rest.answer(take, charged)).collect();
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

    fn answer(&mut self, take: &Charge, room: bool) -> Option<ChargeResult> {
        let kind = self.byte()?;
        let flags = self.byte()?;
        let parts = u32::from(self.byte()?);
        let window = Window::new(self.number(6)?, parts).ok()?;
        let mut limit = Limit { algorithm: algorithm_of(kind)?, units: self.number(7)?, window, burst: 0 };
        let at = self.time()?;
        let mut state = CounterState::new(&limit);
        for _ in 0..self.number(2)? {
            let held_at = self.time()?;
            state.charge(held_at, self.number(7)?);
        }
        let at = state.advance(at).now;
        if has_burst(kind) {
            limit.burst = self.number(7)?;
            state = if is_bucket(kind) {
                let charged_at = self.time()?;
                state.with_meter(&limit, charged_at, self.number(7)?)
            } else {
                state.with_spent(&limit, self.number(7)?)
            };
        }
        let repeated = flags & REPEATED != 0;
        let free = repeated || matches!(take.mode, ChargeMode::Refund { .. });
        let mut verdict = state.evaluate(&limit, at, if free { 0 } else { take.cost });
        verdict.admitted |= repeated;
        let charged = room || !matches!(take.mode, ChargeMode::Enforce { .. });
        let (firm, rebased) = (flags & LOOSE == 0, flags & REBASED != 0);
        Some(ChargeResult { verdict, charged, repeated, firm, at, limit: limit.units, rebased })
    }
}

fn kind_of(limit: &Limit) -> u8 {
    // The form of old has no place for a burst, nor for a window above 49 days.
    let wide = limit.burst > 0 || limit.window.width_ms() > u64::from(u32::MAX);
    match limit.algorithm {
        Algorithm::SlidingWindow(Estimate::Interpolated) if wide => 8,
        Algorithm::SlidingWindow(_) if wide => 9,
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
        1 | 8 => Some(Algorithm::SlidingWindow(Estimate::Interpolated)),
        2 | 9 => Some(Algorithm::SlidingWindow(Estimate::Conservative)),
        3 => Some(Algorithm::SlidingLog),
        4 => Some(Algorithm::FixedWindow),
        5 => Some(Algorithm::TokenBucket),
        6 => Some(Algorithm::LeakyBucket),
        7 => Some(Algorithm::Concurrency),
        _ => None,
    }
}

const fn is_bucket(kind: u8) -> bool {
    matches!(kind, 5 | 6)
}

const fn has_burst(kind: u8) -> bool {
    is_bucket(kind) || matches!(kind, 8 | 9)
}
