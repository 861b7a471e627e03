//! Files of the page: all come from the process itself, and the browser is told to load nothing else.

use std::path::Path;
use std::process::Command;

use crate::support::{Up, finish};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../aggregator/page");
const POLICY: &str = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";
/// SHA-256 of the files of uPlot 1.6.32, as npm has them: `dist/uPlot.iife.min.js`, `dist/uPlot.min.css`, `LICENSE`.
const UPLOT: &str = "\
19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f  uPlot.js
df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04  uPlot.css
8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd  uPlot.LICENSE
";
/// Address in the command that the page shows before the first call.
const EXAMPLE: &str = "http://127.0.0.1:8080/check";

fn read(name: &str) -> String {
    std::fs::read_to_string(Path::new(FOLDER).join(name)).unwrap()
}

/// Returns the values of an attribute in the page.
fn values<'a>(html: &'a str, attribute: &str) -> Vec<&'a str> {
    html.split(&format!(" {attribute}=\"")).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn the_chart_library_is_the_one_that_its_licence_is_for() {
    let sums = finish(Command::new("sha256sum").current_dir(FOLDER).args(["uPlot.js", "uPlot.css", "uPlot.LICENSE"]));
    assert_eq!(sums.out.lines().collect::<Vec<_>>(), UPLOT.lines().collect::<Vec<_>>());
    assert!(read("uPlot.LICENSE").starts_with("The MIT License (MIT)\n\nCopyright (c) "));
}

#[test]
fn the_page_names_no_other_host_and_has_no_inline_script_or_style() {
    for name in ["index.html", "app.js", "style.css", "icon.svg"] {
        let text = read(name).replace(EXAMPLE, "").replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        for other in ["://", "\"//", "'//", "(//", "@import", "url("] {
            assert!(!text.contains(other), "{name} contains {other}");
        }
    }
    let html = read("index.html");
    assert_eq!(html.matches("<script").count(), html.matches("></script>").count(), "scripts have no text");
    assert_eq!(html.matches("<script").count(), values(&html, "src").len(), "scripts have a file");
    for inline in ["<style", " style=", "javascript:", " onclick=", " onload=", " onerror=", " onsubmit="] {
        assert!(!html.contains(inline), "index.html contains {inline}");
    }
    for markup in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"] {
        assert!(!read("app.js").contains(markup), "app.js contains {markup}: texts of the server are set as text only");
    }
}

#[test]
fn each_file_that_the_page_names_is_served_under_its_policy() {
    let up = Up::start(&[]);
    let mut client = up.client();
    let html = client.get("/", &[]).text().to_owned();
    assert_eq!(html, read("index.html"));
    let named = [values(&html, "href"), values(&html, "src")].concat();
    let files: Vec<&str> = named.into_iter().filter(|address| !address.starts_with('#')).collect();
    assert_eq!(files.len(), 5, "{files:?}");
    for path in [""].iter().chain(&files) {
        let answer = client.get(&format!("/{path}"), &[]);
        assert_eq!((answer.status, answer.header("content-security-policy")), (200, POLICY), "/{path}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "/{path}");
        let content_type = match path.rsplit_once('.').map(|(_, ending)| ending) {
            Some("js") => "text/javascript",
            Some("css") => "text/css",
            Some("svg") => "image/svg+xml",
            _ => "text/html",
        };
        assert!(answer.header("content-type").starts_with(content_type), "/{path}");
    }
    assert_eq!(client.get("/page/uPlot.LICENSE", &[]).status, 404);
}
