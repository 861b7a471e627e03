//! Rules that are reloaded while the agent runs. What is broken never replaces a good set.

use std::sync::Arc;

use tollgate_core::clock::{Clock, Timestamp};

use super::RulesFrom;
use crate::files::Watched;
use crate::limiter::Limiter;

/// Has the limiter follow these files.
pub(crate) fn follow(from: RulesFrom, limiter: Arc<Limiter>, clock: Arc<dyn Clock>) -> Watched {
    let again = from.clone();
    Watched::new(from.content(), move || again.content(), move || reload(&from, &limiter, clock.now()))
}

fn reload(from: &RulesFrom, limiter: &Limiter, now: Timestamp) {
    let node = &limiter.settings().node;
    let in_force = limiter.with_rules(|rules| rules.generation);
    let refused = match from.read(now) {
        Ok(rules) => {
            let (generation, count) = (rules.generation, rules.rules.len());
            for warning in &rules.warnings {
                tracing::warn!(%node, "{warning}");
            }
            match limiter.set_rules(rules) {
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
    limiter.refuse_rules(refused);
}
