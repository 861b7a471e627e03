//! `traceparent` of W3C Trace Context: the trace that a request belongs to.
//!
//! A value of a later version is read by the part that version 00 has, as the recommendation asks. An invalid value, or more than
//! one, is ignored.

use http::HeaderMap;
use tollgate_core::call::Call;
use tollgate_core::trace_context::{CallTrace, TraceContext};

/// Name of the header.
pub const TRACE_PARENT: &str = "traceparent";
/// Length of a value of version 00, in bytes.
const LEN: usize = 55;

/// Returns the part of a request's `traceparent` that names the trace and its parent; none if it is missing or invalid.
#[must_use]
pub fn trace_parent(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(TRACE_PARENT).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    valid(value.to_str().ok()?.trim())
}

/// Sets the trace of a request with these headers in its calls. If it is sampled, the records of the calls then have it.
pub fn set_trace<'c, 'd: 'c>(headers: &HeaderMap, calls: impl IntoIterator<Item = &'c mut Call<'d>>) {
    if let Some(trace) = told(headers) {
        for call in calls {
            call.set_trace(trace.clone());
        }
    }
}

fn told(headers: &HeaderMap) -> Option<CallTrace> {
    const SAMPLED: u8 = 1;
    let mut parts = trace_parent(headers)?.split('-').skip(1);
    let trace = u128::from_str_radix(parts.next()?, 16).ok()?;
    let span = u64::from_str_radix(parts.next()?, 16).ok()?;
    let flags = u8::from_str_radix(parts.next()?, 16).ok()?;
    Some(if flags & SAMPLED == 0 { CallTrace::NotSampled } else { TraceContext::new(trace, span).into() })
}

fn valid(text: &str) -> Option<&str> {
    let (known, more) = text.split_at_checked(LEN)?;
    let mut parts = known.split('-');
    let parts = [(); 4].map(|()| parts.next().unwrap_or_default());
    let is_hex = |part: &str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let has_form = parts.map(str::len) == [2, 32, 16, 2] && parts.into_iter().all(is_hex);
    let [version, trace, parent, _] = parts;
    let is_named = [trace, parent].into_iter().all(|id| id.bytes().any(|byte| byte != b'0'));
    let ends =
        if version == "00" { more.is_empty() } else { version != "ff" && (more.is_empty() || more.starts_with('-')) };
    (has_form && is_named && ends).then_some(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn taken(values: &[&str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(TRACE_PARENT, value.parse().unwrap());
        }
        trace_parent(&headers).map(ToOwned::to_owned)
    }

    /// The cases of the recommendation: <https://www.w3.org/TR/trace-context/#traceparent-header>.
    #[test]
    fn an_invalid_value_is_ignored() {
        let later = VALID.replacen("00", "cc", 1);
        for (value, expected) in [
            (VALID, Some(VALID)),
            (&format!(" {VALID} "), Some(VALID)),
            (&later, Some(&*later)),
            (&format!("{later}-what-the-future-holds"), Some(&*later)),
            (&format!("{later}.what"), None),
            (&format!("{VALID}-more"), None),
            (&VALID.replacen("00", "ff", 1), None),
            (&VALID.replacen("00", "0x", 1), None),
            (&VALID.to_uppercase(), None),
            ("00-00000000000000000000000000000000-b7ad6b7169203331-01", None),
            ("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", None),
            ("00-0af7651916cd43dd8448eb211c80319-cb7ad6b7169203331-01", None),
            ("00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", None),
            (&VALID[..54], None),
            ("", None),
        ] {
            assert_eq!(taken(&[value]).as_deref(), expected, "{value}");
        }
        assert_eq!(taken(&[VALID, VALID]), None);
        assert_eq!(taken(&[]), None);
    }

    #[test]
    fn the_trace_of_a_sampled_request_is_taken_and_of_another_one_that_it_is_not_sampled() {
        let read = |value: &str| {
            let headers = HeaderMap::from_iter([(http::HeaderName::from_static(TRACE_PARENT), value.parse().unwrap())]);
            let mut call = Call::new();
            set_trace(&headers, [&mut call]);
            call.told_trace().clone()
        };
        let trace = u128::from_str_radix(&VALID[3..35], 16).unwrap();
        let span = u64::from_str_radix(&VALID[36..52], 16).unwrap();
        let sampled = CallTrace::from(TraceContext::new(trace, span));
        for (value, expected) in [
            (VALID, &sampled),
            (&VALID.replace("-01", "-ff"), &sampled),
            (&VALID.replace("-01", "-00"), &CallTrace::NotSampled),
            (&VALID.replace("-01", "-02"), &CallTrace::NotSampled),
            ("00-1-1-01", &CallTrace::Untold),
        ] {
            assert_eq!(read(value), *expected, "{value}");
        }
    }
}
