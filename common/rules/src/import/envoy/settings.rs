//! Settings that a folder of envoyproxy/ratelimit does not have, because that project takes them from its environment.

/// Settings that envoyproxy/ratelimit takes from its environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvoySettings {
    /// Domains in which a call counts under all its rules or under none. In other domains it counts under each rule that
    /// applies, even if another one denies it, as that project does unless `STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT` is set.
    pub all_or_none: Vec<String>,
    /// Permission for several files to share a domain (`MERGE_DOMAIN_CONFIG` there).
    pub merge_domains: bool,
    /// Domains in which negative hits give units back.
    pub refunds: Vec<String>,
    /// Quota mode of all limits (`QUOTA_MODE` there).
    pub quota_mode: bool,
}
