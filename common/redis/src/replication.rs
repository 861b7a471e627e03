//! The warning about a primary that takes writes although no replica gets them: cut off from the others, it charges beside the one
//! that takes its place.

/// Warning for the operator, from the section `replication` of INFO. Redis tells the number of good replicas only if it asks for some.
pub(crate) fn warning(info_replication: &str) -> Option<String> {
    let field =
        |name: &str| info_replication.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'));
    let (role, replicas) = (field("role")?, field("connected_slaves")?);
    let asks = field("min_slaves_good_slaves").is_some();
    (role == "master" && replicas != "0" && !asks).then(|| {
        "this Redis takes writes even if none of its replicas gets them, so that two primaries may charge at once around a fail-over; \
         set min-replicas-to-write 1 and min-replicas-max-lag 2"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::warning;

    #[test]
    fn only_a_primary_with_replicas_that_it_does_not_wait_for_causes_a_warning() {
        let info = |role: &str, replicas: u8, more: &str| {
            format!("# Replication\r\nrole:{role}\r\nconnected_slaves:{replicas}\r\n{more}master_replid:1\r\n")
        };
        assert!(warning(&info("master", 1, "")).is_some_and(|text| text.contains("min-replicas-to-write 1")));
        assert_eq!(warning(&info("master", 1, "min_slaves_good_slaves:1\r\n")), None);
        assert_eq!(warning(&info("master", 0, "")), None, "it has no replica");
        assert_eq!(warning(&info("slave", 1, "")), None);
        assert_eq!(warning("# Replication\r\n"), None);
    }
}
