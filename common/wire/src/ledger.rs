//! Records of the topic `ledger`.
//!
//! A record that no Tollgate writes is refused, so that every reader of the ledger finds the same records absurd.

use std::collections::BTreeSet;

use super::{VERSION, WireError, check, v1};
use tollgate_core::counter::CounterId;
use tollgate_core::messages::ledger::{BudgetRequest, EntryId, LedgerEntry, LedgerRecord, Region, Terms};
use tollgate_core::window::WIDTH_MS_MAX;
use v1::ledger_record::Entry;

/// Maximum number of regions of one rule.
const REGIONS_LEN_MAX: usize = 1_000;
/// Maximum length of the name of a region or a rule, in bytes.
const NAME_LEN_MAX: usize = 1_000;

pub(super) fn to_wire(record: &LedgerRecord) -> v1::LedgerRecord {
    let entry = match &record.entry {
        LedgerEntry::Terms(terms) => Entry::Terms(terms_to_wire(terms)),
        LedgerEntry::Request(request) => Entry::Request(v1::LedgerRequest {
            terms: Some(id_to_wire(request.terms)),
            counter: Some(counter_to_wire(request.counter)),
            region: request.region.to_string(),
            wants: request.wants,
        }),
        LedgerEntry::Grant { counter, request, units } => Entry::Grant(v1::LedgerGrant {
            counter: Some(counter_to_wire(*counter)),
            request: Some(id_to_wire(*request)),
            units: *units,
        }),
        LedgerEntry::Renewal { counter, grant, wants } => Entry::Renewal(v1::LedgerRenewal {
            counter: Some(counter_to_wire(*counter)),
            grant: Some(id_to_wire(*grant)),
            wants: *wants,
        }),
        LedgerEntry::GiveBack { counter, grant, keeps } => Entry::GiveBack(v1::LedgerGiveBack {
            counter: Some(counter_to_wire(*counter)),
            grant: Some(id_to_wire(*grant)),
            keeps: *keeps,
        }),
        LedgerEntry::FloorGiveBack { terms, region } => Entry::FloorGiveBack(v1::LedgerFloorGiveBack {
            terms: Some(id_to_wire(*terms)),
            region: region.to_string(),
        }),
        LedgerEntry::Expiry { counter, grant, last } => Entry::Expiry(v1::LedgerExpiry {
            counter: Some(counter_to_wire(*counter)),
            grant: Some(id_to_wire(*grant)),
            last: Some(id_to_wire(*last)),
        }),
    };
    v1::LedgerRecord { version: VERSION, id: Some(id_to_wire(record.id)), entry: Some(entry) }
}

pub(super) fn from_wire(wire: v1::LedgerRecord) -> Result<LedgerRecord, WireError> {
    let id = id_from_wire(wire.id)?;
    let entry = match wire.entry.ok_or(WireError::Invalid("the record has no entry"))? {
        Entry::Terms(terms) => LedgerEntry::Terms(terms_from_wire(terms)?),
        Entry::Request(wire) => LedgerEntry::Request(BudgetRequest {
            terms: id_from_wire(wire.terms)?,
            counter: counter_from_wire(wire.counter)?,
            region: name_from_wire(wire.region)?,
            wants: wire.wants,
        }),
        Entry::Grant(wire) => LedgerEntry::Grant {
            counter: counter_from_wire(wire.counter)?,
            request: id_from_wire(wire.request)?,
            units: wire.units,
        },
        Entry::Renewal(wire) => LedgerEntry::Renewal {
            counter: counter_from_wire(wire.counter)?,
            grant: id_from_wire(wire.grant)?,
            wants: wire.wants,
        },
        Entry::GiveBack(wire) => LedgerEntry::GiveBack {
            counter: counter_from_wire(wire.counter)?,
            grant: id_from_wire(wire.grant)?,
            keeps: wire.keeps,
        },
        Entry::FloorGiveBack(wire) => {
            LedgerEntry::FloorGiveBack { terms: id_from_wire(wire.terms)?, region: name_from_wire(wire.region)? }
        }
        Entry::Expiry(wire) => LedgerEntry::Expiry {
            counter: counter_from_wire(wire.counter)?,
            grant: id_from_wire(wire.grant)?,
            last: id_from_wire(wire.last)?,
        },
    };
    Ok(LedgerRecord { id, entry })
}

fn terms_to_wire(terms: &Terms) -> v1::LedgerTerms {
    let (regions, floors) = terms.floors.iter().map(|(region, units)| (region.to_string(), *units)).unzip();
    v1::LedgerTerms {
        rule: terms.rule.to_string(),
        generation: terms.generation,
        quota: terms.quota,
        window_ms: terms.window_ms,
        term_ms: terms.term_ms,
        key_fingerprint: terms.key_fingerprint,
        regions,
        floors,
    }
}

fn terms_from_wire(wire: v1::LedgerTerms) -> Result<Terms, WireError> {
    let regions = wire.regions.len();
    check(regions == wire.floors.len(), "the terms have not one floor for each region")?;
    check((1..=REGIONS_LEN_MAX).contains(&regions), "the terms have no regions, or too many")?;
    check(wire.regions.iter().collect::<BTreeSet<_>>().len() == regions, "the terms name a region twice")?;
    check(wire.quota > 0, "the quota of the terms is 0")?;
    check((1..=WIDTH_MS_MAX).contains(&wire.window_ms), "the window of the terms is out of range")?;
    check((1..=WIDTH_MS_MAX).contains(&wire.term_ms), "the term of the terms is out of range")?;
    let regions = wire.regions.into_iter().map(name_from_wire).collect::<Result<Vec<_>, _>>()?;
    Ok(Terms {
        rule: name_from_wire(wire.rule)?,
        generation: wire.generation,
        quota: wire.quota,
        window_ms: wire.window_ms,
        term_ms: wire.term_ms,
        key_fingerprint: wire.key_fingerprint,
        floors: regions.into_iter().zip(wire.floors).collect(),
    })
}

pub(super) fn name_from_wire(name: String) -> Result<Region, WireError> {
    check((1..=NAME_LEN_MAX).contains(&name.len()), "the name of a region or a rule is empty or too long")?;
    Ok(name.into())
}

fn id_to_wire(id: EntryId) -> v1::LedgerEntryId {
    v1::LedgerEntryId { writer: id.writer, sequence: id.sequence }
}

fn id_from_wire(wire: Option<v1::LedgerEntryId>) -> Result<EntryId, WireError> {
    let wire = wire.filter(|id| id.sequence > 0).ok_or(WireError::Invalid("the identity of an entry is missing"))?;
    Ok(EntryId { writer: wire.writer, sequence: wire.sequence })
}

#[expect(clippy::cast_possible_truncation, reason = "the digest is split into its two halves")]
pub(super) fn counter_to_wire(counter: CounterId) -> v1::LedgerCounter {
    let id = counter.as_u128();
    v1::LedgerCounter { id_high: (id >> 64) as u64, id_low: id as u64 }
}

pub(super) fn counter_from_wire(wire: Option<v1::LedgerCounter>) -> Result<CounterId, WireError> {
    let wire = wire.ok_or(WireError::Invalid("the counter of an entry is missing"))?;
    Ok(CounterId::from_u128(u128::from(wire.id_high) << 64 | u128::from(wire.id_low)))
}
