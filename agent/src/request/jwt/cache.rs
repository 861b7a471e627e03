//! Tokens whose signature was found to hold, so that a busy client costs one verification a while and not one a call.
//!
//! A token is known by a digest under a key that nobody knows, so no other token is ever taken for it. When half of the cap is
//! new the older half is forgotten: what is in use is always in the newer one. What depends on time is judged anew at each
//! look, and the whole goes with the keys that it was judged by.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use parking_lot::Mutex;
use siphasher::sip128::{Hasher128, SipHasher24};

use super::Claims;

/// How many tokens are remembered.
pub const TOKENS_LEN_MAX: usize = 10_000;
const SHARDS: usize = 16;

#[derive(Debug)]
pub(super) struct Cache {
    key: (u64, u64),
    half_len_max: usize,
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Debug, Default)]
struct Shard {
    newer: Tokens,
    older: Tokens,
}

type Tokens = HashMap<u128, Arc<Claims>, foldhash::fast::RandomState>;

impl Cache {
    /// Remembers about so many tokens, and never more than that.
    pub(super) fn new(tokens_max: usize) -> Self {
        let random = || RandomState::new().hash_one(0);
        let half_len_max = (tokens_max / SHARDS / 2).max(1);
        Self { key: (random(), random()), half_len_max, shards: Default::default() }
    }

    /// What the token says if it is known; else, if it holds, it is from now on.
    pub(super) fn get_or<E>(&self, token: &str, verify: impl FnOnce() -> Result<Claims, E>) -> Result<Arc<Claims>, E> {
        let mut hasher = SipHasher24::new_with_keys(self.key.0, self.key.1);
        hasher.write(token.as_bytes());
        let digest = hasher.finish128().as_u128();
        let shard = &self.shards[usize::from(digest.to_le_bytes()[0]) % SHARDS];
        if let Some(known) = shard.lock().find(digest, self.half_len_max) {
            return Ok(known);
        }
        // Nobody waits for a signature but who asked about it.
        let claims = Arc::new(verify()?);
        shard.lock().insert(digest, claims.clone(), self.half_len_max);
        Ok(claims)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock()).map(|shard| shard.newer.len() + shard.older.len()).sum()
    }
}

impl Shard {
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

    /// `capped`: a flood of tokens passes through, and who is in use stays.
    #[test]
    fn it_never_holds_more_than_its_cap_and_keeps_who_is_in_use() {
        let cache = Cache::new(1_000);
        let mut verified_busy = 0;
        let none = || Claims::new(serde_json::Map::new());
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
    fn what_does_not_hold_is_not_remembered() {
        let cache = Cache::new(100);
        assert_eq!(cache.get_or("t", || Err("bad")).unwrap_err(), "bad");
        assert_eq!(cache.len(), 0);
    }
}
