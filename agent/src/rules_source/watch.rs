//! Reloading of rules files that change. Invalid files never replace valid rules.

use std::sync::Arc;

use tollgate_core::clock::{Clock, Timestamp};
use tollgate_core::rules::Numbering;

use super::files::RulesSource;
use crate::file_watch::FileWatch;
use crate::unenforceable::{Unenforceable, log_floors};
use tollgate_engine::Engine;

pub(crate) fn reload_on_change(from: RulesSource, engine: Arc<Engine>, clock: Arc<dyn Clock>) -> FileWatch {
    let watched = from.clone();
    FileWatch {
        known: from.content(),
        content: Box::new(move || watched.content()),
        changed: Box::new(move || reload(&from, &engine, clock.now())),
    }
}

fn reload(from: &RulesSource, engine: &Engine, now: Timestamp) {
    let node = &engine.settings().node;
    let in_force = engine.with_rules(|rules| rules.generation);
    let region = &engine.settings().region;
    // A clock that was set back makes no rules older.
    let read_after = engine.with_rules(|rules| (rules.numbering == Numbering::LoadTime).then_some(rules.generation));
    let now_or_later = read_after.map_or(now, |generation| now.max(Timestamp::from_ms(generation).plus_ms(1)));
    let refused = match from.read(now_or_later).map(|rules| rules.in_region(region)) {
        Ok(rules) if engine.enforces(&rules) => {
            tracing::info!(%node, generation = in_force, "rules are unchanged");
            return;
        }
        Ok(rules) if let Some(error) = Unenforceable::of(engine.settings(), &rules) => error.to_string(),
        Ok(rules) => {
            let (generation, count) = (rules.generation, rules.rules.len());
            for warning in &rules.warnings {
                tracing::warn!(%node, "{warning}");
            }
            match engine.set_rules(now, rules) {
                Ok(()) => {
                    tracing::info!(%node, generation, rules = count, "rules reloaded");
                    engine.with_rules(|rules| log_floors(engine.settings(), rules));
                    return;
                }
                Err(in_force) => format!(
                    "{}: version {generation} is not newer than {in_force}, which is in force; raise `version:` above it, or restart",
                    from.name()
                ),
            }
        }
        Err(error) => error.to_string(),
    };
    // Who reads the log finds the reason in `/healthz`.
    engine.reject_rules(refused.clone());
    tracing::error!(%node, "rules rejected, generation {in_force} stays in force; correct the file, it is reloaded automatically: {}", refused.replace('\n', "; "));
}
