//! Words that have one meaning, after the table "Overloaded words" of ARCHITECTURE.md. A type whose name contains such a word is
//! listed here, or the word is used with a retired meaning.

use super::{assert_none, defined_type, source_files};

/// Words in the names of types, and the types that may have them.
const TYPES_WITH: [(&str, &[&str]); 7] = [
    // Of a quota, by an agent.
    ("Part", &["FleetPart", "SharedPart", "SignalParts"]),
    // Of a counter, in the table.
    ("Place", &["Places"]),
    // Of a call under `concurrency`, or of a hash slot.
    ("Slot", &["HeldSlots", "ReleaseSlots", "UnsyncedSlots", "HashSlotId", "HashSlots", "HashSlotsArg"]),
    // Collection of rows for publication.
    ("Round", &["Round", "RoundNumber", "BatchRounds", "CoveredRounds"]),
    // Of a text or of a cache.
    ("Line", &["OneLine", "BadLine", "RulesWithLines", "CacheLines", "Line"]),
    // Decided lately by a thread.
    ("Known", &["KnownCall", "KnownCalls", "KnownCallMut", "KnownDenial", "KnownRow", "KnownRows"]),
    // Life of an agent, or time between two ends of leases.
    ("Epoch", &["LeaseEpoch", "LeaseEpochs"]),
];

/// Returns true if the camel-case name contains the word, alone or in the plural.
fn has_word(name: &str, word: &str) -> bool {
    name.match_indices(word).any(|(at, _)| {
        let rest = &name[at + word.len()..];
        let rest = rest.strip_prefix('s').unwrap_or(rest);
        rest.chars().next().is_none_or(|next| !next.is_lowercase())
    })
}

/// One word has one meaning: no type takes a retired one.
#[test]
fn no_type_has_a_word_with_a_retired_meaning() {
    let mut offenders = Vec::new();
    let is_production = |path: &std::path::Path| path.components().any(|part| part.as_os_str() == "src");
    for file in source_files().iter().filter(|file| file.is_rust() && !file.is_test() && is_production(&file.path)) {
        let production = file.text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        for (number, line) in production.lines().enumerate() {
            let Some(name) = defined_type(line) else { continue };
            let words = TYPES_WITH.iter().filter(|(word, types)| has_word(name, word) && !types.contains(&name));
            offenders.extend(words.map(|(word, _)| format!("{}: {name}: {word}", file.at(number))));
        }
    }
    assert_none(&offenders, "see `Overloaded words` in ARCHITECTURE.md for the word to use");
}

/// A list that names no type any more says nothing.
#[test]
fn each_listed_type_exists() {
    let files = source_files();
    let exists = |name: &str| files.iter().any(|file| file.text.lines().any(|line| defined_type(line) == Some(name)));
    let missing = TYPES_WITH.iter().flat_map(|(_, types)| types.iter()).filter(|name| !exists(name));
    assert_none(&missing.map(|name| (*name).to_owned()).collect::<Vec<_>>(), "remove the name");
}
