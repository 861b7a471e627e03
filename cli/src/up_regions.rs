//! `tollgate up --regions N`: several regions in one process, for a look at budgets that move.
//!
//! Each region listens on a port of its own, with the routes of an agent, `/regions`, and the switches that `tollgate regions move`,
//! `cut` and `heal` use.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Json, Request, State};
use axum::http::StatusCode;
use axum::routing::post;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tollgate::{Agent, Quota, RuleSet, RulesSource, read_rules};
use tollgate_aggregator::api::{counters_router, regions_router};
use tollgate_aggregator::regions::RegionQueries;
use tollgate_bus::link::Link;
use tollgate_command::exit::{Exit, Usage};
use tollgate_command::logging::LogArgs;
use tollgate_core::clock::{Clock, SystemClock};
use tollgate_core::regions::RegionFloorRatio;
use tollgate_core::rules::Scope;

use crate::agent::{AgentArgs, announce, log_totals};
use crate::limits::{LIMIT_DEFAULT, Limits, short_rules};
use crate::local_regions::{LocalRegion, start_local_regions};
use crate::sample;
use crate::serve;
use crate::surfaces::{Addresses, Sockets, Surfaces, spaced};

/// Names of regions if the rules name none.
const NAMES: [&str; 8] = ["eu", "us", "ap", "sa", "af", "me", "in", "au"];

/// Part of each quota that the regions have together as their floors if the rules name none, in millionths: a first look needs
/// calls that pass at once, and units that move.
const FLOORS_PPM: u32 = 600_000;

/// Switches of a region.
struct RegionSwitch {
    name: Arc<str>,
    link: Link,
    budgets: RegionQueries,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneRegion {
    region: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RegionMove {
    from: String,
    to: String,
}

/// Answer to a switch: its status, and a body as JSON.
type Switched = (StatusCode, Json<Value>);

/// Runs so many regions until a signal stops them. The first one listens on `--http`.
pub(crate) async fn run(args: &AgentArgs, count: u8, link_delay: Duration) -> anyhow::Result<Exit> {
    let (stopping, hang_ups) = (serve::stop_requested()?, serve::hang_ups()?);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let rules = rules(&args.limits, usize::from(count), &*clock)?;
    let group = args.listen.group()?;
    let settings = args.http_settings(&group)?;
    let agent = || match &args.limits {
        Limits::From(source) => args.tokens.apply(Agent::builder().rules_from(source.clone())),
        _ => args.tokens.apply(Agent::builder().rules(rules.clone())),
    };
    let agents = (0..count).map(|_| agent()).collect::<Result<Vec<_>, Usage>>()?;
    let mut sockets = Vec::new();
    for number in 0..u16::from(count) {
        let grpc = args.grpc.as_ref().map(|grpc| grpc.spaced(number)).transpose()?;
        sockets.push(Sockets::bind(&group, &spaced(&args.http, number)?, grpc.as_ref(), None).await?);
    }
    let addresses = sockets.iter().map(Sockets::addresses).collect::<std::io::Result<Vec<_>>>()?;
    let regions = start_local_regions(&rules, agents, link_delay, &clock)?;
    let switches: Arc<[RegionSwitch]> = regions.iter().map(RegionSwitch::of).collect();
    let mut surfaces = Surfaces::new();
    announce(&regions[0].agent, &addresses[0], args);
    announce_regions(&regions, &addresses, &args.log);
    for (region, sockets) in regions.iter().zip(sockets) {
        let (budgets, counters) = region.queries();
        let operators = counters_router(counters.clone(), Some(budgets.clone()))
            .merge(regions_router(budgets, counters))
            .merge(switch_router(switches.clone()));
        let router = tollgate_http::router_with(settings.clone(), region.agent.clone())
            .merge(tollgate_http::for_operators(&settings, operators))
            .fallback(unknown_path);
        surfaces.serve(sockets.http, sockets.grpc, router, &settings, region.agent.clone());
    }
    let agents: Vec<_> = regions.iter().map(|region| region.agent.clone()).collect();
    serve::reload_at(hang_ups, agents.clone());
    surfaces.run_until(stopping, args.drain).await?;
    for region in regions {
        region.stop().await;
    }
    log_totals(&agents);
    Ok(Exit::Done)
}

/// Reports the address of each region, its floor, and commands to try.
fn announce_regions(regions: &[LocalRegion], addresses: &[Addresses], log: &LogArgs) {
    for (region, address) in regions.iter().zip(addresses) {
        let floor = floor(region).map(|(floor, quota)| format!(", which always has {floor} of {quota}"));
        log.announce_hint(format_args!("region {}: {}{}", region.name, address.url(), floor.unwrap_or_default()));
    }
    let first = &addresses[0];
    let curl = regions[0].agent.engine().with_rules(|rules| sample::curl(rules, first));
    log.announce_hint(format_args!("try: {curl}"));
    if let Some((floor, _)) = floor(&regions[0]) {
        log.announce_hint(format_args!("     more than {floor} times: the region gets further units within seconds"));
    }
    let url = first.url();
    // The certificate does not tell the file of its issuers.
    let ca = if url.starts_with("https:") { " --ca FILE" } else { "" };
    log.announce_hint(format_args!("     tollgate regions --aggregator {url}{ca}"));
    log.announce_hint(format_args!("     tollgate regions cut {} --aggregator {url}{ca}", regions[1].name));
}

/// Returns the floor of a region by the first global rule with one quota for all callers, and that quota.
fn floor(region: &LocalRegion) -> Option<(u64, Quota)> {
    let policy = region.agent.engine().with_rules(|rules| {
        let mut global = rules.rules.iter().filter(|rule| rule.scope == Scope::Global);
        global.find_map(|rule| rule.policy)
    })?;
    Some((policy.quota.units(), policy.quota.with_units(policy.units_over_regions())?))
}

/// Returns the rules of the command, which name so many regions. Rules in short form become global ones.
fn rules(limits: &Limits, count: usize, clock: &dyn Clock) -> anyhow::Result<RuleSet> {
    let short = |limits: &[String]| -> anyhow::Result<RuleSet> {
        let mut set = short_rules(limits, clock)?;
        for rule in &mut set.rules {
            *rule = Arc::new((**rule).clone().global());
        }
        let floor_ppm = FLOORS_PPM / u32::try_from(count)?;
        let part = |name: &&str| RegionFloorRatio { region: (*name).into(), floor_ppm };
        set.regions = NAMES[..count].iter().map(part).collect();
        Ok(set)
    };
    match limits {
        Limits::Unset => {
            tracing::info!("no --rules and no --limit: {LIMIT_DEFAULT} over all regions is enforced");
            short(&[LIMIT_DEFAULT.to_owned()])
        }
        Limits::Short(limits) => short(limits),
        Limits::From(RulesSource::Files(paths)) => {
            let set = read_rules(paths, clock.now())?;
            let shown = &set.origin;
            let named = set.regions.len();
            if named != count {
                let remedy = if named < 2 { String::new() } else { format!("write --regions {named}, or ") };
                bail!(Usage(format!(
                    "{shown} names {named} regions under `regions:`, and --regions says {count}; {remedy}name {count} regions there"
                )));
            }
            if !set.rules.iter().any(|rule| rule.scope == Scope::Global) {
                bail!(Usage(format!(
                    "{shown} has no rule with `scope: global`, so the regions share nothing; add it to a rule"
                )));
            }
            Ok(set)
        }
        Limits::From(_) => bail!(Usage(
            "--regions needs rules that name regions, which --envoy-config has not; use --rules FILE or --limit"
                .to_owned()
        )),
    }
}

impl RegionSwitch {
    fn of(region: &LocalRegion) -> Self {
        Self { name: region.name.clone(), link: region.link.clone(), budgets: region.queries().0 }
    }
}

fn switch_router(regions: Arc<[RegionSwitch]>) -> Router {
    Router::new()
        .route("/regions/cut", post(|State(regions), body| async move { set_cut(&regions, &body, true) }))
        .route("/regions/heal", post(|State(regions), body| async move { set_cut(&regions, &body, false) }))
        .route("/regions/move", post(|State(regions), body| async move { move_units(&regions, &body) }))
        .with_state(regions)
}

/// Reads a body, whatever its content type is: `curl -d` names that of a form.
fn read<T: DeserializeOwned>(body: &Bytes, example: &str) -> Result<T, Switched> {
    serde_json::from_slice(body).map_err(|error| {
        refusal(StatusCode::BAD_REQUEST, &format!("the body cannot be used: {error}; write -d '{example}'"))
    })
}

async fn unknown_path(request: Request) -> Switched {
    let path = request.uri().path();
    let known = "/check, /batch, /explain, /json, /settle, /release, /reset, /emergency, /healthz, /readyz, /metrics, /openapi.yaml, /regions, /counters, or POST /regions/move, /regions/cut or /regions/heal";
    refusal(StatusCode::NOT_FOUND, &format!("unknown path `{path}`; use {known}"))
}

/// Cuts the link of a region to the ledger, or heals it.
fn set_cut(regions: &Arc<[RegionSwitch]>, body: &Bytes, is_cut: bool) -> Switched {
    let OneRegion { region } = match read(body, r#"{"region": "us"}"#) {
        Ok(one) => one,
        Err(refusal) => return refusal,
    };
    match found(regions, &region) {
        Ok(found) => {
            let was_cut = found.link.is_cut();
            found.link.set_cut(is_cut);
            tracing::info!(%region, was_cut, "the link to the ledger is {}", if is_cut { "cut" } else { "healed" });
            (StatusCode::OK, Json(json!({ "region": region, "cut": is_cut, "was_cut": was_cut })))
        }
        Err(refusal) => refusal,
    }
}

/// Moves the units of all counters from one region to another.
fn move_units(regions: &Arc<[RegionSwitch]>, body: &Bytes) -> Switched {
    let RegionMove { from, to } = match read(body, r#"{"from": "eu", "to": "us"}"#) {
        Ok(both) => both,
        Err(refusal) => return refusal,
    };
    match (found(regions, &from), found(regions, &to)) {
        _ if from == to => refusal(StatusCode::BAD_REQUEST, &format!("`{from}` is named twice; name another region")),
        (Ok(giver), Ok(taker)) => {
            let counters = giver.budgets.move_units(&taker.budgets);
            (StatusCode::OK, Json(json!({ "from": from, "to": to, "counters": counters })))
        }
        (Err(refusal), _) | (_, Err(refusal)) => refusal,
    }
}

fn found<'r>(regions: &'r [RegionSwitch], name: &str) -> Result<&'r RegionSwitch, Switched> {
    regions.iter().find(|region| *region.name == *name).ok_or_else(|| {
        let known: Vec<&str> = regions.iter().map(|region| &*region.name).collect();
        refusal(StatusCode::NOT_FOUND, &format!("there is no region `{name}`; write one of {}", known.join(", ")))
    })
}

fn refusal(status: StatusCode, detail: &str) -> Switched {
    let title = status.canonical_reason();
    (status, Json(json!({ "title": title, "status": status.as_u16(), "detail": detail })))
}
