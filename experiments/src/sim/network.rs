//! The way between the parts: draws the delay and the fate of each message from one random number generator.

use fastrand::Rng;

use super::faults::Faults;

/// The network of a simulation.
#[derive(Clone, Debug)]
pub(super) struct Network {
    pub(super) faults: Faults,
    pub(super) bus_is_up: bool,
    rng: Rng,
}

/// The fate of a record on its way to the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordFate {
    /// It is appended.
    Appended,
    /// It is appended, and once more after this many ms.
    AppendedTwice(u64),
    /// It is appended behind an undecodable record.
    AppendedAfterGarbage,
    /// It is lost.
    Lost,
}

/// The report to the writer of a record that was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckFate {
    /// It says the offset.
    Delivered,
    /// It says that the record is lost.
    Negated,
    /// It never arrives.
    Lost,
}

/// The fate of a request at a store that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestFate {
    /// It is executed and answered.
    Answered,
    /// It is executed, and the connection breaks before the answer.
    AnswerLost,
    /// It is refused.
    Refused,
}

impl Network {
    pub(super) fn new(seed: u64, faults: Faults) -> Self {
        Self { faults, bus_is_up: true, rng: Rng::with_seed(seed) }
    }

    /// Returns the delay of a message between an agent and the store.
    pub(super) fn store_delay_ms(&mut self) -> u64 {
        self.rng.u64(0..=self.faults.store_ms_max)
    }

    /// Returns the delay of a record on its way to the bus.
    pub(super) fn append_delay_ms(&mut self) -> u64 {
        self.faults.bus_late_ms + self.rng.u64(0..=self.faults.bus_ms_max)
    }

    /// Returns the delay of a reader behind the end of a log.
    pub(super) fn read_delay_ms(&mut self) -> u64 {
        self.rng.u64(0..=self.faults.bus_ms_max)
    }

    pub(super) fn ack_delay_ms(&mut self) -> u64 {
        self.rng.u64(0..=self.faults.ack_ms_max)
    }

    pub(super) fn request_fate(&mut self) -> RequestFate {
        let faults = self.faults;
        match self.strikes([faults.store_refused_percent, faults.store_answer_lost_percent, 0]) {
            Some(0) => RequestFate::Refused,
            Some(_) => RequestFate::AnswerLost,
            None => RequestFate::Answered,
        }
    }

    pub(super) fn record_fate(&mut self) -> RecordFate {
        let faults = self.faults;
        let rates = [faults.record_lost_percent, faults.record_duplicated_percent, faults.garbage_percent];
        match self.strikes(rates) {
            Some(0) => RecordFate::Lost,
            Some(1) => RecordFate::AppendedTwice(self.rng.u64(0..=3 * faults.bus_ms_max)),
            Some(_) => RecordFate::AppendedAfterGarbage,
            None => RecordFate::Appended,
        }
    }

    pub(super) fn ack_fate(&mut self) -> AckFate {
        let faults = self.faults;
        match self.strikes([faults.ack_negated_percent, faults.ack_lost_percent, 0]) {
            Some(0) => AckFate::Negated,
            Some(_) => AckFate::Lost,
            None => AckFate::Delivered,
        }
    }

    /// Returns the place of the fault that strikes, of faults that exclude each other.
    fn strikes(&mut self, percentages: [u8; 3]) -> Option<usize> {
        let mut drawn = self.rng.u8(0..100);
        percentages.iter().position(|percent| {
            let strikes = drawn < *percent;
            drawn = drawn.saturating_sub(*percent);
            strikes
        })
    }
}
