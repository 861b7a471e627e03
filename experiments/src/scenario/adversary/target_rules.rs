//! Rules of the fleets that are attacked: names and settings of each, by the behaviour of the store.

use super::target_store::TargetStore;

/// A name, and settings of a rule.
type NamedSettings = (&'static str, &'static str);

/// All rules, with the behaviour of the store; true if there are signals.
pub(super) const TARGET_RULES: [(&[NamedSettings], TargetStore, bool); 5] = [
    (&UP, TargetStore::InTime, true),
    (&STORE_LATE, TargetStore::Late, true),
    (&LATE_ALONE, TargetStore::Late, false),
    (&STORE_LOST, TargetStore::LostForTime, true),
    (&ALL_LOST, TargetStore::LostForTime, false),
];

/// Names and settings of the rules, with the store.
const UP: [NamedSettings; 12] = [
    ("strict", ", consistency: strict"),
    ("strict, interpolated", ", consistency: strict, estimate: interpolated"),
    ("strict, fixed_window", ", consistency: strict, algorithm: fixed_window"),
    ("strict, sliding_log", ", consistency: strict, algorithm: sliding_log"),
    ("strict, token_bucket", ", consistency: strict, algorithm: token_bucket"),
    ("strict, leaky_bucket", ", consistency: strict, algorithm: leaky_bucket"),
    ("bounded", ""),
    ("bounded, conservative", ", estimate: conservative"),
    ("bounded, fixed_window", ", algorithm: fixed_window"),
    ("eventual", ", consistency: eventual"),
    ("eventual, conservative", ", consistency: eventual, estimate: conservative"),
    ("eventual, fixed_window", ", consistency: eventual, algorithm: fixed_window"),
];
/// Names and settings of the rules, without the store.
const STORE_LOST: [NamedSettings; 7] = [
    ("strict, store lost", ", consistency: strict"),
    ("bounded, store lost", ""),
    ("conservative, store lost", ", estimate: conservative"),
    ("fixed_window, store lost", ", algorithm: fixed_window"),
    ("sliding_log, store lost", ", algorithm: sliding_log"),
    ("token_bucket, store lost", ", algorithm: token_bucket"),
    ("leaky_bucket, store lost", ", algorithm: leaky_bucket"),
];
/// Names and settings of the rules, without the store and without signals.
const ALL_LOST: [NamedSettings; 7] = [
    ("strict, store and bus lost", ", consistency: strict"),
    ("bounded, store and bus lost", ""),
    ("conservative, store and bus lost", ", estimate: conservative"),
    ("fixed_window, store and bus lost", ", algorithm: fixed_window"),
    ("sliding_log, store and bus lost", ", algorithm: sliding_log"),
    ("token_bucket, store and bus lost", ", algorithm: token_bucket"),
    ("leaky_bucket, store and bus lost", ", algorithm: leaky_bucket"),
];

/// Names and settings of the rules, with a store whose answers are late now and then.
const STORE_LATE: [NamedSettings; 6] = [
    ("strict, store late", ", consistency: strict"),
    ("bounded, store late", ""),
    ("conservative, store late", ", estimate: conservative"),
    ("fixed_window, store late", ", algorithm: fixed_window"),
    ("sliding_log, store late", ", algorithm: sliding_log"),
    ("token_bucket, store late", ", algorithm: token_bucket"),
];
/// Names and settings of the rules, with such a store and without signals.
const LATE_ALONE: [NamedSettings; 2] =
    [("bounded, store late, bus lost", ""), ("conservative, store late, bus lost", ", estimate: conservative")];
