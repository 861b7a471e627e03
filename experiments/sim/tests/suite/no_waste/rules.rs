//! The rules of a world: two to four that count together on each call of one tenant.

use std::fmt::Write;

use fastrand::Rng;

/// Quotas, and windows in ms, each of which occurs in at least a tenth of the worlds.
pub(crate) const QUOTAS: [u64; 4] = [5, 100, 1_000, 100_000];
pub(crate) const WINDOWS_MS: [u64; 4] = [1_000, 60_000, 3_600_000, 86_400_000];
pub(crate) const ALGORITHMS: [&str; 6] =
    ["sliding_window", "fixed_window", "sliding_log", "token_bucket", "leaky_bucket", "concurrency"];
/// Longest window that is short.
const SHORT_MS_MAX: u64 = 60_000;
/// Most calls that fill a quota: a call of a larger one costs more.
const CALLS_MAX: u64 = 1_000;
/// Most units of algorithms that keep each admission: half of what they take, because a tier may have twice as many.
const KEPT_UNITS_MAX: u64 = 5_000;

#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "settings that are drawn one by one")]
pub(crate) struct MixedRule {
    pub(crate) algorithm: &'static str,
    /// True for a counter of each user, and false for one of the tenant.
    pub(crate) per_user: bool,
    pub(crate) quota: u64,
    pub(crate) width_ms: u64,
    /// Units of a call, if they are not those of the call itself.
    pub(crate) cost: Option<u64>,
    pub(crate) estimate: &'static str,
    pub(crate) consistency: &'static str,
    pub(crate) has_burst: bool,
    pub(crate) shadow: bool,
    pub(crate) charge_each: bool,
    pub(crate) leases_off: bool,
    /// True if the quota is a floor of half of one over two regions.
    pub(crate) is_global: bool,
    /// True if callers of another tier have twice the quota.
    pub(crate) has_tiers: bool,
    /// True if a narrower rule of the group replaces it for the first user, with twice the quota.
    pub(crate) is_in_group: bool,
}

impl MixedRule {
    /// Draws the rules of a world. `share` is the part of the calls that the busiest user makes. In every second world
    /// all rules may lease, and in the others the first two have another pair of algorithms in each world.
    pub(crate) fn draw_all(rng: &mut Rng, seed: u64, share: f64) -> Vec<Self> {
        let len = rng.usize(2..=4);
        let pairs: Vec<_> = (0..ALGORITHMS.len()).flat_map(|a| (a..ALGORITHMS.len()).map(move |b| [a, b])).collect();
        let pair = pairs[usize::try_from(seed / 2).unwrap_or_default() % pairs.len()];
        let mut rules: Vec<Self> = Vec::new();
        for place in 0..len {
            let algorithm = match (seed.is_multiple_of(2), pair.get(place)) {
                (true, _) => ALGORITHMS[rng.usize(0..4) / 3],
                (false, Some(algorithm)) => ALGORITHMS[*algorithm],
                (false, None) => ALGORITHMS[rng.usize(0..ALGORITHMS.len())],
            };
            let mut rule = Self::draw(rng, algorithm, rules.first(), share);
            if seed.is_multiple_of(2) {
                (rule.has_burst, rule.charge_each, rule.leases_off) = (false, false, false);
            }
            rules.push(rule);
        }
        if seed.is_multiple_of(2) && rng.u8(0..4) > 0 {
            // A caller with enough calls for leases.
            (rules[0].quota, rules[0].width_ms) = (QUOTAS[rng.usize(2..4)], WINDOWS_MS[rng.usize(0..2)]);
            let first = rules[0].clone();
            rules[1..].iter_mut().for_each(|rule| rule.come_near(rng, &first, share));
        }
        // One caller under a short and a long window.
        if rng.u8(0..3) == 0 {
            rules[1].per_user = rules[0].per_user;
            rules[0].width_ms = WINDOWS_MS[rng.usize(0..2)];
            rules[1].width_ms = WINDOWS_MS[rng.usize(2..4)];
        }
        if rules.iter().all(|rule| whole(rule.calls(share)) > CALLS_MAX) {
            rules[0].cost = Some(rules[0].quota.div_ceil(CALLS_MAX));
        }
        // Regional beside global.
        let mut rng = Rng::with_seed(!seed);
        for rule in rules.iter_mut().filter(|rule| rule.may_be_global()) {
            rule.is_global = rng.u8(0..4) == 0;
            if rule.is_global {
                (rule.estimate, rule.consistency) = ("", "");
            }
        }
        rules
    }

    fn may_be_global(&self) -> bool {
        let is_plain = !(self.has_burst || self.shadow || self.charge_each || self.leases_off || self.has_tiers);
        is_plain && self.algorithm == "sliding_window" && self.consistency != "eventual"
    }

    /// Returns the number of sub-windows.
    pub(crate) fn sub_windows(&self) -> u64 {
        (self.width_ms / 100).min(if self.is_global { 60 } else { 12 })
    }

    fn draw(rng: &mut Rng, algorithm: &'static str, first: Option<&Self>, share: f64) -> Self {
        let rare = |rng: &mut Rng| first.is_some() && rng.u8(0..8) == 0;
        let width_ms = WINDOWS_MS[rng.usize(0..WINDOWS_MS.len())];
        let per_user = first.is_some() && rng.bool();
        let mut rule = Self {
            algorithm,
            per_user,
            quota: QUOTAS[rng.usize(0..QUOTAS.len())],
            width_ms,
            cost: None,
            estimate: ["", "", "interpolated", "conservative"][rng.usize(0..4)],
            consistency: ["", "", "bounded", "strict"][rng.usize(0..4)],
            has_burst: rng.u8(0..8) == 0,
            shadow: rare(rng),
            charge_each: false,
            leases_off: first.is_some() && rng.u8(0..3) == 0,
            is_global: false,
            has_tiers: per_user && rare(rng),
            is_in_group: rare(rng),
        };
        rule.cost = [None, None, Some(1), Some(2), Some(5)][rng.usize(0..5)].filter(|cost| cost * 5 <= rule.quota);
        if rule.is_kept() {
            rule.quota = rule.quota.min(QUOTAS[2]);
        }
        if let Some(first) = first.filter(|_| rng.bool()) {
            rule.come_near(rng, first, share);
        }
        match algorithm {
            "fixed_window" => {
                rule.charge_each = first.is_some() && rng.u8(0..3) > 0 && !rule.shadow;
                rule.estimate = "";
            }
            "sliding_window" => {}
            _ => rule.estimate = "",
        }
        let is_bucket = algorithm.ends_with("bucket");
        rule.has_burst &= algorithm == "sliding_window" && rule.consistency != "strict";
        rule.has_burst |= is_bucket;
        let may_lease = algorithm.ends_with("window") && !rule.has_burst;
        rule.leases_off &= may_lease;
        let may_be_eventual = may_lease && !rule.charge_each && !rule.leases_off;
        if may_be_eventual && rare(rng) {
            rule.consistency = "eventual";
        }
        rule
    }

    /// Changes the quota so that it is reached by about the same calls as that of another rule, at once or in a long
    /// time.
    #[expect(clippy::cast_precision_loss, reason = "short times and small quotas")]
    fn come_near(&mut self, rng: &mut Rng, first: &Self, share: f64) {
        let windows = if rng.bool() { self.width_ms as f64 / first.width_ms as f64 } else { 1.0 };
        let calls = first.calls(share) * windows * [0.8, 1.0, 1.5][rng.usize(0..3)];
        let own_share = if self.per_user { share } else { 1.0 };
        let quota = whole((calls * own_share).ceil()).saturating_mul(self.cost.unwrap_or(1));
        self.quota = quota.clamp(5, if self.is_kept() { KEPT_UNITS_MAX } else { QUOTAS[3] });
    }

    fn is_kept(&self) -> bool {
        self.algorithm == "sliding_log" || self.algorithm == "concurrency"
    }

    /// Returns true if the rule may deny calls, and the reference decides by it.
    pub(crate) fn may_deny(&self) -> bool {
        !self.shadow && self.consistency != "eventual"
    }

    pub(crate) fn is_short(&self) -> bool {
        self.width_ms <= SHORT_MS_MAX
    }

    /// Returns the number of calls of the whole world after which a counter is full at once.
    #[expect(clippy::cast_precision_loss, reason = "small quotas")]
    pub(crate) fn calls(&self, share: f64) -> f64 {
        let own_share = if self.per_user { share } else { 1.0 };
        self.quota as f64 / self.cost.unwrap_or(1) as f64 / own_share
    }

    /// Returns the rule as items of a list.
    pub(crate) fn text(&self, place: usize) -> String {
        let per = if self.per_user { "user" } else { "tenant" };
        let mut settings = format!("per: [{per}], algorithm: {}", self.algorithm);
        let mut set = |setting: String| write!(settings, ", {setting}").expect("a string takes all");
        if let Some(cost) = self.cost {
            set(format!("cost: {cost}"));
        }
        if !self.estimate.is_empty() {
            set(format!("estimate: {}", self.estimate));
        }
        match self.consistency {
            "" => {}
            // No signals come.
            "eventual" => set("consistency: eventual, on_failure: open".to_owned()),
            consistency => set(format!("consistency: {consistency}")),
        }
        let flags =
            [(self.shadow, "shadow: true"), (self.charge_each, "charge: each"), (self.leases_off, "leases: off")];
        flags.iter().filter(|(is_set, _)| *is_set).for_each(|(_, setting)| set((*setting).to_owned()));
        let quota = |times: u64| {
            let burst = if self.has_burst { format!(", burst: {}", self.burst() * times) } else { String::new() };
            let times = if self.is_global { 2 * times } else { times };
            format!("quota: {}/{}ms{burst}", self.quota * times, self.width_ms)
        };
        if self.has_tiers {
            set(format!("tiers: {{ pro: {{ {} }} }}", quota(2)));
        }
        if self.is_global {
            set("scope: global".to_owned());
        }
        let mut text = String::new();
        if self.is_in_group {
            let quota = quota(2);
            write!(
                text,
                "{{ name: r{place}-narrower, group: g{place}, match: {{ user: user-0 }}, {quota}, {settings} }}, "
            )
            .expect("a string takes all");
            write!(text, "{{ name: r{place}, group: g{place}").expect("a string takes all");
        } else {
            write!(text, "{{ name: r{place}").expect("a string takes all");
        }
        write!(text, ", {}, {settings} }}", quota(1)).expect("a string takes all");
        text
    }

    fn burst(&self) -> u64 {
        if self.algorithm == "sliding_window" { self.quota * 3 / 2 } else { self.quota }
    }
}

/// Returns a number of calls.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "numbers of calls")]
pub(crate) fn whole(calls: f64) -> u64 {
    calls as u64
}
