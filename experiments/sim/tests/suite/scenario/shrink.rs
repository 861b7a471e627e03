//! Shrinking: a plan whose run breaks an invariant is cut down as long as the run breaks the same one.
//!
//! The parts of a plan are left out one after the other: agents, whole hazards, and then incidents and requests by delta
//! debugging (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", 2002): half of a list, then
//! quarters, and so on. A part may break the invariant for another reason than the whole; it is a bug all the same.

use strum::VariantArray;

use super::Plan;
use super::rest::{Hazard, Rest};

const RUNS_MAX: usize = 600;

struct Search<'a> {
    breaks: &'a dyn Fn(&Rest) -> bool,
    part: Rest,
    runs: usize,
}

/// Returns a small part of a plan of which `breaks` is true, as it is of the whole.
pub(crate) fn shrink(plan: &Plan, breaks: &dyn Fn(&Rest) -> bool) -> Rest {
    let mut search = Search { breaks, part: Rest::whole(plan), runs: 0 };
    // Requests are most of a plan, so the others are left out of shorter runs.
    search.shorten();
    search.leave_out(|part| &mut part.requests);
    search.leave_out(|part| &mut part.incidents);
    while search.part.agents > 1 && search.holds(|part| part.agents -= 1) {}
    for hazard in Hazard::VARIANTS {
        search.holds(|part| part.without.push(*hazard));
    }
    search.leave_out(|part| &mut part.incidents);
    search.leave_out(|part| &mut part.requests);
    search.shorten();
    search.part
}

impl Search<'_> {
    /// Changes the part if it breaks the invariant still; returns false if it does not.
    fn holds(&mut self, change: impl FnOnce(&mut Rest)) -> bool {
        let mut smaller = self.part.clone();
        change(&mut smaller);
        if self.runs >= RUNS_MAX || smaller == self.part {
            return false;
        }
        self.runs += 1;
        let holds = (self.breaks)(&smaller);
        if holds {
            self.part = smaller;
        }
        holds
    }

    /// Ends the run earlier, by ever smaller steps.
    fn shorten(&mut self) {
        let mut by_ms = self.part.until_ms / 2;
        while by_ms > 10 {
            if !self.holds(|part| part.until_ms = part.until_ms.saturating_sub(by_ms)) {
                by_ms /= 2;
            }
        }
    }

    /// Leaves places out of a list: large pieces first.
    fn leave_out(&mut self, list: fn(&mut Rest) -> &mut Vec<usize>) {
        let mut len = list(&mut self.part).len();
        while len > 0 {
            let mut from = 0;
            while from < list(&mut self.part).len() {
                let is_gone = self.holds(|part| {
                    let list = list(part);
                    list.drain(from..list.len().min(from + len));
                });
                from += if is_gone { 0 } else { len };
            }
            len /= 2;
        }
    }
}
