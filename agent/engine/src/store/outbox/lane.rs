//! One lane of the outbox: counters that wait in turn, and those that wait for the next round.
//!
//! If a request fails because of one counter, each of its counters is sent alone, so that no counter keeps the charges of the
//! others from the store.

use std::collections::VecDeque;

/// Counters that wait in turn.
#[derive(Debug)]
pub(super) struct Lane<T> {
    waiting: VecDeque<T>,
    /// Number of the next counters that are sent alone.
    alone: usize,
    next_round: VecDeque<T>,
}

/// Turn of counters whose request was not the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// In this round, before all others.
    First,
    /// In this round, after all others.
    Last,
    /// Next, each in a request of its own.
    Alone,
    NextRound,
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), alone: 0, next_round: VecDeque::new() }
    }
}

impl<T> Lane<T> {
    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.next_round.len()
    }

    pub(super) fn push(&mut self, counter: T) {
        self.waiting.push_back(counter);
    }

    pub(super) fn is_next_alone(&self) -> bool {
        self.alone > 0
    }

    /// Returns the next counter of this round, else that of the next one.
    pub(super) fn next(&self) -> Option<&T> {
        self.waiting.front().or(self.next_round.front())
    }

    /// Removes the next counter of the round.
    pub(super) fn pop(&mut self) -> Option<T> {
        self.alone = self.alone.saturating_sub(1);
        self.waiting.pop_front()
    }

    /// Removes the next counter of the round, else that of the next round, if it is due.
    pub(super) fn pop_if(&mut self, is_due: impl FnOnce(&T) -> bool) -> Option<T> {
        let next = self.pop();
        next.or_else(|| if is_due(self.next_round.front()?) { self.next_round.pop_front() } else { None })
    }

    /// Removes a counter to make room.
    pub(super) fn pop_oldest(&mut self) -> Option<T> {
        self.next_round.pop_front().or_else(|| self.waiting.pop_front())
    }

    pub(super) fn end_round(&mut self) {
        self.waiting.append(&mut self.next_round);
    }

    pub(super) fn put_back(&mut self, counters: Vec<T>, turn: Turn) {
        match turn {
            Turn::Last => self.waiting.extend(counters),
            Turn::NextRound => self.next_round.extend(counters),
            Turn::First | Turn::Alone => {
                if turn == Turn::Alone {
                    self.alone = counters.len();
                }
                counters.into_iter().rev().for_each(|counter| self.waiting.push_front(counter));
            }
        }
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.waiting.retain(&keep);
        self.next_round.retain(&keep);
    }
}
