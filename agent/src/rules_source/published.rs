//! Rules that are published: put in force when they are newer, and kept for a start at which nothing can be reached.

use std::sync::Arc;

use tollgate_core::clock::Timestamp;
use tollgate_core::messages::rules::Published;
use tollgate_core::rules::Generation;

use crate::state_dir::StateDir;
use tollgate_engine::Engine;

/// Follows what is published, wherever it was heard.
pub(crate) struct Follower {
    engine: Arc<Engine>,
    state: Option<Arc<StateDir>>,
}

impl Follower {
    pub(crate) fn new(engine: Arc<Engine>, state: Option<Arc<StateDir>>) -> Self {
        Self { engine, state }
    }

    /// Hears of rules, and when they were published, if that is known. What is not newer than what is in force changes nothing.
    pub(crate) fn hear(&self, generation: Generation, appended: Option<Timestamp>, published: Published) {
        let engine = &self.engine;
        let node = &engine.settings().node;
        let in_force = engine.with_rules(|rules| rules.generation);
        if generation <= in_force {
            if generation < in_force && appended.is_some_and(|appended| appended >= engine.settings().epoch) {
                tracing::warn!(%node, generation, "published rules are not put in force: generation {in_force} is, from another source or from a topic that was made anew; restart the agents without their state folders");
            }
            return;
        }
        match tollgate_rules::read_published(&published, generation) {
            Ok(rules) => {
                let count = rules.rules.len();
                if engine.set_rules(rules).is_ok() {
                    tracing::info!(%node, generation, rules = count, file = published.name, "published rules are in force");
                    if let Some(state) = &self.state {
                        state.change(|saved| saved.rules = Some((generation, published)));
                    }
                }
            }
            Err(error) => {
                tracing::error!(%node, generation, "published rules refused, generation {in_force} stays in force; publish mended ones:\n{error}");
                engine.reject_rules(error.to_string());
            }
        }
    }
}
