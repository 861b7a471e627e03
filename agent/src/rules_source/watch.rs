//! Rules that are reloaded while the agent runs. What is broken never replaces a good set.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tollgate_common::clock::{Clock, Timestamp};

use super::RulesFrom;
use crate::limiter::Limiter;

/// How often the files are looked at.
const POLL: Duration = Duration::from_millis(200);

/// Looks after the files on a thread of its own until told to stop.
pub(crate) fn watch(
    from: RulesFrom,
    limiter: Arc<Limiter>,
    clock: Arc<dyn Clock>,
    stop: Arc<AtomicBool>,
) -> std::io::Result<std::thread::JoinHandle<()>> {
    let mut known = from.content();
    std::thread::Builder::new().name("tollgate-rules".into()).spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            std::thread::park_timeout(POLL);
            let content = from.content();
            if content == known {
                continue;
            }
            known = content;
            reload(&from, &limiter, clock.now());
        }
    })
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
