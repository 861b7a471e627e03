//! Tables of the experiment: answers and costs of all ways in a fleet of one size, and single figures by fleet size.

use tollgate_sim::figures::count;

use super::way::{SHORT_LOST_MS, SHORT_MS, Way, WayRow};
use super::{Measures, WaySettings};
use crate::scenario::ResultTable;

/// Cell of a figure that is not measured.
const NO_FIGURE: &str = "-";

pub(super) fn tables(settings: &WaySettings, rows: &[WayRow]) -> Vec<ResultTable> {
    let shown = settings.shown();
    let by_size = |caption: &str, figure: fn(&Measures) -> String| table_by_size(settings, rows, caption, figure);
    let short: Vec<String> = settings
        .agents
        .iter()
        .filter(|agents| settings.is_short_with_bus(**agents))
        .map(|agents| count(*agents as u64))
        .collect();
    let shortened = if short.is_empty() {
        String::new()
    } else {
        format!(
            " With {} agents, the ways with Kafka answer only the last {} s of a minute of calls, because each agent receives the \
             heartbeats of all others: one burst, so that a second one, which the default rule admits as well, does not come. The store \
             is lost {} s after the beginning of a whole minute.",
            short.join(" and "),
            SHORT_MS / 1_000,
            SHORT_LOST_MS / 1_000
        )
    };
    vec![
        answers(settings, rows, shown),
        costs(settings, rows, shown),
        by_size(&format!("Fullest minute of a caller, % of the quota, by number of agents.{shortened}"), |of| {
            whole(of.worst())
        }),
        by_size("Admissions past the quota, % of all admissions, by number of agents.", |of| tenth(of.over)),
        by_size("Calls of callers within their quota that were denied falsely, %, by number of agents.", |of| {
            tenth(of.under)
        }),
        by_size(
            "Lag, in ms, by number of agents: longest time in which an agent admits a caller whose quota is used up. none: it does \
             not end. -: nobody uses it up.",
            lag,
        ),
        by_size("Messages per call, by number of agents.", |of| amount(of.messages)),
        by_size("Bytes per call, by number of agents.", |of| amount(of.bytes)),
        by_size("Requests to the store per call, by number of agents.", |of| amount(of.store_requests)),
    ]
}

fn answers(settings: &WaySettings, rows: &[WayRow], shown: usize) -> ResultTable {
    let cells = |way: &Way, of: &Measures| {
        let of_all = |value| if way.is_at_one_node() { NO_FIGURE.to_owned() } else { whole(value) };
        vec![
            tenth(of.over),
            tenth(of.under),
            of_all(of.spread),
            of_all(of.burst),
            whole(of.one_node),
            lag(of),
            amount(of.wait_ms),
        ]
    };
    ResultTable {
        caption: format!(
            "{} agents, answers. over: admissions past the quota, % of all. under: calls denied falsely, % of the calls of callers \
             within their quota. even, burst, one: fullest true minute in % of the quota, of a caller that wants {} quotas a minute from \
             all agents, of one that wants {} quotas within two seconds, and of those that stay at one agent. lag: longest time, in ms, \
             in which an agent admits a caller whose quota is used up; none: it does not end; -: nobody uses it up. burst below 100: \
             bursts are denied that the minute has room for. wait: mean time of a call until its answer, in ms. Rows \"store:\" are the \
             algorithms of Tollgate in one store. From \"Kafka only\" on, its agents decide, with the conservative estimate but for the \
             default rule. sticky sessions: all callers move when nodes are added. far store: up to {} ms away. store lost: from the \
             loss on.",
            settings.shown_agents, settings.demand, settings.burst, settings.far_store_ms_max,
        ),
        header: ["way", "over", "under", "even", "burst", "one", "lag", "wait"].map(str::to_owned).to_vec(),
        rows: rows.iter().map(|row| table_row(row, shown, cells)).collect(),
    }
}

fn costs(settings: &WaySettings, rows: &[WayRow], shown: usize) -> ResultTable {
    let cells = |way: &Way, of: &Measures| {
        vec![
            way.coordination().to_owned(),
            amount(of.messages),
            amount(of.bytes),
            amount(of.store_requests),
            of.counter.node.to_string(),
            of.counter.store.to_string(),
        ]
    };
    ResultTable {
        caption: format!(
            "{} agents, costs. growth: growth of the messages and requests of a call with the number N of agents; 0: none are sent. \
             messages, bytes, store: per call. A message has 64 bytes and 24 for each count; a request to the store has 136 with its \
             answer (source 001). Messages of timers serve all calls of an agent, {} a second. Records of Kafka count for their writer \
             and each reader; they hold few calls here, and more under load. store lost: requests \
             that nobody answers; probes are messages of timers. B/node, B/store: bytes of a counter; from \"Kafka only\" on, \
             with its key and as the benches measured them, and of the others those of the value alone.",
            settings.shown_agents, settings.calls_per_node_s
        ),
        header: ["way", "growth", "messages", "bytes", "store", "B/node", "B/store"].map(str::to_owned).to_vec(),
        rows: rows.iter().map(|row| table_row(row, shown, cells)).collect(),
    }
}

fn table_by_size(
    settings: &WaySettings,
    rows: &[WayRow],
    caption: &str,
    figure: fn(&Measures) -> String,
) -> ResultTable {
    let row = |row: &WayRow| {
        let cells = row.measures.iter().map(figure);
        std::iter::once(row.way.name().to_owned()).chain(cells).collect()
    };
    ResultTable {
        caption: caption.to_owned(),
        header: std::iter::once("way".to_owned()).chain(settings.agents.iter().map(usize::to_string)).collect(),
        rows: rows.iter().map(row).collect(),
    }
}

/// Returns the cells of a way in the fleet of this place.
fn table_row(row: &WayRow, size: usize, cells: impl Fn(&Way, &Measures) -> Vec<String>) -> Vec<String> {
    let cells = cells(&row.way, &row.measures[size]);
    std::iter::once(row.way.name().to_owned()).chain(cells).collect()
}

fn lag(of: &Measures) -> String {
    of.lag_ms.map_or(NO_FIGURE.to_owned(), |ms| if ms.is_finite() { whole(ms) } else { "none".to_owned() })
}

fn whole(value: f64) -> String {
    format!("{value:.0}")
}

fn tenth(value: f64) -> String {
    format!("{value:.1}")
}

/// Formats an amount of any size with two or three digits.
pub(super) fn amount(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        _ if value < 0.01 => "<0.01".to_owned(),
        _ if value < 10.0 => format!("{value:.2}"),
        _ if value < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}
