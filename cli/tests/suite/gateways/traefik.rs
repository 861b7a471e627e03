//! Traefik with `forwardAuth`.

use std::fs;

use tollgate_servers::{Gateway, GatewayProgram};

use super::page;
use super::scenarios::{play, restart_in_turn};
use super::stage::{Front, Stage};
use crate::support::wait_for;

const SECTION: &str = "## Behind Traefik";

/// Starts Traefik with the files of the page.
fn start(stage: &Stage) -> Gateway {
    let traefik = Gateway::start(GatewayProgram::Traefik, |folder, port| {
        let path = folder.display().to_string();
        let routes = folder.join("dynamic");
        fs::create_dir(&routes).unwrap();
        page::run(SECTION, "cp ", &[("/etc/traefik", &path)]);
        fs::write(routes.join("shop.yaml"), page::block(SECTION, "yaml", "routers:")).unwrap();
        let config = page::block(SECTION, "yaml", "entryPoints:").replace("/etc/traefik", &path);
        fs::write(folder.join("traefik.yaml"), config.replace("\":80\"", &format!("127.0.0.1:{port}"))).unwrap();
        stage.adapt_files(folder);
        stage.adapt_files(&routes);
    });
    // Traefik listens before it has read the routes.
    wait_for("the routes", || (front(&traefik).client().get("/", &[]).status == 200).then_some(()));
    traefik
}

/// Traefik does not show clients the headers of an answer that lets a call pass, and sends no question twice.
fn front(traefik: &Gateway) -> Front {
    Front { shows_limit: false, repeats_questions: false, ..Front::new(traefik.port()) }
}

/// P1: Traefik passes the scenarios.
#[test]
fn traefik_passes_the_scenarios() {
    let mut stage = Stage::start("traefik");
    let traefik = start(&stage);
    play(front(&traefik), &mut stage);
}

/// P1: two agents are restarted in turn, and no call fails.
#[test]
fn two_agents_behind_traefik_are_restarted_in_turn() {
    let mut stage = Stage::start("traefik").with_second_agent("Traefik");
    let traefik = start(&stage);
    restart_in_turn(front(&traefik), &mut stage);
}
