//! `tollgate-lab list`, `run` and `report`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;
use tollgate_servers::finish;
use tollgate_servers::scaled;

use crate::documented_figures::wrong_figures;
use crate::support::{file, lab};

const FALSE_DENIALS: &str = include_str!("../../scenarios/false-denials.toml");
const APPROXIMATIONS: &str = include_str!("../../scenarios/approximations.toml");

fn json(args: &[&str]) -> Value {
    let run = finish(&mut lab(args));
    assert_eq!((run.exit, &*run.err), (0, ""), "{args:?}");
    serde_json::from_str(&run.out).expect("JSON")
}

fn names_of_all() -> Vec<String> {
    let list = json(&["list", "--format", "json"]);
    let name = |scenario: &Value| scenario["name"].as_str().expect("a name").to_owned();
    list["scenarios"].as_array().expect("scenarios").iter().map(name).collect()
}

/// O1 to O5, N15: the article's figures, with the signs that it predicts, and the same numbers in each run.
#[test]
fn the_figures_of_the_article_are_as_expected_in_each_run() {
    let run = || json(&["run", "approximations", "--format", "json"]);
    let results = run();
    assert_eq!(results, run());
    for result in results["results"].as_array().unwrap() {
        assert_eq!((&result["seed"], &result["version"]), (&1.into(), &env!("CARGO_PKG_VERSION").into()));
    }
    let number = |name: &str| results["results"][0]["numbers"][name]["value"].as_f64().unwrap();
    let errors =
        ["fixed window", "1 of 60 s", "4 of 15 s", "60 of 1 s"].map(|count| number(&format!("{count}: mean error")));
    assert!(errors.is_sorted_by(|a, b| a > b), "shorter sub-windows are nearer to the truth: {errors:?}");
    assert!(number("early in the previous minute: bias") > 0.0 && number("late in the previous minute: bias") < 0.0);
}

/// Threads share the cells of the scenario in any order.
#[test]
fn threads_do_not_change_the_numbers() {
    let few = FALSE_DENIALS.replace("keys = 1000", "keys = 20");
    let (few, _) = few.split_once("[expected]").unwrap();
    let path = file("scenarios/few.toml", few);
    let run = || json(&["run", path.to_str().unwrap(), "--format", "json"]);
    assert_eq!(run(), run());
}

#[test]
fn the_list_names_what_can_be_run() {
    let listed = finish(&mut lab(&["list"]));
    assert_eq!(listed.exit, 0);
    let names = names_of_all();
    let files = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios")).unwrap();
    let files: BTreeSet<String> =
        files.map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(names.iter().cloned().collect::<BTreeSet<_>>(), files);
    assert!(names.iter().all(|name| listed.out.contains(name)), "{}", listed.out);
    assert!(listed.out.lines().all(|line| line.chars().count() <= 80), "{}", listed.out);
}

#[test]
fn a_number_outside_its_range_fails_the_run() {
    let narrow = APPROXIMATIONS.replace("hours = 24", "hours = 1").replace("[35.0, 60.0]", "[0.0, 1.0]");
    let path = file("scenarios/narrow.toml", &narrow);
    let run = finish(&mut lab(&["run", path.to_str().unwrap()]));
    assert_eq!((run.exit, &*run.err), (1, ""), "{}", run.out);
    let text = run.out.split_whitespace().collect::<Vec<_>>().join(" ");
    let repeated = format!("(seed 1: tollgate-lab run {} --seed 1)", path.display());
    assert!(text.contains("unexpected: fixed window: mean error is ") && text.contains("expected 0 to 1"), "{text}");
    assert!(text.contains(&repeated), "{text}");
}

/// Another seed gives other numbers, and is named by the result.
#[test]
fn a_seed_replaces_that_of_the_file() {
    let run = |args: &[&str]| {
        let args = [&["run", "burst", "--format", "json"], args].concat();
        json(&args)["results"][0].clone()
    };
    let (of_file, again, other) = (run(&[]), run(&["--seed", "1"]), run(&["--seed", "7"]));
    assert_eq!((&of_file["seed"], &other["seed"]), (&1.into(), &7.into()));
    assert_eq!(of_file, again);
    assert_ne!(of_file["numbers"], other["numbers"]);
    assert_eq!(other["command"], "tollgate-lab run burst --seed 7");
}

#[test]
fn bad_scenarios_are_refused_with_place_and_remedy() {
    // Replaced text, part of the message.
    let cases = [
        ("seed = 1", "seed = x", ":10: "),
        ("shown_minutes", "shown_hours", ":16: unknown field `shown_hours`, expected one of "),
        ("\"1 of 60 s: mean error\"", "\"mean error\"", ":25: there is no number \"mean error\"; near to it are \""),
    ];
    for (number, (text, replacement, expected)) in cases.into_iter().enumerate() {
        let text = APPROXIMATIONS.replace("hours = 24", "hours = 1").replacen(text, replacement, 1);
        let path = file(&format!("scenarios/bad{number}.toml"), &text);
        let run = finish(&mut lab(&["run", path.to_str().unwrap()]));
        assert_eq!((run.exit, &*run.out), (2, ""), "{}", run.err);
        assert!(run.err.contains(expected), "{}", run.err);
    }
    let unknown = finish(&mut lab(&["run", "aproximations"]));
    assert_eq!(unknown.exit, 2);
    assert!(unknown.err.contains("the scenarios are approximations"), "{}", unknown.err);
    let missing = finish(&mut lab(&["run", "./missing.toml"]));
    assert_eq!(missing.exit, 1);
    assert!(missing.err.contains("./missing.toml"), "{}", missing.err);
}

/// E4, N4 to N6, N15, O1 to O5: all numbers are in the ranges of the scenarios' files. The page is one file: it loads nothing, and
/// contains the picture of each plot.
#[test]
fn the_report_is_one_page_with_its_pictures() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("scenarios/report");
    let _ = fs::remove_dir_all(&folder);
    // By default the scenarios that take seconds; the size of the others is that of their files. `ways` takes a quarter of an hour
    // in a program that is not optimised, because of its fleets of 1,000 agents.
    let names: Vec<String> = if scaled(10) == 10 {
        names_of_all().into_iter().filter(|name| name != "ways").collect()
    } else {
        ["approximations", "burst"].map(String::from).into()
    };
    let run = finish(lab(&["report", "--out", folder.to_str().unwrap()]).args(&names));
    let started: Vec<String> =
        (1..).zip(&names).map(|(number, name)| format!("{number} of {}: {name} runs", names.len())).collect();
    assert_eq!((run.exit, run.err.lines().map(String::from).collect()), (0, started));
    let page = fs::read_to_string(run.out.trim()).expect("the printed path is the page");
    let mut results = BTreeMap::new();
    for name in names {
        let result = fs::read(folder.join(format!("{name}.json"))).unwrap();
        let result: Value = serde_json::from_slice(&result).expect("a result as JSON");
        let drawn = result["plots"].as_array().unwrap();
        assert!(!drawn.is_empty() && page.contains(&format!("id=\"{name}\"")), "{name}");
        for plot in drawn {
            let svg =
                fs::read_to_string(folder.join(format!("{name}-{}.svg", plot["name"].as_str().unwrap()))).unwrap();
            // The page has the title beside the drawing, and the file above it.
            let drawing = svg.split_once("<style>").map(|(_, drawing)| drawing.trim_end_matches("</svg>"));
            let drawing = drawing.expect("a style");
            assert!(drawing.contains("<polyline") && page.contains(drawing), "{}", plot["title"]);
        }
        results.insert(name, result);
    }
    assert_eq!(wrong_figures(&results), [""; 0], "docs/experiments.md");
    assert!(page.contains("Not run. ") && page.contains("tollgate-lab report --live"), "the section on real servers");
    for picture in ["approximations-fixed-window", "lag-burst", "ways-worst-minute"] {
        let shown = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/pictures");
        let shown =
            fs::read_to_string(Path::new(shown).join(format!("{picture}.svg"))).expect("a picture of the README");
        if let Ok(drawn) = fs::read_to_string(folder.join(format!("{picture}.svg"))) {
            assert!(shown == drawn, "{picture}: copy the picture of the report to docs/pictures");
        }
    }
    for loads in ["src=", "href=\"http", "@import", "url("] {
        assert!(!page.contains(loads), "{loads}");
    }
    let refused = finish(&mut lab(&["report", "--live", "--out", folder.to_str().unwrap()]));
    assert_eq!(refused.exit, 2);
    assert!(refused.err.contains("name them with --redis URL and --kafka BROKERS"), "{}", refused.err);
    let refused = finish(&mut lab(&["report", "--out", "/proc/none"]));
    assert_eq!(refused.exit, 1);
    assert!(refused.err.contains("cannot write /proc/none: "), "{}", refused.err);
}

/// The reasons come before the work, which takes minutes.
#[test]
fn a_report_that_cannot_be_written_is_refused_at_once() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("scenarios/unwritable");
    fs::create_dir_all(folder.join("report.html")).unwrap();
    let redis = ["--redis", "redis://127.0.0.1:1"];
    // Arguments, exit code, part of the message.
    let cases: [(&[&str], i32, &str); 4] = [
        (&["--out", folder.to_str().unwrap()], 1, "unwritable/report.html: "),
        (&["--out", "/proc"], 1, "cannot write /proc/report.html: "),
        (&redis, 2, "--redis is for the measurement at real servers; add --live, or leave it out"),
        (&["--kafka", "127.0.0.1:1"], 2, "--kafka is for the measurement at real servers; add --live, or leave it out"),
    ];
    for (args, exit, expected) in cases {
        let refused = finish(lab(&["report"]).args(args));
        assert_eq!((refused.exit, &*refused.out), (exit, ""), "{args:?}: {}", refused.err);
        assert!(refused.err.contains(expected), "{args:?}: {}", refused.err);
        assert!(exit == 2 || refused.err.contains("name another folder with --out"), "{}", refused.err);
    }
    // A variable may be meant for other commands, and the remedies are accepted: servers that do not answer are the next reason.
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("scenarios/writable");
    let one = ["report", "burst", "--out", out.to_str().unwrap()];
    let with_variable = finish(lab(&one).env("TOLLGATE_REDIS", redis[1]));
    assert_eq!((with_variable.exit, &*with_variable.err), (0, "1 of 1: burst runs\n"));
    let live = finish(lab(&one).arg("--live").args(redis).args(["--kafka", "127.0.0.1:1"]));
    assert!(live.exit == 1 && live.err.contains("does not answer"), "{}", live.err);
}

/// A result of an interrupted report is on disk, and a report that is resumed takes it over, unless it is of another seed.
#[test]
fn a_report_takes_over_the_results_that_are_there() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("scenarios/resumed");
    let _ = fs::remove_dir_all(&folder);
    let copy = file("scenarios/second.toml", include_str!("../../scenarios/burst.toml"));
    let report = |names: &[&str], more: &[&str]| {
        let done = finish(lab(&["report", "--out", folder.to_str().unwrap()]).args(names).args(more));
        assert_eq!(done.exit, 0, "{}", done.err);
        (done.err, fs::read_to_string(done.out.trim()).expect("a page"))
    };
    let both = ["burst", copy.to_str().unwrap()];
    report(&both[..1], &[]);
    let (path, marked) = (folder.join("burst.json"), "A finding of the earlier run.");
    let mut earlier: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    earlier["finding"] = marked.into();
    fs::write(&path, earlier.to_string()).unwrap();
    let (told, page) = report(&both, &["--resume"]);
    assert_eq!(told, "1 of 2: burst is there\n2 of 2: second runs\n");
    assert!(page.contains(marked) && page.contains("id=\"second\""));
    let (told, page) = report(&both[..1], &["--resume", "--seed", "5"]);
    assert!(told.starts_with("1 of 1: burst runs\n") && !page.contains(marked), "{told}");
}

/// The file of a scenario has a cap, which holds while it is read.
#[test]
fn a_file_without_end_is_no_scenario() {
    let refused = finish(&mut lab(&["run", "/dev/../dev/zero"]));
    let told = refused.err.contains("/dev/../dev/zero: longer than the 1048576 bytes that are read; check the path");
    assert!(told && refused.exit != 0, "{}", refused.err);
}

#[test]
fn a_scenario_runs_once() {
    let copy = file("scenarios/burst.toml", include_str!("../../scenarios/burst.toml"));
    let other = file("scenarios/burst-2.toml", include_str!("../../scenarios/burst.toml"));
    for second in ["burst", copy.to_str().unwrap()] {
        let refused = finish(&mut lab(&["run", "burst", second]));
        assert_eq!((refused.exit, &*refused.out), (2, ""), "{}", refused.err);
        assert!(
            refused
                .err
                .contains("burst is named twice; name it once, or run a copy of its file, such as ./burst-2.toml"),
            "{}",
            refused.err
        );
    }
    let both = finish(&mut lab(&["run", "burst", other.to_str().unwrap()]));
    assert_eq!((both.exit, &*both.err), (0, ""));
}
