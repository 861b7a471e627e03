//! Usage of all regions as text: the sums of each rule by region, and the largest counters over all regions.

use serde_json::Value;
use tollgate_command::output;

use super::values::{age, array, text};

/// Formats the usage as two tables; nothing if no rule is shown.
pub(super) fn usage_text(usage: &Value) -> String {
    let rules = array(&usage["rules"]);
    if rules.is_empty() {
        return String::new();
    }
    let by_region = output::table(
        &["rule", "region", "used", "demand", "age"],
        rules.iter().flat_map(|rule| rows_of_rule(rule, array(&usage["regions"]))),
    );
    let counters: Vec<[String; 6]> = rules.iter().flat_map(rows_of_counters).collect();
    let largest = if counters.is_empty() {
        String::new()
    } else {
        let table = output::table(&["rule", "counter", "used", "demand", "quota", "used by region"], counters);
        format!("\n\nlargest counters over all regions\n{table}")
    };
    let error = usage["error"].as_str().map_or_else(String::new, |error| format!("\nusage: {error}"));
    format!("usage in the last window, which limits nothing\n{by_region}{largest}{error}")
}

/// Returns a row for each region, and one for all regions whose usage is known.
fn rows_of_rule(rule: &Value, regions: &[Value]) -> Vec<[String; 5]> {
    let name = || text(&rule["rule"]);
    let row = |(of, region): (&Value, &Value)| {
        let known = [text(&of["used"]), text(&of["demand"])];
        let [used, demand] = if is_known(region) { known } else { ["unknown".to_owned(), "-".to_owned()] };
        [name(), text(&of["region"]), used, demand, age(region)]
    };
    let known = regions.iter().filter(|region| is_known(region)).count();
    let all = if known == regions.len() { "all".to_owned() } else { format!("{known} of {}", regions.len()) };
    let sum = [name(), all, text(&rule["used"]), text(&rule["demand"]), String::new()];
    array(&rule["regions"]).iter().zip(regions).map(row).chain([sum]).collect()
}

/// Returns a row for each of the largest counters, with the quota of a caller that uses all regions.
fn rows_of_counters(rule: &Value) -> Vec<[String; 6]> {
    let (one, all) = (text(&rule["quota"]), text(&rule["over_regions"]));
    let quota = match (rule["scope"] == "global", rule["quota"].is_null()) {
        (_, true) => "-".to_owned(),
        (true, _) => all,
        (false, _) => format!("{one} x {} = {all}", array(&rule["regions"]).len()),
    };
    let row = |counter: &Value| {
        let used = |of: &Value| format!("{} {}", text(&of["region"]), text(&of["used"]));
        let by_region: Vec<String> = array(&counter["regions"]).iter().map(used).collect();
        let [label, used, demand] = ["label", "used", "demand"].map(|key| text(&counter[key]));
        [text(&rule["rule"]), label, used, demand, quota.clone(), by_region.join(", ")]
    };
    array(&rule["counters"]).iter().map(row).collect()
}

fn is_known(region: &Value) -> bool {
    region["known"] == true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn usage_is_shown_by_region_and_by_counter_in_80_columns() {
        let units =
            |region, used: Option<u64>| json!({ "region": region, "used": used, "demand": used.map(|used| 3 * used) });
        let counter = |label: &str| {
            let regions = json!([units("eu", Some(50)), units("us", Some(40))]);
            json!({ "id": "78c6", "label": label, "used": 90, "demand": 270, "regions": regions })
        };
        let rule = |name: &str, scope: &str, over: u64, counters: Value| {
            let regions = json!([units("eu", Some(51)), units("sa", None), units("us", Some(40))]);
            json!({ "rule": name, "scope": scope, "quota": 50, "over_regions": over, "used": 91, "demand": 273, "regions": regions, "counters": counters })
        };
        let regions = [("eu", true, Some(400)), ("sa", false, Some(14_100)), ("us", true, Some(1_900))];
        let regions =
            regions.map(|(region, known, age_ms)| json!({ "region": region, "known": known, "age_ms": age_ms }));
        let usage = json!({
            "error": "no topic",
            "regions": regions,
            "rules": [rule("per-key", "global", 50, json!([])), rule("per-ip", "regional", 150, json!([counter("ip=10.0.0.1")]))],
        });
        let text = usage_text(&usage);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        insta::assert_snapshot!(text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n"), @r"
        usage in the last window, which limits nothing
        rule     region  used     demand  age
        per-key  eu      51       153     0 s
        per-key  sa      unknown  -       14 s
        per-key  us      40       120     1 s
        per-key  2 of 3  91       273
        per-ip   eu      51       153     0 s
        per-ip   sa      unknown  -       14 s
        per-ip   us      40       120     1 s
        per-ip   2 of 3  91       273

        largest counters over all regions
        rule    counter      used  demand  quota         used by region
        per-ip  ip=10.0.0.1  90    270     50 x 3 = 150  eu 50, us 40
        usage: no topic
        ");
        assert_eq!(usage_text(&json!({ "rules": [] })), "");
    }
}
