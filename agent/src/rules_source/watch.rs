//! Rules that are reloaded while the agent runs. What is broken never replaces a good set.

use std::sync::Arc;

use tollgate_core::clock::{Clock, Timestamp};

use super::RulesFrom;
use crate::files::Watched;
use tollgate_engine::Engine;

/// Has the limiter follow these files.
pub(crate) fn follow(from: RulesFrom, engine: Arc<Engine>, clock: Arc<dyn Clock>) -> Watched {
    let again = from.clone();
    Watched::new(from.content(), move || again.content(), move || reload(&from, &engine, clock.now()))
}

fn reload(from: &RulesFrom, engine: &Engine, now: Timestamp) {
    let node = &engine.settings().node;
    let in_force = engine.with_rules(|rules| rules.generation);
    let refused = match from.read(now) {
        Ok(rules) => {
            let (generation, count) = (rules.generation, rules.rules.len());
            for warning in &rules.warnings {
                tracing::warn!(%node, "{warning}");
            }
            match engine.set_rules(rules) {
                Ok(()) => {
                    tracing::info!(%node, generation, rules = count, "rules reloaded");
                    return;
                }
                Err(in_force) => format!(
                    "{}: version {generation} is not newer than {in_force}, which is in force; raise `version:` above it, or restart",
                    from.path().display()
                ),
            }
        }
        Err(error) => error.to_string(),
    };
    tracing::error!(%node, "rules refused, generation {in_force} stays in force; mend the file, it is read again by itself:\n{refused}");
    engine.reject_rules(refused);
}
