//! `regions:` of the file, and the rules whose quota they share: those with `scope: global`.

use serde_json::Value;

use crate::percent::parse_percent;
use crate::rule_name::is_name_char;
use crate::schema::{Key, map_of, names, object, pattern};
use crate::yaml::{Fields, Node, YamlReader, line_of};
use tollgate_core::call::NAME_LEN_MAX;
use tollgate_core::regions::{FLOOR_PPM_DEFAULT, REGIONS_LEN_MAX, RegionFloorRatio};
use tollgate_core::rules::{Charging, Quota, Rule, Scope, show_units};

/// Whole of a quota, in millionths.
const WHOLE_PPM: u64 = 1_000_000;
const FLOOR_FORM: &str = "a part of each global quota, 0% to 100% in steps of 0.0001%";

const REGION: [Key; 1] =
    [Key::new("floor", "Part of each global quota that the region always has. Default: 1%.", || {
        pattern(r"[0-9]+(\.[0-9]{1,4})? *%")
    })];

/// Returns the schema of `regions`.
pub(super) fn schema() -> Value {
    let mut regions = map_of(&object(REGION));
    regions["propertyNames"] = pattern(&format!("[A-Za-z0-9_.:/-]{{1,{NAME_LEN_MAX}}}"));
    regions["maxProperties"] = REGIONS_LEN_MAX.into();
    regions
}

pub(super) fn read_regions(reader: &mut YamlReader<'_>, node: &Node<'_>) -> Vec<RegionFloorRatio> {
    let before = reader.problems.len();
    let (entries, line) = (reader.mapping(node, "`regions`"), line_of(node));
    let regions: Vec<_> = entries.iter().map(|(name, node)| read_region(reader, name, node)).collect();
    if reader.problems.len() > before {
        return regions;
    }
    let floors_ppm: u64 = regions.iter().map(|part| u64::from(part.floor_ppm)).sum();
    match regions.len() {
        0 => reader.refuse(line, "`regions` name no region; write some, such as { eu: { floor: 10% }, us: {} }"),
        1 => {
            reader.warn(line, "`regions` name one region only, so no quota is shared; name the others, or remove them");
        }
        2..=REGIONS_LEN_MAX => {}
        len => reader.refuse(line, format!("{len} regions; at most {REGIONS_LEN_MAX} share quotas")),
    }
    if floors_ppm > WHOLE_PPM {
        let text = format!(
            "the floors of all regions are together more than 100% of a quota; lower some (a region without `floor` has {}%)",
            FLOOR_PPM_DEFAULT / 10_000
        );
        reader.refuse(line, text);
    }
    regions
}

fn read_region(reader: &mut YamlReader<'_>, name: &str, node: &Node<'_>) -> RegionFloorRatio {
    // Unlike the name of a rule, it has no space: the flag `--region` takes none.
    let is_name = (1..=NAME_LEN_MAX).contains(&name.len()) && name.chars().all(|c| is_name_char(c) && c != ' ');
    if !is_name {
        let text = format!("region `{name}`: write 1 to {NAME_LEN_MAX} letters, digits or any of - _ . : /");
        reader.refuse(line_of(node), text);
    }
    let fields = reader.fields(node, "a region", &names(&REGION));
    let floor = fields.get("floor").and_then(|node| reader.parse_by(node, "`floor`", FLOOR_FORM, parse_percent));
    RegionFloorRatio { region: name.into(), floor_ppm: floor.unwrap_or(FLOOR_PPM_DEFAULT) }
}

/// Refuses a rule with a global scope that no regions share, or that has not one quota for all callers. `regions` are absent if
/// the file does not have them.
pub(super) fn check_global(
    reader: &mut YamlReader<'_>,
    fields: &Fields<'_>,
    regions: Option<&[RegionFloorRatio]>,
    rule: &Rule,
) {
    if rule.scope != Scope::Global {
        return;
    }
    let line_of_field = |names: &[&str]| names.iter().find_map(|name| fields.get(name)).map_or(fields.line(), line_of);
    let mut refuse = |names: &[&str], text: String| reader.refuse(line_of_field(names), text);
    if regions.is_none() {
        let text = "`scope: global` needs the regions that share the quota; write `regions: { eu: { floor: 10% }, us: {} }` at the top level of the file, or `scope: regional`";
        refuse(&["scope"], text.to_owned());
    }
    if rule.charge == Charging::Each {
        let text = "`charge: each` is only for `algorithm: fixed_window`, and a rule with `scope: global` has a sliding window; remove one of the two";
        refuse(&["charge"], text.to_owned());
    }
    if rule.quota_from.is_some() {
        let text = "a rule with `scope: global` has one quota, of which each region holds a part, so a call cannot bring its own; write a quota such as 100/min, or `scope: regional`";
        refuse(&["quota"], text.to_owned());
    }
    let Some(policy) = rule.policy else {
        refuse(
            &["quota"],
            "`quota: unlimited` leaves regions nothing to share; write a quota, or remove `scope`".to_owned(),
        );
        return;
    };
    let differs = |other: Option<Quota>| other != Some(policy.quota);
    if rule.by_tier.iter().any(|(_, of_tier)| differs(of_tier.map(|policy| policy.quota))) {
        refuse(&["tiers", "quota"], one_quota("some tiers"));
    }
    if rule.by_key.values().any(|of_key| differs(of_key.map(|policy| policy.quota))) {
        refuse(&["keys"], one_quota("some keys"));
    }
    if rule.lowers_at_edge {
        let text = "`lower: next-window` is for rules with `scope: regional`; regions hold parts of a global quota that end by their terms; remove it";
        refuse(&["lower"], text.to_owned());
    }
    if !rule.timed.is_empty() {
        refuse(&["keys", "tiers"], one_quota("some overrides"));
    }
    let (units, unit) = (policy.quota.units(), policy.quota.unit());
    let floors = regions.unwrap_or_default().iter().map(|part| part.units_of(units));
    let floors = floors.fold(0_u64, u64::saturating_add);
    // Floors of more than the whole are refused at `regions`; others exceed it only because each is at least one unit.
    let parts_ppm: u64 = regions.unwrap_or_default().iter().map(|part| u64::from(part.floor_ppm)).sum();
    if floors > units && parts_ppm <= WHOLE_PPM {
        let text = format!(
            "the quota {} is less than the floors of its regions, which are at least one unit each and together {}; raise the quota, or write `scope: regional`",
            policy.quota,
            show_units(floors, unit)
        );
        refuse(&["quota"], text);
    }
}

/// Returns the refusal of exceptions of a rule with a global scope.
pub(super) fn one_quota(exceptions: &str) -> String {
    format!(
        "a rule with `scope: global` has one quota for all callers, of which each region holds a part, and {exceptions} have another one; write a rule with a `match` for them, or `scope: regional`"
    )
}
