//! Records of the topic `usage`.

use std::collections::BTreeSet;

use super::ledger::{counter_from_wire, counter_to_wire, name_from_wire};
use super::{VERSION, WireError, check, v1};
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::usage::{
    LARGEST_LEN_MAX, RULES_LEN_MAX, UsageOfCounter, UsageOfRule, UsageRecord, UsageUnits,
};

/// Maximum number of partitions of one record.
const PARTITIONS_LEN_MAX: usize = 10_000;

pub(super) fn to_wire(record: &UsageRecord) -> v1::UsageRecord {
    v1::UsageRecord {
        version: VERSION,
        region: record.region.to_string(),
        writer: record.writer,
        at_ms: record.at.as_ms(),
        partitions: record.partitions.clone(),
        rules: record.rules.iter().map(rule_to_wire).collect(),
    }
}

pub(super) fn from_wire(wire: v1::UsageRecord) -> Result<UsageRecord, WireError> {
    let partitions = wire.partitions.len();
    check((1..=PARTITIONS_LEN_MAX).contains(&partitions), "the record names no partitions, or too many")?;
    check(wire.rules.len() <= RULES_LEN_MAX, "the record names too many rules")?;
    let rules: BTreeSet<&str> = wire.rules.iter().map(|rule| &*rule.rule).collect();
    check(rules.len() == wire.rules.len(), "the record names a rule twice")?;
    Ok(UsageRecord {
        region: name_from_wire(wire.region)?,
        writer: wire.writer,
        at: Timestamp::from_ms(wire.at_ms),
        partitions: wire.partitions,
        rules: wire.rules.into_iter().map(rule_from_wire).collect::<Result<_, _>>()?,
    })
}

fn rule_to_wire(rule: &UsageOfRule) -> v1::UsageOfRule {
    let UsageUnits { used, demand } = rule.units;
    let largest = rule.largest.iter().map(|of| v1::UsageOfCounter {
        counter: Some(counter_to_wire(of.counter)),
        label: of.label.to_string(),
        used: of.units.used,
        demand: of.units.demand,
    });
    v1::UsageOfRule { rule: rule.rule.to_string(), counters: rule.counters, used, demand, largest: largest.collect() }
}

fn rule_from_wire(wire: v1::UsageOfRule) -> Result<UsageOfRule, WireError> {
    check(wire.largest.len() <= LARGEST_LEN_MAX, "a rule has too many counters")?;
    let counter = |wire: v1::UsageOfCounter| {
        Ok(UsageOfCounter {
            counter: counter_from_wire(wire.counter)?,
            label: wire.label.into(),
            units: units_from_wire(wire.used, wire.demand)?,
        })
    };
    Ok(UsageOfRule {
        rule: name_from_wire(wire.rule)?,
        counters: wire.counters,
        units: units_from_wire(wire.used, wire.demand)?,
        largest: wire.largest.into_iter().map(counter).collect::<Result<_, WireError>>()?,
    })
}

fn units_from_wire(used: u64, demand: u64) -> Result<UsageUnits, WireError> {
    check(used <= demand, "more units are admitted than callers asked for")?;
    Ok(UsageUnits { used, demand })
}
