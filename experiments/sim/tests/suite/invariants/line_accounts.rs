//! never-over, the account of each line of credit: an agent draws and hands back no more units than the store has granted it,
//! and only a call that the store has charged gives units back to the line.
//!
//! The account goes by the instants at which the store executes charges, so it is never behind the agent's knowledge. A line
//! is known by its charge, which no call is part of. Counters of lines are named by those of their calls.

use std::collections::HashMap;

use tollgate::LocalAnswer;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeMode, ChargeResult, CounterId};
use tollgate_sim::{AnsweredCall, Observation, SimNode, Ticket};

use super::facts::Facts;
use super::lines::Lines;

/// Maximum time for which an answer of the store is on its way, in ms.
const ANSWER_MS_MAX: u64 = 100;

/// Units of the lines of all agents.
#[derive(Default)]
pub(crate) struct LineAccounts {
    /// The newest line at the end. The hand-back of an earlier one may come late, after the agent's next request.
    held: HashMap<(usize, CounterId), Vec<Line>>,
    /// Units that calls have drawn and that the store has not charged.
    drawn: HashMap<Ticket, Vec<Draw>>,
    lives: HashMap<usize, u64>,
    grants: u64,
    pub(crate) handed_back: u64,
}

#[derive(Default)]
struct Line {
    grant: u64,
    /// Instant of the grant, by which a hand-back names its line.
    at: Timestamp,
    units: i64,
}

struct Draw {
    agent: usize,
    counter: CounterId,
    grant: u64,
    units: i64,
}

impl LineAccounts {
    /// `lines` has seen the observation.
    pub(crate) fn observe(
        &mut self,
        facts: &Facts,
        lines: &Lines,
        observation: &Observation<'_>,
    ) -> Result<(), String> {
        match observation {
            Observation::Started(SimNode::Agent(agent)) => *self.lives.entry(*agent).or_default() += 1,
            Observation::Ended(SimNode::Agent(agent)) => self.held.retain(|(of, _), _| of != agent),
            Observation::Executed { agent, life, ticket, charges, answer: Ok(results), .. }
                if self.lives.get(agent) == Some(life) =>
            {
                for (charge, _) in charges.iter().zip(results).filter(|(_, result)| result.charged) {
                    self.restore(*ticket, charge.counter);
                }
                for (charge, result) in charges.iter().zip(results).filter(|(_, result)| result.charged) {
                    self.line_charged(*agent, charge, result)?;
                }
            }
            Observation::Answered(answered) if answered.decision.by == Some(LocalAnswer::Allowance) => {
                return self.draw(facts, lines, answered);
            }
            _ => {}
        }
        Ok(())
    }

    /// The store has charged a call on a counter.
    fn restore(&mut self, ticket: Ticket, counter: CounterId) {
        let Some(drawn) = self.drawn.get_mut(&ticket) else { return };
        for draw in drawn.extract_if(.., |draw| draw.counter == counter) {
            let lines = self.held.get_mut(&(draw.agent, counter)).into_iter().flatten();
            for line in lines.filter(|line| line.grant == draw.grant) {
                line.units += draw.units;
            }
        }
    }

    fn line_charged(&mut self, agent: usize, charge: &Charge, result: &ChargeResult) -> Result<(), String> {
        let key = (agent, charge.counter.line());
        match charge.mode {
            // One without units leaves the line before it as it is.
            ChargeMode::Lease { .. } if charge.cost == 0 && result.leased > 0 => {
                self.grants += 1;
                let line = Line { grant: self.grants, at: result.at, units: signed(result.leased) };
                self.held.entry(key).or_default().push(line);
            }
            ChargeMode::Refund { at } => {
                let Some(lines) = self.held.get_mut(&key) else { return Ok(()) };
                let named = lines.iter().rposition(|line| line.at == at).unwrap_or(lines.len() - 1);
                let (held, handed_back) = (lines[named].units, charge.cost);
                self.handed_back += handed_back;
                // A call may have drawn on the line before, while the answer with this one was on its way.
                let is_near = |line: &&mut Line| line.at.ms_since(at).max(at.ms_since(line.at)) <= ANSWER_MS_MAX;
                let missing = (signed(handed_back) - held).max(0);
                lines[named].units -= signed(handed_back) - missing;
                let mut others = lines.iter_mut().filter(is_near).filter(|line| line.units >= missing);
                let Some(other) = others.next() else {
                    return Err(format!(
                        "never-over: agent {agent} hands back {handed_back} units of a line that has {held} left"
                    ));
                };
                other.units -= missing;
            }
            _ => {}
        }
        Ok(())
    }

    fn draw(&mut self, facts: &Facts, lines: &Lines, answered: &AnsweredCall<'_>) -> Result<(), String> {
        let (agent, Some(ticket)) = (answered.agent, answered.ticket) else { return Ok(()) };
        let applied = facts.applied(answered.generation, &answered.call).into_iter();
        for applied in applied.filter(|applied| !lines.is_charged(ticket, applied.counter)) {
            let (counter, units) = (applied.counter, signed(applied.cost));
            let lines = self.held.entry((agent, counter)).or_insert_with(|| vec![Line::default()]);
            // While the answer with the newest line is on its way, a call draws on the one before.
            let newest = lines.last().expect("lines of a counter are not empty").at;
            let is_known = answered.decision.at.ms_since(newest) > ANSWER_MS_MAX;
            let has_units = |line: &Line| !is_known && line.units >= units;
            let before = lines.iter().rposition(has_units).filter(|place| place + 2 >= lines.len());
            let drawn = before.unwrap_or(lines.len() - 1);
            let line = &mut lines[drawn];
            line.units -= units;
            self.drawn.entry(ticket).or_default().push(Draw { agent, counter, grant: line.grant, units });
            if line.units < 0 {
                let (over, rule) = (-line.units, &applied.rule.name);
                return Err(format!(
                    "never-over: agent {agent} draws {over} units too much of its line under `{rule}`"
                ));
            }
        }
        Ok(())
    }
}

fn signed(units: u64) -> i64 {
    i64::try_from(units).unwrap_or(i64::MAX)
}
