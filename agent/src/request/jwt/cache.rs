//! Cache of verified tokens, which saves repeated signature verification.
//!
//! Tokens are identified by a digest with a random key, so that no other token can be mistaken for a cached one. Each
//! shard has two generations; when the newer one is full, the older one is dropped, and a hit moves its token to the
//! newer one. Validity times are checked at each use, and the cache is replaced together with the keys.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use parking_lot::Mutex;
use siphasher::sip128::{Hasher128, SipHasher24};

use super::Claims;

/// Maximum number of cached tokens.
pub const TOKENS_LEN_MAX: usize = 10_000;
const SHARDS: usize = 16;

#[derive(Debug)]
pub(super) struct TokenCache {
    key: (u64, u64),
    half_len_max: usize,
    shards: [Mutex<TokenShard>; SHARDS],
}

#[derive(Debug, Default)]
struct TokenShard {
    newer: Tokens,
    older: Tokens,
}

type Tokens = HashMap<u128, Arc<Claims>, foldhash::fast::RandomState>;

impl TokenCache {
    /// Creates a cache of at most `tokens_max` tokens.
    pub(super) fn new(tokens_max: usize) -> Self {
        let random = || RandomState::new().hash_one(0);
        let half_len_max = (tokens_max / SHARDS / 2).max(1);
        Self { key: (random(), random()), half_len_max, shards: Default::default() }
    }

    /// Returns the claims of a cached token; otherwise verifies the token and caches its claims.
    pub(super) fn get_or<E>(&self, token: &str, verify: impl FnOnce() -> Result<Claims, E>) -> Result<Arc<Claims>, E> {
        let mut hasher = SipHasher24::new_with_keys(self.key.0, self.key.1);
        hasher.write(token.as_bytes());
        let digest = hasher.finish128().as_u128();
        let shard = &self.shards[usize::from(digest.to_le_bytes()[0]) % SHARDS];
        if let Some(known) = shard.lock().find(digest, self.half_len_max) {
            return Ok(known);
        }
        // The signature is verified without holding the lock.
        let claims = Arc::new(verify()?);
        shard.lock().insert(digest, claims.clone(), self.half_len_max);
        Ok(claims)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock()).map(|shard| shard.newer.len() + shard.older.len()).sum()
    }
}

impl TokenShard {
    fn find(&mut self, digest: u128, half_len_max: usize) -> Option<Arc<Claims>> {
        if let Some(known) = self.newer.get(&digest) {
            return Some(known.clone());
        }
        let known = self.older.remove(&digest)?;
        self.insert(digest, known.clone(), half_len_max);
        Some(known)
    }

    fn insert(&mut self, digest: u128, claims: Arc<Claims>, half_len_max: usize) {
        if self.newer.len() >= half_len_max {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(digest, claims);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `capped`: a flood of tokens does not exceed the cap, and does not evict a token in use.
    #[test]
    fn the_cache_never_exceeds_its_cap_and_keeps_tokens_in_use() {
        let cache = TokenCache::new(1_000);
        let mut verified_busy = 0;
        let none = || Claims(serde_json::Map::new());
        for i in 0..20_000 {
            cache.get_or::<()>(&format!("t{i}"), || Ok(none())).unwrap();
            if i % 10 == 0 {
                let busy = || {
                    verified_busy += 1;
                    Ok::<_, ()>(none())
                };
                cache.get_or("busy", busy).unwrap();
            }
            assert!(i % 1_000 != 0 || cache.len() <= 1_000, "{}", cache.len());
        }
        assert_eq!(verified_busy, 1);
    }

    #[test]
    fn invalid_tokens_are_not_cached() {
        let cache = TokenCache::new(100);
        assert_eq!(cache.get_or("t", || Err("bad")).unwrap_err(), "bad");
        assert_eq!(cache.len(), 0);
    }
}
