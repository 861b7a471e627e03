//! Reference of what leases cost: one store without leases that decides the same calls at the same instants.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate::{Call, RuleSet};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeMode, CounterId, DigestKey, StoredCounter, step};
use tollgate_core::rules::{Charging, Consistency, ListMatch};

/// One store without leases, which decides all calls by the semantics of a store.
#[derive(Debug)]
pub struct ReferenceStore {
    rules: RuleSet,
    counters: HashMap<CounterId, StoredCounter>,
    filled: HashMap<CounterId, FilledCounter>,
}

/// Counter that has denied a call, or of which at most a tenth of the quota was left at some time.
#[derive(Clone, Debug)]
pub struct FilledCounter {
    /// Name of the rule.
    pub rule: Arc<str>,
    /// Units that pass at once: the quota, or a larger burst.
    pub quota: u64,
    /// Units of the last call.
    pub cost: u64,
    /// Width of the window, in ms.
    pub width_ms: u64,
}

/// Charge of a request, and what follows from it.
struct ReferenceCharge {
    charge: Charge,
    denies: bool,
    rule: Arc<str>,
    /// Units of the last call that shares the charge.
    call_cost: u64,
}

impl ReferenceStore {
    /// Creates a store that has no counters yet.
    #[must_use]
    pub fn new(rules: RuleSet) -> Self {
        // Of the simulated agents, too.
        let rules = rules.in_region("default");
        Self { rules, counters: HashMap::new(), filled: HashMap::new() }
    }

    /// Returns the counters that have reached their quota.
    pub fn filled(&self) -> impl Iterator<Item = &FilledCounter> {
        self.filled.values()
    }

    /// Charges a call under all rules that apply to it, all or none, and returns true if it is admitted. A rule in
    /// shadow counts the call and does not deny it.
    pub fn admits(&mut self, call: &Call<'_>, at: Timestamp) -> bool {
        self.admits_all(std::slice::from_ref(call), at)
    }

    /// Charges the calls of one request, all or none, and returns true if they are admitted. A caller on the allow list
    /// is counted and never denied, and a rule with `charge: each` counts a denied call, too. A call with a request id
    /// is charged once. No store decides rules under `consistency: eventual`, which are left out.
    ///
    /// # Panics
    /// Never: a charge does not expire at its own instant.
    pub fn admits_all(&mut self, calls: &[Call<'_>], at: Timestamp) -> bool {
        let (mut asked, mut is_rejected) = (Vec::new(), false);
        for call in calls {
            is_rejected |= !self.add_charges(call, calls.len() == 1, at, &mut asked);
        }
        if is_rejected {
            asked.retain(|asked| !asked.charge.mode.is_enforced());
        }
        let charges: Vec<_> = asked.iter().map(|asked| asked.charge.clone()).collect();
        let results = step(&mut self.counters, &charges, at).expect("no charge has expired");
        let mut admits = !is_rejected;
        for (asked, result) in asked.iter().zip(&results).filter(|(asked, _)| asked.denies) {
            let (limit, verdict) = (asked.charge.limit, result.verdict);
            admits &= verdict.admitted;
            let quota = limit.units.max(limit.burst);
            if !verdict.admitted || verdict.remaining.saturating_mul(10) <= quota {
                let (rule, width_ms) = (asked.rule.clone(), limit.window.width_ms());
                let filled = FilledCounter { rule, quota, cost: asked.call_cost, width_ms };
                self.filled.insert(asked.charge.counter, filled);
            }
        }
        admits
    }

    /// Adds the charges of a call to those of its request. Returns false if the deny list denies the call.
    fn add_charges(&self, call: &Call<'_>, is_alone: bool, at: Timestamp, asked: &mut Vec<ReferenceCharge>) -> bool {
        let (resolved, key) = (self.rules.resolved(call), DigestKey::default());
        let list_match = self.rules.list_match(&resolved);
        if let ListMatch::Denied(_) = list_match {
            return false;
        }
        let id = call.id().filter(|_| is_alone);
        let request = id.map(|id| key.request(id, call.cost(), call.descriptors()));
        for applicable in self.rules.applicable(&resolved) {
            let Some(policy) = applicable.policy.filter(|policy| policy.consistency != Consistency::Eventual) else {
                continue;
            };
            let rule = applicable.rule;
            let denies = list_match == ListMatch::Unlisted && !rule.shadow;
            let counter = key.counter(&rule.name, rule.values(&resolved));
            let call_cost = rule.cost_of(&resolved, call.cost());
            let charge = Charge::enforce(counter, policy.limit(), self.rules.generation, call_cost, at);
            let is_enforced = denies && rule.charge != Charging::Each;
            let mode = if is_enforced { charge.mode } else { ChargeMode::CountOnly { expires_at: at } };
            let shares = |other: &&mut ReferenceCharge| {
                other.charge.counter == counter && other.charge.mode.is_enforced() == is_enforced
            };
            if let Some(other) = asked.iter_mut().find(shares) {
                other.charge.cost += call_cost;
                if charge.limit.units < other.charge.limit.units {
                    other.charge.limit = charge.limit;
                }
                (other.denies, other.call_cost) = (other.denies || denies, call_cost);
            } else {
                let charge = Charge { mode, request, ..charge };
                asked.push(ReferenceCharge { charge, denies, rule: rule.name.clone(), call_cost });
            }
        }
        true
    }
}
