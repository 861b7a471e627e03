//! One world of several regions: each has agents, a store, a bus and aggregators of its own, and all share one queue of events.
//!
//! The aggregators of the regions share a ledger in the home cluster, which is that of the first region, over links with delays and
//! faults. The world moves the records of the ledger; everything else happens in the regions.

use tollgate::RuleSet;
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::ledger::{LedgerEntry, LedgerRecord, Terms};

use super::environment::LedgerDispatch;
use super::event::SimEvent;
use super::faults::MirrorFaults;
use super::ledger_log::LedgerLog;
use super::mirror_link::MirrorLink;
use super::random_stream::random_stream;
use super::region_mistake::RegionMistake;
use super::scheduler::Scheduler;
use super::settings::SimSettings;
use super::simulation::Simulation;

/// Regions in virtual time, with their ledger.
pub struct SimRegions<'c> {
    scheduler: Scheduler,
    regions: Vec<Simulation<'c>>,
    links: Vec<MirrorLink>,
    ledger: LedgerLog,
    mistake: Option<RegionMistake>,
}

impl<'c> SimRegions<'c> {
    /// Returns a world of these regions, each with the faults of its link. The first one is the home of the ledger. All agents
    /// enforce these rules.
    #[must_use]
    pub fn new(seed: u64, regions: Vec<(SimSettings, MirrorFaults)>, rules: &RuleSet) -> Self {
        let start = regions.first().map_or_else(Timestamp::default, |(settings, _)| settings.start);
        let scheduler = Scheduler::new(start);
        let (settings, faults): (Vec<_>, Vec<_>) = regions.into_iter().unzip();
        let link = |(index, faults)| MirrorLink::new(faults, random_stream(seed, "link", index));
        let region = |(index, settings)| Simulation::with_scheduler(settings, rules, scheduler.of_region(index));
        Self {
            regions: settings.into_iter().enumerate().map(region).collect(),
            links: faults.into_iter().enumerate().map(link).collect(),
            ledger: LedgerLog::default(),
            mistake: None,
            scheduler,
        }
    }

    /// Returns true time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.scheduler.now()
    }

    /// Returns the regions.
    #[must_use]
    pub fn regions(&self) -> &[Simulation<'c>] {
        &self.regions
    }

    /// Returns a region, in which incidents strike and calls arrive.
    pub fn region_mut(&mut self, region: usize) -> &mut Simulation<'c> {
        &mut self.regions[region]
    }

    /// Returns the ledger.
    #[must_use]
    pub fn ledger(&self) -> &LedgerLog {
        &self.ledger
    }

    /// Plants a mistake in the handling of budgets.
    pub fn plant_mistake(&mut self, mistake: RegionMistake) {
        self.mistake = Some(mistake);
        self.regions.iter_mut().for_each(|region| region.env.mistake = Some(mistake));
    }

    /// Lets the coordinators propose terms from now on.
    pub fn propose(&mut self, terms: &[Terms]) {
        self.regions.iter_mut().for_each(|region| region.env.terms = terms.to_vec());
    }

    /// Changes the faults of the link of a region.
    pub fn set_link(&mut self, region: usize, faults: MirrorFaults) {
        self.links[region].faults = faults;
    }

    /// Cuts the link of a region, or mends it.
    pub fn set_link_cut(&mut self, region: usize, is_cut: bool) {
        self.links[region].is_cut = is_cut;
        if !is_cut {
            for place in self.links[region].take_waiting() {
                self.send_to_mirror(region, place);
            }
        }
    }

    /// Does the next thing that happens until an instant. Returns its region; none if nothing is left to do, and it is `until`.
    pub fn step_until(&mut self, until: Timestamp) -> Option<usize> {
        let (index, event) = self.scheduler.next_until(until)?;
        match event {
            SimEvent::LedgerAppend(record) => self.append(&record),
            SimEvent::LedgerMirrored(place) => self.mirror(index, place),
            event => self.regions[index].apply(event),
        }
        self.dispatch(index);
        Some(index)
    }

    /// Sends the entries of a region to the home cluster.
    fn dispatch(&mut self, index: usize) {
        let (now, link) = (self.now(), &mut self.links[index]);
        let region = &mut self.regions[index];
        for LedgerDispatch { aggregator, life, sent, record } in region.env.dispatches.drain(..).collect::<Vec<_>>() {
            let is_request = matches!(record.entry, LedgerEntry::Request(_));
            let gives_up = self.mistake == Some(RegionMistake::NeverAsksAgain) && is_request;
            if gives_up && region.env.requests_lost.contains(&aggregator) {
                continue;
            }
            let arrivals = link.arrivals((aggregator, life), sent);
            if gives_up && arrivals.is_empty() {
                region.env.requests_lost.insert(aggregator);
            }
            for at in arrivals {
                region.env.scheduler.after(at.ms_since(now), SimEvent::LedgerAppend(record.clone()));
            }
        }
    }

    fn append(&mut self, record: &LedgerRecord) {
        let place = self.ledger.records().len();
        self.ledger.append(self.scheduler.now(), record, self.mistake);
        (0..self.regions.len()).for_each(|region| self.send_to_mirror(region, place));
    }

    fn send_to_mirror(&mut self, region: usize, place: usize) {
        let now = self.now();
        if let Some(at) = self.links[region].mirrored_at(now, place) {
            let scheduler = &mut self.regions[region].env.scheduler;
            scheduler.after(at.ms_since(now), SimEvent::LedgerMirrored(place));
        }
    }

    /// Adds a record to the mirror of a region.
    fn mirror(&mut self, index: usize, place: usize) {
        let Some((_, record)) = self.ledger.records().get(place) else { return };
        let (region, link) = (&mut self.regions[index], &mut self.links[index]);
        let read = region.mirror_read();
        let mirror = &mut region.env.mirror;
        mirror.push(record.clone());
        let len = mirror.len();
        if self.mistake == Some(RegionMistake::MirrorOutOfOrder) && read + 2 <= len && link.swaps() {
            mirror.swap(len - 1, len - 2);
        }
        let repeated = link.repeated();
        if repeated > 0 {
            mirror.extend_from_within(len.saturating_sub(repeated)..);
        }
        region.read_mirror();
    }
}
