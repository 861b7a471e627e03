//! `tollgate rules override`, `deny`, `allow` and `overrides`: what they refuse, warn of and remove.

use std::process::Command;

use tollgate_servers::{Finished, Redis, finish};

use crate::support::{Up, file, tollgate, wait_for};

const PER_KEY: &str = "rules: [{ name: per-key, per: [api_key], quota: 3/min }]";

/// Published rules in a Redis of their own.
struct Operator(Redis);

impl Operator {
    /// Starts a Redis and publishes rules there.
    fn of(rules: &str) -> Self {
        let operator = Self(Redis::start());
        let said = operator.publish(rules);
        assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
        operator
    }

    fn run(&self, args: &[&str]) -> Finished {
        finish(tollgate(&["rules"]).args(args).args(["--redis", &self.0.url()]))
    }

    fn publish(&self, rules: &str) -> Finished {
        let file = file(&format!("overrides-{}.yaml", self.0.url().rsplit(':').next().unwrap_or_default()), rules);
        self.run(&["publish", &file.display().to_string()])
    }

    /// Runs a command that succeeds; returns what it says.
    fn done(&self, args: &[&str]) -> String {
        let Finished { exit, out, err } = self.run(args);
        assert_eq!(exit, 0, "{args:?}: {out}{err}");
        out + &err
    }

    /// Runs a command that is refused as wrong usage; returns what it says.
    fn refused(&self, args: &[&str]) -> String {
        let Finished { exit, out, err } = self.run(args);
        assert_eq!(exit, 2, "{args:?}: {out}{err}");
        err
    }

    /// Runs the `tollgate rules` command that a message names.
    fn remedy(&self, told: &str) -> String {
        let mut commands = told.split('`').filter_map(|part| part.strip_prefix("tollgate rules "));
        let command = commands.next().unwrap_or_else(|| panic!("no command: {told}"));
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("\"$0\" rules {command}"), tollgate(&[]).get_program().to_str().expect("a path")]);
        let Finished { exit, out, err } = finish(shell.env("TOLLGATE_REDIS", self.0.url()));
        assert_eq!(exit, 0, "{command}: {out}{err}");
        out + &err
    }

    fn listed(&self) -> String {
        self.done(&["overrides"])
    }
}

#[test]
fn a_descriptor_that_is_given_twice_is_refused() {
    let operator = Operator::of(PER_KEY);
    let told = operator.refused(&["deny", "ip=1.2.3.4", "ip=1.2.3.5", "--for", "1h"]);
    let expected = "`ip` is given twice: all values of one entry must match; run the command once for each";
    assert!(told.contains(expected), "{told}");
}

#[test]
fn an_override_or_entry_that_no_call_meets_is_refused() {
    let rules = "rules: [{ name: per-key, per: [api_key], quota: 3/min }, { name: per-ip, per: [ip], quota: 3/min }]";
    let operator = Operator::of(rules);
    for (args, part) in [
        (["override", "api_key=sk_*", "1/min"], "a key is one whole value, not a pattern"),
        (["override", "ip=10.0.0.0/8", "1/min"], "with `match: { ip: { cidr: 10.0.0.0/8 } }`"),
        (["override", "ip=2001:db8::1", "1/min"], "write \"2001:db8::/64\""),
        (["deny", "ip=notanip", "endpoint=/"], "`notanip` is no address of a client"),
        (["allow", "ip=10.0.0.1,10.0.0.2", "endpoint=/"], "is no address of a client"),
        (["deny", "ip=10.0.0.1\u{7}", "endpoint=/"], "control characters"),
    ] {
        let told = operator.refused(&[&args[..], &["--for", "1h"]].concat());
        assert!(told.contains(part), "{args:?}: {told}");
    }
    let told = operator.refused(&["override", "tier=platinum", "70/min", "--rule", "per-key", "--for", "1h"]);
    assert!(told.contains("there is no descriptor `tier`"), "{told}");
    assert!(operator.listed().contains("No override is in force"));
}

#[test]
fn a_warning_is_about_what_the_command_changes() {
    let operator = Operator::of(PER_KEY);
    let told = operator.done(&["override", "api_key=k1", "unlimited", "--for", "1h"]);
    assert!(told.contains("`unlimited` rests on `api_key` from the header"), "{told}");
    let told = operator.done(&["allow", "api_key=k2", "--for", "1h"]);
    assert!(told.contains("the allow list rests on") && !told.contains("unlimited"), "{told}");
    let told = operator.done(&["override", "api_key=k3", "9/min", "--for", "1h"]);
    assert!(!told.contains("warning"), "{told}");
}

#[test]
fn a_deny_is_renewed_and_removed_in_each_order_of_its_values() {
    let operator = Operator::of(PER_KEY);
    operator.done(&["deny", "method=POST", "endpoint=/login", "--for", "1h"]);
    operator.done(&["deny", "endpoint=/login", "method=POST", "--for", "2h"]);
    let listed = operator.listed();
    assert_eq!(listed.matches("/login").count(), 1, "{listed}");
    operator.done(&["deny", "method=POST", "endpoint=/login", "--remove"]);
    assert!(operator.listed().contains("No override is in force"));
}

#[test]
fn an_override_of_a_rule_that_is_gone_is_removed_by_the_command_of_the_warning() {
    let operator = Operator::of(PER_KEY);
    let other = PER_KEY.replace("per-key", "other");
    for api_key in ["api_key=k9", "api_key=a b"] {
        operator.done(&["override", api_key, "9/min", "--for", "1h"]);
    }
    let Finished { err, .. } = operator.publish(&other);
    let lost = err.lines().find(|line| line.contains("override of k9")).expect("a warning");
    assert!(lost.contains("has no effect") && lost.contains("under rule per-key until"), "{err}");
    operator.remedy(lost);
    let lost = err.lines().find(|line| line.contains("override of a b")).expect("a warning");
    assert!(lost.contains("'api_key=a b' --rule per-key --remove"), "{lost}");
    operator.remedy(lost);
    assert!(operator.listed().contains("No override is in force"));
}

#[test]
fn an_override_without_a_named_rule_is_removed_of_all_rules() {
    let operator =
        Operator::of("rules: [{ name: a, per: [api_key], quota: 3/min }, { name: b, per: [api_key], quota: 3/min }]");
    operator.done(&["override", "api_key=k9", "9/min", "--for", "1h", "--rule", "a", "--rule", "b"]);
    operator.done(&["override", "api_key=k9", "--remove"]);
    assert!(operator.listed().contains("No override is in force"));
}

#[test]
fn an_override_keeps_a_global_rule_out_until_it_ends() {
    let operator = Operator::of(PER_KEY);
    let global = "regions: { eu: {}, us: {} }
rules: [{ name: per-key, per: [api_key], quota: 300/min, scope: global }]";
    operator.done(&["override", "api_key=zz", "5/min", "--for", "2s"]);
    wait_for("the end", || operator.listed().contains("No override is in force").then_some(()));
    let Finished { exit, err, .. } = operator.publish(global);
    assert_eq!(exit, 0, "{err}");
    assert_eq!(operator.publish(PER_KEY).exit, 0);
    operator.done(&["override", "api_key=zz", "5/min", "--for", "1h"]);
    let Finished { exit, err, .. } = operator.publish(global);
    assert!(exit == 2 && err.contains("override of zz under rule per-key until"), "{err}");
    assert!(!err.contains("overrides:") && !err.contains(".yaml"), "{err}");
    operator.remedy(err.split_once("to end the override").expect("a remedy").1);
    assert_eq!(operator.publish(global).exit, 0);
}

#[test]
fn an_override_that_moves_to_other_callers_is_a_warning_with_a_remedy() {
    let operator = Operator::of(PER_KEY);
    operator.done(&["override", "api_key=42", "100/min", "--for", "1h"]);
    let tenants = PER_KEY.replace("api_key", "tenant");
    let Finished { exit, err, .. } = operator.publish(&tenants);
    let warning = err.lines().find(|line| line.contains("counted by `api_key` first")).unwrap_or_default().to_owned();
    assert!(exit == 0 && warning.contains("now counts by `tenant`") && warning.contains("per-key"), "{err}");
    let Finished { err, .. } = operator.run(&["rollback", "2", "--dry-run"]);
    assert!(err.contains("counted by `tenant` first, and now counts by `api_key`"), "{err}");
    operator.remedy(&warning);
    assert!(operator.listed().contains("No override is in force"));
}

#[test]
fn a_network_is_denied_as_one() {
    let operator = Operator::of(PER_KEY);
    let told = operator.done(&["deny", "ip=127.0.0.0/8", "--for", "1h"]);
    assert!(!told.contains("warning"), "{told}");
    assert!(operator.listed().contains("ip=127.0.0.0/8"));
    let agent = Up::of(&mut tollgate(&["agent", "--redis", &operator.0.url(), "--http", "127.0.0.1:0"]));
    wait_for("the denial of a client in the network", || (agent.client().check("k").status == 429).then_some(()));
    operator.done(&["deny", "ip=127.0.0.0/8", "--remove"]);
    assert!(operator.listed().contains("No override is in force"));
    wait_for("the end of the denial", || (agent.client().check("k").status == 200).then_some(()));
}

#[test]
fn a_quota_that_does_not_go_with_the_rule_is_a_problem_of_the_override() {
    let operator = Operator::of("rules: [{ name: r, per: [api_key], quota: 10/min, burst: 15 }]");
    let told = operator.refused(&["override", "api_key=k", "x2", "--for", "1h"]);
    assert!(
        told.contains("override of k under rule r until") && told.contains("a burst of 15 is below 20/min"),
        "{told}"
    );
    assert!(told.contains("write a quota that goes with these settings") && !told.contains(".yaml"), "{told}");
    operator.done(&["override", "api_key=k", "15/min", "--for", "1h"]);
    let told = operator.refused(&["override", "api_key=k", "x1000000000", "--for", "1h"]);
    assert!(told.contains("from x0.000001 to x999999.999999"), "{told}");
}

#[test]
fn an_override_over_an_exception_of_the_file_is_a_difference() {
    let key = "keys: { k3: { quota: x2, until: 2030-01-01T00:00:00Z } }";
    let operator = Operator::of(&format!("rules: [{{ name: r, per: [api_key], quota: 3/min, {key} }}]"));
    let told = operator.done(&["override", "api_key=k3", "x3", "--for", "1h"]);
    assert!(told.contains("key k3") && told.contains("18/min"), "{told}");
}

#[test]
fn an_override_that_has_ended_is_no_difference() {
    let operator = Operator::of(PER_KEY);
    operator.done(&["override", "api_key=zz", "5/min", "--for", "1s"]);
    operator.done(&["deny", "api_key=yy", "--for", "1s"]);
    wait_for("the end", || operator.listed().contains("No override is in force").then_some(()));
    let rules = file("overrides-ended.yaml", PER_KEY).display().to_string();
    let Finished { exit, out, err } = operator.run(&["publish", &rules, "--dry-run"]);
    assert!(exit == 0 && out.contains("No difference"), "{exit}: {out}{err}");
}

#[test]
fn each_of_several_overrides_with_a_problem_is_named() {
    let operator = Operator::of(PER_KEY);
    for key in ["api_key=k1", "api_key=k2"] {
        operator.done(&["override", key, "20/min", "--for", "1h", "--rule", "per-key", "--rule", "per-key"]);
    }
    assert_eq!(operator.listed().matches("20/min").count(), 2, "{}", operator.listed());
    let Finished { exit, err, .. } = operator.publish(&PER_KEY.replace("quota: 3/min", "quota: 10/min, burst: 15"));
    assert!(exit == 2 && err.contains("override of k1") && err.contains("override of k2"), "{err}");
}

#[test]
fn an_override_is_removed_by_the_descriptor_of_its_rule() {
    let operator = Operator::of(PER_KEY);
    operator.done(&["override", "api_key=42", "20/min", "--for", "1h"]);
    let Finished { exit, err, .. } = operator.run(&["override", "ip=42", "--rule", "per-key", "--remove"]);
    assert!(exit == 1 && err.contains("there is no override of ip=42 in force"), "{err}");
    let told = operator.refused(&["override", "api_key=42", "30/min", "--remove"]);
    assert!(told.contains("cannot be used with"), "{told}");
}

#[test]
fn an_override_of_an_unknown_tier_is_a_warning() {
    let tiers = "descriptors: { tier: { header: x-tier, verified: true } }
tiers: { gold: { quota: 9/min } }
rules: [{ name: r, per: [api_key], quota: 3/min }]";
    let operator = Operator::of(tiers);
    let told = operator.done(&["override", "tier=golt", "70/min", "--for", "1h"]);
    assert!(told.contains("no caller is in the tier `golt`") && told.contains("gold"), "{told}");
    let told = operator.done(&["override", "tier=gold", "70/min", "--for", "1h"]);
    assert!(!told.contains("warning"), "{told}");
}

/// An end that stands in the environment or in a settings file would be that of each override.
#[test]
fn an_end_is_only_taken_from_the_command_line() {
    let operator = Operator::of(PER_KEY);
    let run = |args: &[&str]| {
        let mut command = tollgate(&["rules"]);
        command.args(args).args(["--redis", &operator.0.url()]);
        command.envs([("TOLLGATE_UNTIL", "2030-01-01T00:00:00Z"), ("TOLLGATE_FOR", "9d"), ("TOLLGATE_REMOVE", "true")]);
        finish(&mut command)
    };
    let Finished { exit, out, err } = run(&["deny", "api_key=k", "--for", "1h"]);
    assert!(exit == 0 && !out.contains("2030"), "{out}{err}");
    let settings = file("overrides-settings.yaml", "until: 2030-01-01T00:00:00Z\n").display().to_string();
    let Finished { exit, err, .. } = run(&["deny", "api_key=k", "--for", "1h", "--config", &settings]);
    assert!(exit == 2 && err.contains("`until`"), "{err}");
    let settings = file("overrides-place.yaml", &format!("redis: {}\n", operator.0.url())).display().to_string();
    for args in [
        &["publish", "../rules.yaml", "--dry-run"][..],
        &["get"],
        &["history"],
        &["rollback", "1", "--dry-run"],
        &["override", "api_key=k", "9/min", "--for", "1h"],
        &["overrides"],
        &["deny", "api_key=k", "--for", "1h"],
        &["allow", "api_key=k", "--for", "1h"],
    ] {
        let Finished { exit, out, err } = finish(tollgate(&["rules"]).args(args).args(["--config", &settings]));
        assert!(exit == 0 || (exit == 3 && args[0] == "publish"), "{args:?}: {out}{err}");
    }
}
