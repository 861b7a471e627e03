//! Random streams: each component of a world has one of its own, so that a component that is added changes no other draw.

use std::hash::{DefaultHasher, Hash, Hasher};

use fastrand::Rng;

/// Returns the random stream of a component of this index under a seed.
#[must_use]
pub fn random_stream(seed: u64, component: &str, index: usize) -> Rng {
    let mut hasher = DefaultHasher::new();
    (seed, component, index).hash(&mut hasher);
    Rng::with_seed(hasher.finish())
}
