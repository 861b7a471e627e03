//! Caddy with the directives of its `forward_auth`.

use std::fs;

use tollgate_servers::{Gateway, GatewayProgram};

use super::page;
use super::scenarios::{play, restart_in_turn};
use super::stage::{Front, Stage};

const SECTION: &str = "## Behind Caddy";

/// Starts Caddy with the file and the site of the page.
fn start(stage: &Stage) -> Gateway {
    Gateway::start(GatewayProgram::Caddy, |folder, port| {
        page::run(SECTION, "cp ", &[("/etc/caddy", &folder.display().to_string())]);
        stage.adapt_files(folder);
        let site = page::block(SECTION, "caddyfile", "import tollgate");
        let site = site.replace("shop.example {", &format!("http://:{port} {{\n\tbind 127.0.0.1"));
        fs::write(folder.join("Caddyfile"), format!("{{\n\tadmin off\n}}\n{}", stage.adapt(&site))).unwrap();
    })
}

/// P1: Caddy passes the scenarios, and the commands of the page work.
#[test]
fn caddy_passes_the_scenarios() {
    let mut stage = Stage::start("caddy");
    let caddy = start(&stage);
    play(Front::new(caddy.port()), &mut stage);
    page::run(SECTION, "caddy ", &[("/etc/caddy", &caddy.folder().display().to_string())]);
    page::see_that_it_works(SECTION, caddy.port());
}

/// P1: two agents are restarted in turn, and one of them decides each call.
#[test]
fn two_agents_behind_caddy_are_restarted_in_turn() {
    let mut stage = Stage::start("caddy").with_second_agent("Caddy");
    let caddy = start(&stage);
    restart_in_turn(Front::new(caddy.port()), &mut stage);
}
