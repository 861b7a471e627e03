//! Published rules: applied if they are newer than those in force, and saved for a start without bus and store.

use tollgate_core::clock::Timestamp;
use tollgate_core::messages::rules::Published;
use tollgate_core::rules::Generation;
use tollgate_engine::Engine;

use crate::state_dir::{SavedRules, StateDir};
use crate::unenforceable::{Unenforceable, log_floors};

/// Applies a published rule set, unless its generation is not newer than the one in force. `appended` is the time of
/// publication, if known.
pub(crate) fn receive_published(
    engine: &Engine,
    state: Option<&StateDir>,
    now: Timestamp,
    generation: Generation,
    appended: Option<Timestamp>,
    published: Published,
) {
    let node = &engine.settings().node;
    let in_force = engine.with_rules(|rules| rules.generation);
    if generation <= in_force {
        if generation < in_force && appended.is_some_and(|appended| appended >= engine.settings().epoch) {
            tracing::warn!(%node, generation, "published rules ignored: generation {in_force} is in force, from another source or from a topic that was recreated; delete the older copy of the rules in Redis (key PREFIXrules, by default tollgate:rules), if there is Redis, and then restart the agents without their state directories");
        }
        return;
    }
    let read = tollgate_rules::read_published(&published, generation).map_err(|error| error.to_string());
    let enforceable = read.and_then(|rules| match Unenforceable::of(engine.settings(), &rules) {
        Some(error) => Err(error.to_string()),
        None => Ok(rules),
    });
    match enforceable {
        Ok(rules) => {
            let count = rules.rules.len();
            if engine.set_rules(now, rules).is_ok() {
                tracing::info!(%node, generation, rules = count, file = published.name, "published rules are in force");
                engine.with_rules(|rules| log_floors(engine.settings(), rules));
                if let Some(state) = state {
                    state.change(|saved| saved.rules = Some(SavedRules { generation, published }));
                }
            }
        }
        Err(error) => {
            engine.reject_rules(error.clone());
            tracing::error!(%node, generation, "published rules rejected, generation {in_force} stays in force; publish corrected ones: {}", error.replace('\n', "; "));
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::rules::RuleSet;
    use tollgate_engine::EngineSettings;

    use super::*;

    /// F3: a set that names other regions does not replace the last good rules.
    #[test]
    fn published_rules_of_other_regions_are_rejected() {
        let mut settings = EngineSettings::new("a", Timestamp::from_ms(1));
        settings.region = "eu".into();
        let engine = Engine::new(settings, RuleSet::none_yet());
        let publish = |generation, regions: &str| {
            let rule = "{ name: all, per: [ip], quota: 9/s, scope: global }";
            let text = format!("regions: {regions}\nrules: [{rule}]");
            let published = Published::new("rules.yaml", text);
            receive_published(&engine, None, Timestamp::from_ms(2), generation, None, published);
            engine.with_rules(|rules| rules.generation)
        };
        assert_eq!(publish(3, "{ eu: {}, us: {} }"), 3);
        assert_eq!(publish(4, "{ ap: {}, us: {} }"), 3, "the last good rules stay");
        let rejection = engine.rejection().expect("a rejection");
        assert!(rejection.contains("name one of ap, us with --region NAME"), "{rejection}");
        assert_eq!(publish(5, "{ eu: {}, us: {}, ap: {} }"), 5);
    }
}
