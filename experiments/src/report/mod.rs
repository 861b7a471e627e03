//! The report on the scenarios: one HTML file that contains its pictures and needs nothing else, and beside it the results as JSON
//! and the pictures as SVG, and as PNG with the feature `png`.

mod plot;
mod picture_file;
#[cfg(feature = "png")]
mod png;
mod live;

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::scenario::{Number, ResultTable, ScenarioResult};

pub use live::LiveMeasurements;

const TITLE: &str = "Tollgate: errors of counting and limiting";
/// Name of the page in the folder of a report.
const PAGE: &str = "report.html";
const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#24292f;--line:#d0d7de;--paper:#fff;--bad:#b42318}\
@media screen and (prefers-color-scheme:dark){:root{--ink:#e6edf3;--line:#30363d;--paper:#0d1117;--bad:#ff7b72}}\
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:75rem;margin:0 auto;padding:1rem}\
a{color:inherit}.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:1rem}\
figure{margin:0;break-inside:avoid}figcaption{font-weight:600}svg{width:100%;height:auto}\
.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}\
th,td{padding:.15rem .6rem;border-bottom:1px solid var(--line);text-align:right}\
th:first-child,td:first-child,.named :is(th,td):nth-child(2){text-align:left}\
th:first-child,td:first-child{padding-left:0}pre{font-size:.8rem}.bad{color:var(--bad);font-weight:600}small{opacity:.75}\
@media (max-width:30rem){body{padding:.6rem}table{font-size:.68rem;letter-spacing:-.02em}th,td{padding:.15rem .2rem}}";

/// Reason why a report is not written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A file cannot be written.
    #[error("cannot write {path}: {error}; name another folder with --out")]
    Write {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: std::io::Error,
    },
    /// A picture cannot be drawn.
    #[error("the plot {name} cannot be drawn: {reason}")]
    Plot {
        /// Name of the plot.
        name: String,
        /// The reason, by the library.
        reason: String,
    },
}

/// Creates the folder of a report if it is missing, and checks that the page can be written there.
///
/// # Errors
/// If it cannot.
pub fn prepare(folder: &Path) -> Result<(), ReportError> {
    let failed = |path: &Path, error| ReportError::Write { path: path.to_owned(), error };
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let page = folder.join(PAGE);
    let is_new = !page.exists();
    // An earlier page stays as it is until the new one is written.
    OpenOptions::new().append(true).create(true).open(&page).map_err(|error| failed(&page, error))?;
    if is_new { fs::remove_file(&page).map_err(|error| failed(&page, error)) } else { Ok(()) }
}

/// Writes the report on results, and on measurements at real servers if there are any, into a folder that is
/// [prepared](prepare). Returns the path of its page.
///
/// # Errors
/// If a picture cannot be drawn or a file cannot be written.
pub fn write(
    folder: &Path,
    results: &[ScenarioResult],
    live: Option<&LiveMeasurements>,
) -> Result<PathBuf, ReportError> {
    let failed = |path: &Path, error| ReportError::Write { path: path.to_owned(), error };
    let put = |name: String, content: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, content).map(|()| path.clone()).map_err(|error| failed(&path, error))
    };
    let mut sections = Vec::new();
    for result in results {
        let mut figures = Vec::new();
        for plot in &result.plots {
            let failed = |reason| ReportError::Plot { name: plot.name.clone(), reason };
            let svg = plot::svg(plot).map_err(|error| failed(error.to_string()))?;
            let name = format!("{}-{}", result.name, plot.name);
            let file = picture_file::framed(&plot.title, &svg);
            put(format!("{name}.svg"), file.as_bytes())?;
            #[cfg(feature = "png")]
            put(format!("{name}.png"), &png::png(&file).map_err(failed)?)?;
            figures.push(html! { figure { figcaption { (prose(&plot.title)) } (PreEscaped(svg)) } });
        }
        let json = serde_json::to_string_pretty(result).map_err(|error| failed(folder, error.into()))?;
        put(format!("{}.json", result.name), json.as_bytes())?;
        sections.push(section(result, &figures));
    }
    for (name, json) in live.into_iter().flat_map(LiveMeasurements::json) {
        put(format!("{name}.json"), json.as_bytes())?;
    }
    put(PAGE.to_owned(), page(results, &sections, live).into_string().as_bytes())
}

fn page(results: &[ScenarioResult], sections: &[Markup], live: Option<&LiveMeasurements>) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (TITLE) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (TITLE) }
                p {
                    "Experiments in virtual time with the algorithms of Tollgate " (env!("CARGO_PKG_VERSION")) ". The same \
                     version and seed give the same numbers. Results as JSON and pictures as SVG stand beside this page."
                }
                ol { @for result in results { li { a href={ "#" (result.name) } { (result.title) } ". " (prose(&result.finding)) } } }
                @for section in sections { (section) }
                (live::section(live))
            }
        }
    }
}

fn section(result: &ScenarioResult, figures: &[Markup]) -> Markup {
    let ranged = || result.numbers.iter().filter(|(_, number)| number.expected.is_some());
    let unexpected = result.unexpected().len();
    html! {
        section id=(result.name) {
            h2 { (result.title) }
            p { (prose(&result.finding)) }
            div.plots { @for figure in figures { (figure) } }
            @for result_table in &result.tables { (table(result_table)) }
            details open[unexpected > 0] {
                summary {
                    (ranged().count() - unexpected) " of " (ranged().count()) " numbers are in their expected ranges"
                }
                div.scroll {
                    table {
                        tr { th { "number" } th { "value" } th { "expected" } }
                        @for (name, number) in ranged() { (expectation(name, number)) }
                    }
                }
            }
            p { small { "Scenario " code { (result.name) } ", seed " (result.seed) "." } }
        }
    }
}

fn expectation(name: &str, number: &Number) -> Markup {
    let [min, max] = number.expected.unwrap_or_default();
    html! {
        tr.bad[!number.is_expected()] { td { (name) } td { (format!("{:.2}", number.value)) } td { (min) " to " (max) } }
    }
}

fn table(table: &ResultTable) -> Markup {
    html! {
        p { (prose(&table.caption)) }
        div.scroll {
            table {
                tr { @for name in &table.header { th { (name) } } }
                @for row in &table.rows { tr { @for cell in row { td { (cell) } } } }
            }
        }
    }
}

/// Returns a text whose names in backticks are set as code.
fn prose(text: &str) -> Markup {
    html! {
        @for (place, part) in text.split('`').enumerate() {
            @if place % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_backticks_are_code() {
        for (text, expected) in [
            ("Under `strict` & `bounded`.", "Under <code>strict</code> &amp; <code>bounded</code>."),
            ("`a`", "<code>a</code>"),
            ("none", "none"),
        ] {
            assert_eq!(prose(text).into_string(), expected);
        }
    }
}
