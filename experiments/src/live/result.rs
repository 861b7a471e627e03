//! A measurement at real servers as JSON: with its name, the version, and the seeds by which its simulation is repeated.

use serde::Serialize;

#[derive(Serialize)]
struct LiveResult<'a, T> {
    name: &'a str,
    version: &'static str,
    seeds: &'a [u64],
    #[serde(flatten)]
    report: &'a T,
}

/// Returns a report as JSON. The name is that of its command, and of its file beside a page.
pub(super) fn json<T: Serialize>(name: &str, seeds: &[u64], report: &T) -> String {
    let result = LiveResult { name, version: env!("CARGO_PKG_VERSION"), seeds, report };
    serde_json::to_string(&result).expect("the fields of a report have names")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_names_what_repeats_it() {
        #[derive(Serialize)]
        struct Report {
            calls: u64,
        }
        let version = env!("CARGO_PKG_VERSION");
        let expected = format!(r#"{{"name":"live-lag","version":"{version}","seeds":[1],"calls":7}}"#);
        assert_eq!(json("live-lag", &[1], &Report { calls: 7 }), expected);
    }
}
