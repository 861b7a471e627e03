//! Alerts: their tests by promtool, their texts, and the table of the page.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use super::{DOCUMENT, RULES, deployed, values};

const TESTS: &str = include_str!("../../../../deploy/prometheus/rules_test.yaml");

/// Runs promtool with a file of the folder.
fn promtool(action: [&str; 2], file: &Path) {
    let output = Command::new("promtool").args(action).arg(file).output();
    let output = output.expect("promtool is missing: run scripts/servers, or apt-get install prometheus");
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    assert!(output.status.success(), "promtool {action:?}: {said}");
}

/// Returns the names of alerts that stand in code in the table under the heading.
fn documented() -> BTreeSet<&'static str> {
    let (_, section) = DOCUMENT.split_once("\n## To be alerted\n").expect("the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `Tollgate"));
    rows.map(|row| &row[..row.find('`').expect("code")]).collect()
}

/// L3 to L7: promtool fires each alert, and not in the cases beside it.
#[test]
fn l3_to_l7_alerts_fire() {
    let folder = deployed().join("prometheus");
    promtool(["check", "config"], &folder.join("prometheus.yaml"));
    promtool(["test", "rules"], &folder.join("rules_test.yaml"));
}

/// L3 to L7: promtool's tests have each alert in a case in which it fires, and in one in which it does not.
#[test]
fn l3_to_l7_each_alert_has_a_case_in_which_it_does_not_fire() {
    let alerts: BTreeSet<&str> = values(RULES, "alert").into_iter().collect();
    let silent = TESTS.lines().filter(|line| line.ends_with("exp_alerts: [] }"));
    let silent = silent.filter_map(|line| line.split("alertname: ").nth(1)?.split(',').next()).collect();
    assert_eq!(alerts, silent);
    let fired = TESTS.lines().filter_map(|line| line.trim().strip_prefix("- alertname: ")).collect();
    assert_eq!(alerts, fired);
}

/// L3 to L7: an alert has a severity, and a text that names the node or the rule and a command or a page.
#[test]
fn l3_to_l7_each_alert_names_its_node_or_rule_and_a_remedy() {
    for alert in RULES.split("- alert: ").skip(1) {
        let name = alert.lines().next().unwrap_or_default();
        let [severity] = values(alert, "severity")[..] else { panic!("{name}: one severity") };
        assert!(["critical", "warning"].contains(&severity), "{name}: {severity}");
        let [summary] = values(alert, "summary")[..] else { panic!("{name}: one summary") };
        let (_, description) = alert.split_once("description: >-").unwrap_or_else(|| panic!("{name}: a description"));
        for text in [summary, description] {
            let subject =
                ["$labels.instance", "$labels.agent", "$labels.rule"].into_iter().any(|label| text.contains(label));
            assert!(subject, "{name} names neither a node nor a rule: {text}");
        }
        let remedies = ["curl ", "redis-cli ", "tollgate ", "chronyc ", "systemctl "];
        assert!(remedies.iter().any(|remedy| description.contains(remedy)), "{name} has no command: {description}");
    }
}

#[test]
fn the_page_lists_exactly_the_alerts() {
    let alerts: BTreeSet<&str> = values(RULES, "alert").into_iter().map(|name| &name["Tollgate".len()..]).collect();
    assert_eq!(documented(), alerts);
}
