//! What the pump says of itself to those who look through its [`Window`](super::Window).

use tollgate_bus::{Bus, Topic};
use tollgate_core::counter::Partition;

use super::others::Others;
use super::part::{Owner, Part};
use super::run::Run;
use super::view::{Filter, PartStatus, Question, Shown, Status, View};
use crate::ownership::Ownership;

impl<B: Bus> Run<B> {
    /// Answers the questions that wait.
    pub(super) fn answer(&mut self) {
        while let Ok(question) = self.questions.try_recv() {
            // Who asked may have left.
            match question {
                Question::Counters(filter, reply) => drop(reply.send(self.view(&filter))),
                Question::Status(reply) => drop(reply.send(self.status())),
                Question::Asides(reply) => drop(reply.send(self.asides.newest().cloned().collect())),
            }
        }
    }

    fn view(&self, filter: &Filter) -> View {
        let now = self.clock.now();
        let mut matching = Vec::new();
        for (partition, part) in self.parts.iter().filter(|(_, part)| part.counting.is_restored()) {
            let of_rule = |rule: &str| filter.rule.as_ref().is_none_or(|wanted| wanted == rule);
            let labelled = |label: &str| filter.label.as_ref().is_none_or(|wanted| label.contains(&**wanted));
            let entries = part.counting.counters();
            let entries = entries.filter(|entry| of_rule(&entry.rule) && labelled(&entry.label));
            matching.extend(entries.map(|entry| (entry.permille(now), *partition, entry)));
        }
        let matched = matching.len();
        matching.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| (&a.2.rule, a.2.id).cmp(&(&b.2.rule, b.2.id))));
        matching.truncate(filter.limit);
        let counters = matching.into_iter().map(|(_, partition, entry)| Shown { partition, entry: entry.clone() });
        let partitions = self.part_statuses().into_iter().filter(|part| part.restored).collect();
        View { now, matched, counters: counters.collect(), partitions }
    }

    fn status(&self) -> Status {
        let ownership = self.others.as_ref().map(Others::ownership);
        Status {
            settled: ownership.is_none_or(Ownership::is_settled),
            members: ownership.map_or(1, Ownership::members),
            others: ownership.map(|ownership| ownership.others().cloned().collect()).unwrap_or_default(),
            partitions: self.part_statuses(),
            waiting: (0..self.bus.partitions(Topic::Calls))
                .filter(|partition| self.owner(*partition) == Owner::Own && !self.parts.contains_key(partition))
                .count(),
            bus_error: self.bus_error.lock().clone(),
        }
    }

    fn part_statuses(&self) -> Vec<PartStatus> {
        let status = |(partition, part): (&Partition, &Part)| PartStatus {
            partition: *partition,
            read: part.counting.read(),
            watermark: part.counting.watermark(),
            restored: part.counting.is_restored(),
            owned: part.is_owned(),
        };
        self.parts.iter().map(status).collect()
    }
}
