//! A part of a plan: the requests and incidents that are left of it, and the faults that are left out. Its text is the value
//! of `TOLLGATE_KEEP`, by which a run of the part is repeated.

use std::fmt::{self, Display};
use std::str::FromStr;

use strum::{Display as Named, EnumString, VariantArray};
use tollgate_sim::Faults;

use super::Plan;
use super::clients::Retrying;
use super::incident::Incident;

/// Rest of a plan. Requests and incidents are given by their places in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rest {
    pub(crate) agents: usize,
    pub(crate) until_ms: u64,
    pub(crate) requests: Vec<usize>,
    pub(crate) incidents: Vec<usize>,
    pub(crate) without: Vec<Hazard>,
}

/// A hazard that a plan may have and that a part of it may leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Named, EnumString, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Hazard {
    StoreDelays,
    StoreRefusals,
    LateAnswers,
    LostAnswers,
    BusDelays,
    LostRecords,
    Duplicates,
    Garbage,
    LateReports,
    WrongReports,
    LostReports,
    ShortQueues,
    ClockOffsets,
    ClockDrifts,
    OwnTables,
    FewCounters,
    Retries,
}

impl Rest {
    pub(crate) fn whole(plan: &Plan) -> Self {
        Self {
            agents: plan.settings.agents.len(),
            until_ms: plan.run_ms,
            requests: (0..plan.requests.len()).collect(),
            incidents: (0..plan.incidents.len()).collect(),
            without: Vec::new(),
        }
    }

    pub(crate) fn of(&self, plan: &Plan) -> Plan {
        let requests = self.requests.iter().filter_map(|place| plan.requests.get(*place));
        let requests =
            requests.filter(|request| request.agent < self.agents && request.at_ms <= self.until_ms).cloned();
        let incidents = self.incidents.iter().filter_map(|place| plan.incidents.get(*place));
        let incidents = incidents
            .filter(|it| it.what.agent_max().is_none_or(|agent| agent < self.agents) && it.at_ms <= self.until_ms)
            .cloned();
        let mut part = Plan { requests: requests.collect(), incidents: incidents.collect(), ..plan.clone() };
        part.run_ms = self.until_ms;
        part.settings.agents.truncate(self.agents);
        self.without.iter().for_each(|hazard| hazard.leave_out(&mut part));
        part
    }
}

impl Rest {
    /// Returns what is left of a plan, for people.
    pub(crate) fn summary(&self, plan: &Plan) -> String {
        let part = self.of(plan);
        let calls: usize = part.requests.iter().map(|request| request.calls.len()).sum();
        let left = Hazard::VARIANTS.iter().filter(|hazard| !self.without.contains(hazard));
        let left: Vec<_> = left.map(ToString::to_string).collect();
        let hazards = if left.is_empty() { "no hazard".to_owned() } else { left.join(", ") };
        let head = format!("{} agents, {calls} calls in {} ms, {hazards}", self.agents, self.until_ms);
        let incidents = part.incidents.iter().map(|incident| {
            let Incident { at_ms, lasts_ms, what } = incident;
            format!("\n  at {at_ms} ms for {lasts_ms} ms: {what:?}")
        });
        [head].into_iter().chain(incidents).collect()
    }
}

impl Hazard {
    fn leave_out(self, plan: &mut Plan) {
        let none = Faults::default();
        let settings = &mut plan.settings;
        let faults = &mut settings.faults;
        match self {
            Self::StoreDelays => faults.store_ms_max = none.store_ms_max,
            Self::StoreRefusals => faults.store_refused_percent = none.store_refused_percent,
            Self::LateAnswers => faults.store_late_percent = none.store_late_percent,
            Self::LostAnswers => faults.store_answer_lost_percent = none.store_answer_lost_percent,
            Self::BusDelays => faults.bus_ms_max = none.bus_ms_max,
            Self::LostRecords => faults.record_lost_percent = none.record_lost_percent,
            Self::Duplicates => faults.record_duplicated_percent = none.record_duplicated_percent,
            Self::Garbage => faults.garbage_percent = none.garbage_percent,
            Self::LateReports => faults.ack_ms_max = none.ack_ms_max,
            Self::WrongReports => faults.ack_negated_percent = none.ack_negated_percent,
            Self::LostReports => faults.ack_lost_percent = none.ack_lost_percent,
            Self::ShortQueues => faults.queue_len_max = none.queue_len_max,
            Self::ClockOffsets => {
                settings.agents.iter_mut().for_each(|agent| agent.clock_offset_ms = 0);
                plan.clock_offset_ms_max = 0;
            }
            Self::ClockDrifts => {
                settings.store_drift_ppm = 0;
                settings.agents.iter_mut().for_each(|agent| agent.clock_drift_ppm = 0);
            }
            Self::OwnTables => settings.agents.iter_mut().for_each(|agent| agent.owns_table = false),
            Self::FewCounters => settings.counters_max = 10_000,
            Self::Retries => plan.retrying = Retrying::Never,
        }
    }
}

impl Display for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { agents, until_ms, requests, incidents, without } = self;
        write!(f, "agents={agents} until={until_ms} requests={} incidents={}", ranges(requests), ranges(incidents))?;
        let without: Vec<_> = without.iter().map(ToString::to_string).collect();
        write!(f, " without={}", without.join(","))
    }
}

impl FromStr for Rest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut part =
            Self { agents: 0, until_ms: 0, requests: Vec::new(), incidents: Vec::new(), without: Vec::new() };
        for field in text.split_whitespace() {
            let (name, value) = field.split_once('=').ok_or_else(|| format!("{field} has no value"))?;
            match name {
                "agents" => part.agents = number(value)?,
                "until" => part.until_ms = number(value)?,
                "requests" => part.requests = places(value)?,
                "incidents" => part.incidents = places(value)?,
                "without" => {
                    let hazards = value.split(',').filter(|name| !name.is_empty());
                    let named = |name: &str| name.parse().map_err(|_| format!("{name} is no hazard"));
                    part.without = hazards.map(named).collect::<Result<_, _>>()?;
                }
                _ => return Err(format!("{name} is none of agents, until, requests, incidents and without")),
            }
        }
        Ok(part)
    }
}

/// Returns places in ascending order as ranges: `0-3,7`.
fn ranges(places: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for place in places {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *place => *last = *place,
            _ => ranges.push((*place, *place)),
        }
    }
    let text =
        |(first, last): &(usize, usize)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

fn places(text: &str) -> Result<Vec<usize>, String> {
    let mut places = Vec::new();
    for range in text.split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        places.extend(number::<usize>(first)?..=number(last)?);
    }
    Ok(places)
}

fn number<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("{text} is no number"))
}
