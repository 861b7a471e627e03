//! Tables of the experiment: the price by fleet, skew and quota, the sizes by load, and the assumptions.

use tollgate_sim::figures::{self, count, ratio};

use super::PriceSettings;
use super::leases::LeaseCell;
use super::settings::LeaseCase;
use super::simulated::{Simulated, stranded_of_two_percent, stranded_percent, under_percent};
use crate::scenario::ResultTable;

/// Figures that the sizes would need and nobody has measured.
const MISSING: &str = "Not measured, and therefore not contained: CPU time of a sidecar for a check, of an agent for a call that asks \
    Redis, and of an aggregator for a call; framing, compression and replication of Kafka.";

pub(super) fn tables(settings: &PriceSettings, simulated: &Simulated) -> Vec<ResultTable> {
    let mut tables: Vec<ResultTable> =
        settings.quotas.iter().map(|quota| price(settings, &simulated.cells, *quota)).collect();
    tables.push(sizes(settings, simulated));
    tables.push(assumptions(settings, simulated));
    tables
}

fn price(settings: &PriceSettings, cells: &[LeaseCell], quota: u64) -> ResultTable {
    let row = |(LeaseCase { agents, skew, .. }, cell): (LeaseCase, &LeaseCell)| {
        vec![
            format!("{}, skew {skew}", figures::agents(agents)),
            format!("{:.2}", ratio(cell.off.requests, cell.off.calls)),
            format!("{:.2}", ratio(cell.on.requests, cell.on.calls)),
            format!("{:.2}", ratio(cell.two.requests, cell.two.calls)),
            format!("{:.2}", ratio(cell.on.requests, cell.on.admitted)),
            format!("{:.2}%", under_percent(&cell.off)),
            format!("{:.2}%", stranded_percent(cell)),
            format!("{:.2}%", stranded_of_two_percent(cell)),
        ]
    };
    let is_first = quota == settings.quotas[0];
    let explained = format!(
        ", at a demand of {} quotas. off, on: requests to the store per call without and with leases; two: with leases, under a second rule \
         of a day; admitted: per admitted call, with leases. under: calls denied without leases although the window had room. \
         stranded: those that leases add, under one rule and under two. Skew: Zipf exponent of a caller's calls over the agents.",
        settings.demand
    );
    ResultTable {
        caption: format!("Quota of {quota}/min{}", if is_first { explained } else { String::new() }),
        header: ["fleet", "off", "on", "two", "admitted", "under", "stranded", "two"].map(str::to_owned).to_vec(),
        rows: settings.cases().zip(cells).filter(|(case, _)| case.quota == quota).map(row).collect(),
    }
}

fn sizes(settings: &PriceSettings, simulated: &Simulated) -> ResultTable {
    let mut rows = Vec::new();
    for (position, load) in settings.loads.iter().enumerate() {
        for deployment in settings.deployments() {
            let sizing = settings.sizing(simulated, position, deployment);
            rows.push(vec![
                format!("{}, {}", count(load.calls_per_second), deployment.name()),
                format!("{:.2}M", sizing.requests_per_second / 1e6),
                format!("{:.1}", sizing.redis_cores[0]),
                format!("{:.1}", sizing.redis_cores[1]),
                format!("{:.0}", sizing.kafka_mb_per_second),
                format!("{:.1}", sizing.agent_cores),
            ]);
        }
    }
    ResultTable {
        caption: format!(
            "Computed sizes for callers at {} of their quotas, even traffic. Redis: cores, if ten calls share a script. alone: \
             if each has its own. Kafka: MB/s of calls. agents: cores of all agents, if each call costs them \
             only as much as a leased one. {MISSING}",
            settings.demand
        ),
        header: ["calls/s", "requests/s", "Redis", "alone", "Kafka", "agents"].map(str::to_owned).to_vec(),
        rows,
    }
}

fn assumptions(settings: &PriceSettings, simulated: &Simulated) -> ResultTable {
    let figures = settings.figures;
    let mut rows = vec![
        vec!["Redis CPU of a call, ten share a script (bench)".to_owned(), format!("{} us", figures.redis_step_us)],
        vec![
            "Redis CPU of a call whose script is its own (bench)".to_owned(),
            format!("{} us", figures.redis_script_us),
        ],
        vec!["agent CPU of a cached denial, with a bus (bench)".to_owned(), format!("{} ns", figures.cached_denial_ns)],
        vec!["a leased call, in cached denials (bench)".to_owned(), figures.leased_call_ratio.to_string()],
    ];
    for (load, sizes) in settings.loads.iter().zip(&simulated.sizes) {
        let calls = count(load.calls_per_second);
        let per_agent = count(load.of_agent());
        let fleet = format!("{calls}/s: agents, each with {per_agent} calls/s");
        rows.push(vec![fleet, load.agents.to_string()]);
        rows.push(vec![
            format!("{calls}/s: agents of the simulated fleet"),
            settings.simulated_agents(*load).to_string(),
        ]);
        rows.push(vec![format!("{calls}/s: bytes of a call (simulated)"), format!("{:.1}", sizes.call)]);
        rows.push(vec![format!("{calls}/s: bytes of a signal (simulated)"), format!("{:.1}", sizes.signal)]);
    }
    for quota in &settings.quotas {
        rows.push(vec![format!("callers of {quota}/min in a simulated fleet"), count(settings.callers(*quota))]);
    }
    ResultTable {
        caption: "Assumptions of the sizes".to_owned(),
        header: ["assumption", "value"].map(str::to_owned).to_vec(),
        rows,
    }
}
