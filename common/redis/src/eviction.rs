//! The warning about a Redis that may evict counters when its memory is full: an evicted counter starts its quota anew.

/// Warning for the operator, from the section `memory` of INFO, which managed servers show even where CONFIG is forbidden.
pub(crate) fn warning(info_memory: &str) -> Option<String> {
    let field = |name: &str| info_memory.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'));
    let (policy, maxmemory) = (field("maxmemory_policy")?, field("maxmemory")?);
    (policy != "noeviction" && maxmemory != "0").then(|| {
        format!(
            "this Redis evicts keys when full (maxmemory-policy {policy}), and an evicted counter starts its quota anew; set \
             maxmemory-policy noeviction, or give limits a Redis of their own"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::warning;

    /// D8: start-up warns of a maxmemory-policy that evicts.
    #[test]
    fn only_a_server_that_may_evict_causes_a_warning() {
        let info = |maxmemory, policy: &str| {
            format!(
                "# Memory\r\nused_memory:1\r\nmaxmemory:{maxmemory}\r\nmaxmemory_human:0B\r\nmaxmemory_policy:{policy}\r\n"
            )
        };
        assert!(warning(&info(1_000_000, "allkeys-lru")).unwrap().contains("maxmemory-policy allkeys-lru"));
        assert!(warning(&info(1_000_000, "volatile-ttl")).is_some(), "counters have a TTL, so they are volatile");
        assert_eq!(warning(&info(1_000_000, "noeviction")), None);
        assert_eq!(warning(&info(0, "allkeys-lru")), None, "without a maximum nothing is evicted");
        assert_eq!(warning("# Memory\r\n"), None);
    }
}
