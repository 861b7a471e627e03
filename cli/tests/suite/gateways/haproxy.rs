//! `HAProxy` with a Lua action.

use std::fs;

use tollgate_servers::{Gateway, GatewayProgram};

use super::page;
use super::scenarios::{play, restart_in_turn};
use super::stage::{Front, Stage};

const SECTION: &str = "## Behind HAProxy";

/// Starts `HAProxy` with the configuration and the files of the page.
fn start(stage: &Stage) -> Gateway {
    Gateway::start(GatewayProgram::Haproxy, |folder, port| {
        let path = folder.display().to_string();
        let config = page::block(SECTION, "haproxy", "frontend").replace("/etc/haproxy", &path);
        fs::write(folder.join("haproxy.cfg"), config.replace("bind :80", &format!("bind 127.0.0.1:{port}"))).unwrap();
        page::run(SECTION, "cp ", &[("/etc/haproxy", &path)]);
        page::run(SECTION, "cat ", &[("/etc/haproxy", &path)]);
        stage.adapt_files(folder);
        // Names of sockets are common to the machine.
        for file in ["haproxy.cfg", "tollgate.lua"].map(|name| folder.join(name)) {
            let text = fs::read_to_string(&file).unwrap();
            fs::write(&file, text.replace("abns@tollgate", &format!("abns@tollgate-{port}"))).unwrap();
        }
    })
}

/// P1: `HAProxy` passes the scenarios, and the commands of the page work.
#[test]
fn haproxy_passes_the_scenarios() {
    let mut stage = Stage::start("haproxy");
    let haproxy = start(&stage);
    play(Front::new(haproxy.port()), &mut stage);
    page::run(SECTION, "haproxy ", &[("/etc/haproxy", &haproxy.folder().display().to_string())]);
    page::see_that_it_works(SECTION, haproxy.port());
}

/// P1: two agents are restarted in turn, and one of them decides each call.
#[test]
fn two_agents_behind_haproxy_are_restarted_in_turn() {
    let mut stage = Stage::start("haproxy").with_second_agent("HAProxy");
    let haproxy = start(&stage);
    restart_in_turn(Front::new(haproxy.port()), &mut stage);
}
