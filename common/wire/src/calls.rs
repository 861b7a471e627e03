//! Records of the topic `calls`. Rows are stored as columns, with differences between consecutive rows, to keep records
//! small.

use super::{BATCH_ROWS_LEN_MAX, Twin, VERSION, WireError, check, counter_from_wire, counter_to_wire, v1};
use tollgate_core::clock::Timestamp;
use tollgate_core::decision::Source;
use tollgate_core::messages::calls::{Batch, BatchName, CounterEntry, DenialCause, DescriptorSet, Home, Outcome, Row};
use tollgate_core::trace_context::TraceContext;

pub(super) fn to_wire(batch: &Batch) -> v1::CallBatch {
    let len = batch.rows.len();
    let mut wire = v1::CallBatch {
        version: VERSION,
        agent: batch.name.agent.to_string(),
        epoch: batch.name.epoch,
        partition: batch.name.partition,
        sequence: batch.name.sequence,
        region: batch.region.to_string(),
        complete_through_ms: batch.complete_through.as_ms(),
        texts: batch.texts.iter().map(str::to_owned).collect(),
        call_delta: Vec::with_capacity(len),
        at_delta_ms: Vec::with_capacity(len),
        sub_window_delta: Vec::with_capacity(len),
        counter: Vec::with_capacity(len),
        cost: Vec::with_capacity(len),
        outcome: Vec::with_capacity(len),
        home_descriptors: Vec::with_capacity(len),
        home_decider: Vec::with_capacity(len),
        source: Vec::with_capacity(len),
        home_remaining: Vec::with_capacity(len),
        home_denied: Vec::with_capacity(len),
        ..v1::CallBatch::default()
    };
    let (mut call, mut at) = (0_u64, 0_u64);
    let (mut shadow_denied, mut shadow_denied_home) = (0, 0);
    for (index, row) in (0..).zip(&batch.rows) {
        wire.call_delta.push(row.call.wrapping_sub(call).cast_signed());
        wire.at_delta_ms.push(row.at.as_ms().wrapping_sub(at).cast_signed());
        (call, at) = (row.call, row.at.as_ms());
        let window = row.counter.and_then(|index| batch.counters.get(index as usize)).map(|counter| counter.window);
        let natural = window.map_or(0, |window| window.sub_window(row.at));
        wire.sub_window_delta.push(row.sub_window.wrapping_sub(natural).cast_signed());
        wire.counter.push(row.counter.map_or(0, |index| index + 1));
        wire.cost.push(row.cost);
        wire.outcome.push(row.outcome.to_wire());
        wire.source.push(row.source.to_wire());
        wire.home_descriptors.push(row.home.as_ref().map_or(0, |home| home.descriptors + 1));
        if let Some(home) = &row.home {
            wire.home_decider.push(home.decider.map_or(0, |index| index + 1));
            wire.home_remaining.push(home.remaining.map_or(0, |units| units.saturating_add(1)));
            wire.home_denied.push(home.denied.map_or(0, Twin::to_wire));
        }
        if row.shadow_denied {
            wire.shadow_denied_row_delta.push(index - shadow_denied);
            shadow_denied = index;
        }
        if row.home.as_ref().is_some_and(|home| home.shadow_denied) {
            wire.shadow_denied_home_delta.push(index - shadow_denied_home);
            shadow_denied_home = index;
        }
    }
    let mut before = 0;
    for (row, trace) in &batch.traces {
        wire.trace_row_delta.push(row.wrapping_sub(before));
        wire.traces.extend(trace.bytes());
        before = *row;
    }
    wire.counters = batch.counters.iter().map(counter_to_wire).collect();
    for set in &batch.descriptor_sets {
        wire.set_len.push(u32::try_from(set.len()).unwrap_or(u32::MAX));
        wire.set_names_and_values.extend(set.iter().flat_map(|(name, value)| [*name, *value]));
    }
    wire
}

pub(super) fn from_wire(wire: v1::CallBatch) -> Result<Batch, WireError> {
    let len = wire.call_delta.len();
    check(
        len.max(wire.counters.len()).max(wire.set_len.len()).max(wire.texts.len() / 8) <= BATCH_ROWS_LEN_MAX,
        "the batch exceeds the maximum number of rows, counters, sets or texts",
    )?;
    let columns = [
        wire.counter.len(),
        wire.at_delta_ms.len(),
        wire.sub_window_delta.len(),
        wire.cost.len(),
        wire.outcome.len(),
        wire.source.len(),
        wire.home_descriptors.len(),
    ];
    check(columns.iter().all(|column| *column == len), "the columns of the batch differ in length")?;
    let homes = wire.home_descriptors.iter().filter(|index| **index > 0).count();
    check(
        wire.home_decider.len() == homes && wire.home_remaining.len() == homes && wire.home_denied.len() == homes,
        "the columns of home rows differ in length",
    )?;

    let mut homes = homes_from_wire(&wire)?.into_iter();
    let mut counters: Vec<CounterEntry> = Vec::with_capacity(wire.counters.len());
    for counter in wire.counters {
        let known = counters.last().map(|counter| &counter.rule);
        counters.push(counter_from_wire(counter, known)?);
    }
    let mut rows = Vec::with_capacity(len);
    let (mut call, mut at) = (0_u64, 0_u64);
    for i in 0..len {
        call = call.wrapping_add_signed(wire.call_delta[i]);
        at = at.wrapping_add_signed(wire.at_delta_ms[i]);
        let counter = index(wire.counter[i], counters.len())?;
        let natural = counter.map_or(0, |index| counters[index as usize].window.sub_window(Timestamp::from_ms(at)));
        let home = index(wire.home_descriptors[i], wire.set_len.len())?;
        let home = home.and_then(|descriptors| Some(Home { descriptors, ..homes.next()? }));
        rows.push(Row {
            call,
            counter,
            at: Timestamp::from_ms(at),
            sub_window: natural.wrapping_add_signed(wire.sub_window_delta[i]),
            cost: wire.cost[i],
            outcome: Outcome::from_wire(wire.outcome[i])?,
            shadow_denied: false,
            source: Source::from_wire(wire.source[i])?,
            home,
        });
    }
    for index in indexes_from_wire(&wire.shadow_denied_row_delta) {
        let row = rows.get_mut(index).ok_or(WireError::Invalid("a denial in shadow is of no row"))?;
        row.shadow_denied = true;
    }
    for index in indexes_from_wire(&wire.shadow_denied_home_delta) {
        let home = rows.get_mut(index).and_then(|row| row.home.as_mut());
        home.ok_or(WireError::Invalid("a denial in shadow is of no home row"))?.shadow_denied = true;
    }
    let traces = traces_from_wire(&wire.trace_row_delta, &wire.traces, &rows)?;
    let descriptor_sets = sets_from_wire(&wire.set_len, &wire.set_names_and_values, wire.texts.len())?;
    Ok(Batch {
        name: BatchName {
            agent: wire.agent.into(),
            epoch: wire.epoch,
            partition: wire.partition,
            sequence: wire.sequence,
        },
        region: wire.region.into(),
        complete_through: Timestamp::from_ms(wire.complete_through_ms),
        counters,
        descriptor_sets,
        texts: wire.texts.iter().collect(),
        rows,
        traces,
    })
}

impl Twin for Outcome {
    fn to_wire(self) -> i32 {
        let outcome = match self {
            Self::Admitted => v1::Outcome::Admitted,
            Self::Charged => v1::Outcome::Charged,
            Self::Denied(DenialCause::Count) => v1::Outcome::Denied,
            Self::Denied(DenialCause::List) => v1::Outcome::DeniedByList,
            Self::Denied(DenialCause::Late) => v1::Outcome::DeniedLate,
            Self::Denied(DenialCause::Fallback) => v1::Outcome::DeniedByFallback,
            Self::Denied(DenialCause::Emergency) => v1::Outcome::DeniedInEmergency,
            Self::Spared => v1::Outcome::Spared,
            Self::Reset => v1::Outcome::Reset,
            Self::Corrected => v1::Outcome::Corrected,
        };
        outcome.into()
    }

    fn from_wire(written: i32) -> Result<Self, WireError> {
        Ok(match v1::Outcome::try_from(written) {
            Ok(v1::Outcome::Admitted) => Self::Admitted,
            Ok(v1::Outcome::Charged) => Self::Charged,
            Ok(v1::Outcome::Denied) => Self::Denied(DenialCause::Count),
            Ok(v1::Outcome::DeniedByList) => Self::Denied(DenialCause::List),
            Ok(v1::Outcome::DeniedLate) => Self::Denied(DenialCause::Late),
            Ok(v1::Outcome::DeniedByFallback) => Self::Denied(DenialCause::Fallback),
            Ok(v1::Outcome::DeniedInEmergency) => Self::Denied(DenialCause::Emergency),
            Ok(v1::Outcome::Spared) => Self::Spared,
            Ok(v1::Outcome::Reset) => Self::Reset,
            Ok(v1::Outcome::Corrected) => Self::Corrected,
            Ok(v1::Outcome::Unspecified) | Err(_) => return Err(WireError::Invalid("a row has an unknown outcome")),
        })
    }
}

/// Decodes the columns of home rows, which have equal lengths; the descriptors are in a column of all rows.
fn homes_from_wire(wire: &v1::CallBatch) -> Result<Vec<Home>, WireError> {
    let home = |place: usize| {
        let denied = Some(wire.home_denied[place]).filter(|written| *written != 0).map(DenialCause::from_wire);
        Ok(Home {
            descriptors: 0,
            decider: index(wire.home_decider[place], wire.texts.len())?,
            shadow_denied: false,
            denied: denied.transpose()?,
            remaining: wire.home_remaining[place].checked_sub(1),
        })
    };
    (0..wire.home_decider.len()).map(home).collect()
}

/// Decodes the indexes of rows, which are written as differences.
fn indexes_from_wire(deltas: &[u32]) -> impl Iterator<Item = usize> {
    deltas.iter().scan(0_u32, |index, delta| {
        *index = index.wrapping_add(*delta);
        Some(*index as usize)
    })
}

fn traces_from_wire(deltas: &[u32], bytes: &[u8], rows: &[Row]) -> Result<Vec<(u32, TraceContext)>, WireError> {
    let (traces, rest) = bytes.as_chunks::<{ TraceContext::LEN }>();
    check(rest.is_empty() && traces.len() == deltas.len(), "the columns of traces differ in length")?;
    let mut index = 0_u32;
    let mut trace = |(delta, bytes): (&u32, &[u8; TraceContext::LEN])| {
        index = index.wrapping_add(*delta);
        let is_of_home = rows.get(index as usize).is_some_and(|row| row.home.is_some());
        check(is_of_home, "a trace is of no home row")?;
        Ok((index, TraceContext::from_bytes(*bytes)))
    };
    deltas.iter().zip(traces).map(&mut trace).collect()
}

/// Decodes an optional index, which is written as index + 1, or 0 for none.
fn index(written: u32, len: usize) -> Result<Option<u32>, WireError> {
    check(written as usize <= len, "a row has an index outside the batch's dictionary")?;
    Ok(written.checked_sub(1))
}

fn sets_from_wire(lens: &[u32], indexes: &[u32], texts: usize) -> Result<Vec<DescriptorSet>, WireError> {
    let (mut pairs, rest) = indexes.as_chunks::<2>();
    check(rest.is_empty(), "a descriptor lacks its value")?;
    check(indexes.iter().all(|text| (*text as usize) < texts), "a descriptor has an index outside the batch's texts")?;
    let mut sets = Vec::with_capacity(lens.len());
    for len in lens {
        let (set, more) =
            pairs.split_at_checked(*len as usize).ok_or(WireError::Invalid("a descriptor set is truncated"))?;
        sets.push(set.iter().map(|[name, value]| (*name, *value)).collect());
        pairs = more;
    }
    check(pairs.is_empty(), "a descriptor is outside all sets")?;
    Ok(sets)
}
