//! Rules in several files and in directories.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Client, Up, file, finish, tollgate, wait_for};

const COMMON: &str = "descriptors: { user: { header: x-user, verified: true } }\n";
const SEARCH: &str = "owner: Team Search
defaults: { consistency: strict }
rules: [{ name: search, per: [user], quota: 10/min, keys: { sk_live_one: { quota: 20/min } } }]
";
const PAY: &str = "owner: Team Pay\nrules: [{ name: pay, per: [user], quota: 100/min }]\n";

/// Returns a new directory with these files.
fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    for (of, text) in files {
        file(&format!("{name}/{of}"), text);
    }
    folder
}

fn whole(name: &str) -> PathBuf {
    folder(name, &[("1-common.yaml", COMMON), ("2-search.yml", SEARCH), ("3-pay.yaml", PAY)])
}

#[test]
fn the_files_of_a_directory_are_one_set_with_owners() {
    let folder = whole("owned-rules");
    for other in [".hidden.yaml", "README.md", "more/4.yaml", "..data/2-search.yml"] {
        file(&format!("owned-rules/{other}"), "no rules");
    }
    let said = finish(tollgate(&["rules", "validate", "--format", "json"]).arg(&folder));
    let set: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    let rule = |place: usize| (&set["rules"][place]["name"], &set["rules"][place]["owner"]);
    assert_eq!(rule(0), (&"search".into(), &"Team Search".into()));
    assert_eq!(
        (rule(1), set["rules"][1]["consistency"].as_str()),
        ((&"pay".into(), &"Team Pay".into()), Some("bounded"))
    );
    let shown = folder.display();
    for (name, why) in [
        (".hidden.yaml", "is hidden by the `.` before its name"),
        ("README.md", "does not end in .yaml or .yml"),
        ("more", "is a directory"),
    ] {
        let warning = format!("warning: {shown}/{name}: {why} and is not read; rename or move it if it holds rules\n");
        assert!(said.err.contains(&warning), "{}", said.err);
    }
    assert!(said.err.contains(&format!("{shown}: valid, 2 rules, 3 warnings")), "{}", said.err);
    let said = finish(tollgate(&["rules", "show"]).arg(&folder).arg("user=sk_live_one"));
    let line = |text: &str| said.out.lines().find(|line| line.starts_with(text)).unwrap_or_default().to_owned();
    assert!(line("user ").contains("sk_live_one") && line("search").contains("20/min"), "{}", said.out);
    assert!(!line("(Team Pay)").is_empty(), "{}", said.out);
}

#[test]
fn several_files_are_one_set_and_a_conflict_names_both() {
    let folder = whole("named-rules");
    let paths = ["1-common.yaml", "2-search.yml", "3-pay.yaml"].map(|name| folder.join(name));
    let said = finish(tollgate(&["rules", "validate"]).args(&paths));
    assert!(said.exit == 0 && said.err.contains("3-pay.yaml: valid, 2 rules, 0 warnings"), "{}", said.err);
    let other = file("named-rules-other.yaml", "owner: Other\nrules: [{ name: pay, per: [ip], quota: 1/s }]\n");
    let said = finish(tollgate(&["rules", "validate"]).args(&paths).arg(&other));
    let expected = format!(
        "{}:2: a rule named `pay` stands in {}:2, too; rename one (owner: Other)\n",
        other.display(),
        paths[2].display()
    );
    assert_eq!((said.exit, said.err), (2, expected));
    let said = finish(tollgate(&["rules", "diff"]).args([&folder, &paths[2]]));
    assert!(said.out.contains("rule search") && said.out.contains("removed"), "{}{}", said.out, said.err);
    let empty = env!("CARGO_TARGET_TMPDIR").to_owned() + "/empty-rules";
    fs::create_dir_all(&empty).expect("a folder");
    let said = finish(&mut tollgate(&["rules", "validate", &empty]));
    assert_eq!((said.exit, said.err.contains("there is no *.yaml or *.yml file in it")), (2, true), "{}", said.err);
}

/// The flag, the variable and the key each name several files.
#[test]
fn an_agent_takes_several_files_of_rules() {
    let folder = whole("taken-rules");
    let paths = ["1-common.yaml", "2-search.yml", "3-pay.yaml"].map(|name| folder.join(name).display().to_string());
    let quota = |up: &Up| up.client().get("/check", &[("x-user", "u")]).header("x-ratelimit-limit").to_owned();
    let flags: Vec<&str> = paths.iter().flat_map(|path| ["--rules", path]).collect();
    assert_eq!(quota(&Up::start(&flags)), "10");
    let mut command = tollgate(&["up", "--http", "127.0.0.1:0"]);
    assert_eq!(quota(&Up::of(command.env("TOLLGATE_RULES", paths.join(";")))), "10");
    let config = file("several-rules.yaml", &format!("rules: [{}]\n", paths.join(", ")));
    assert_eq!(quota(&Up::start(&["--config", config.to_str().expect("a path")])), "10");
}

fn generation(client: &mut Client) -> u64 {
    client.get("/healthz", &[]).json()["generation"].as_u64().expect("a generation")
}

/// F3, last-good: files that are added, changed and removed are in force; a broken one keeps the last good rules.
#[test]
fn a_directory_is_reloaded_when_its_files_change() {
    let folder = whole("reloaded-rules");
    let up = Up::start(&["--rules", folder.to_str().expect("a path")]);
    let mut client = up.client();
    let mut known = generation(&mut client);
    let mut in_force = |rules: &[&str], change: &dyn Fn(&Path)| {
        change(&folder);
        wait_for("the change to be in force", || (generation(&mut client) > known).then_some(()));
        known = generation(&mut client);
        let told = client.get("/explain", &[("x-user", "u")]).json();
        let names: Vec<_> = told["rules"].as_array().expect("rules").iter().map(|rule| rule["rule"].clone()).collect();
        assert_eq!(names, rules);
    };
    in_force(&["search", "pay", "new"], &|_| {
        file("reloaded-rules/4-new.yaml", "rules: [{ name: new, per: [ip], quota: 1/s }]");
    });
    in_force(&["search", "paid", "new"], &|_| {
        file("reloaded-rules/3-pay.yaml", &PAY.replace("name: pay", "name: paid"));
    });
    in_force(&["paid", "new"], &|folder| fs::remove_file(folder.join("2-search.yml")).expect("removed"));
    file("reloaded-rules/4-new.yaml", "\nrules: [{ name: new, per: [ip], quota: 0/s }]");
    let error = wait_for("the broken file to be refused", || {
        client.get("/healthz", &[]).json()["rules_error"].as_str().map(str::to_owned)
    });
    assert!(error.contains("reloaded-rules/4-new.yaml:2: "), "{error}");
    assert_eq!(generation(&mut client), known);
    fs::remove_dir_all(&folder).expect("removed");
    wait_for("the missing directory to be refused", || {
        let healthy = client.get("/healthz", &[]).json();
        healthy["rules_error"].as_str().is_some_and(|error| !error.contains("4-new.yaml")).then_some(())
    });
    assert_eq!(generation(&mut client), known);
}
