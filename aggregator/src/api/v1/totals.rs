//! Sums of calls as JSON.

use serde_json::{Map, Value, json};
use tollgate_core::decision::Source;
use tollgate_core::messages::calls::DenialCause;
use tollgate_core::messages::rollups::Totals;

/// Returns sums as JSON.
pub(super) fn totals(totals: &Totals) -> Value {
    let denied_by = DenialCause::ALL.iter().zip(totals.denied).map(|(cause, calls)| (cause.as_str(), calls));
    let by_source = Source::ALL.iter().zip(totals.by_source).map(|(source, calls)| (source.as_str(), calls));
    json!({
        "admitted": totals.admitted,
        "denied": totals.denied(),
        "denied_by": object(denied_by),
        "shadow_denied": totals.shadow_denied,
        "units": totals.units,
        "by_source": object(by_source),
    })
}

/// Returns an object with further members.
pub(super) fn with(mut object: Value, members: Value) -> Value {
    if let (Value::Object(object), Value::Object(members)) = (&mut object, members) {
        object.extend(members);
    }
    object
}

fn object<'a>(members: impl Iterator<Item = (&'a str, u64)>) -> Value {
    Value::Object(members.map(|(name, value)| (name.to_owned(), value.into())).collect::<Map<_, _>>())
}
