//! Reference of what leases cost: one store without leases that decides the same calls at the same instants.

use std::collections::HashMap;

use tollgate::{Call, RuleSet};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeMode, CounterId, DigestKey, StoredCounter, step};

/// One store without leases, which decides all calls by the semantics of a store.
#[derive(Debug)]
pub struct ReferenceStore {
    rules: RuleSet,
    counters: HashMap<CounterId, StoredCounter>,
}

impl ReferenceStore {
    /// Creates a store that has no counters yet.
    #[must_use]
    pub fn new(rules: RuleSet) -> Self {
        Self { rules, counters: HashMap::new() }
    }

    /// Charges a call under all rules that apply to it, all or none, and returns true if it is admitted. A rule in shadow counts the
    /// call and does not deny it.
    ///
    /// # Panics
    /// Never: a charge does not expire at its own instant.
    pub fn admits(&mut self, call: &Call<'_>, at: Timestamp) -> bool {
        let (resolved, key) = (self.rules.resolved(call), DigestKey::default());
        let mut charges = Vec::new();
        for applicable in self.rules.applicable(&resolved) {
            let Some(policy) = applicable.policy else { continue };
            let counter = key.counter(&applicable.rule.name, applicable.rule.values(&resolved));
            let cost = applicable.rule.cost_of(&resolved, call.cost());
            let charge = Charge::enforce(counter, policy.limit(), self.rules.generation, cost, at);
            let mode = if applicable.rule.shadow { ChargeMode::CountOnly { expires_at: at } } else { charge.mode };
            charges.push(Charge { mode, ..charge });
        }
        let results = step(&mut self.counters, &charges, at).expect("no charge has expired");
        charges.iter().zip(&results).all(|(charge, result)| !charge.mode.is_enforced() || result.charged)
    }
}
