//! nginx with `auth_request`.

use std::fs;

use tollgate_servers::{Gateway, GatewayProgram};

use super::page;
use super::scenarios::{play, restart_in_turn};
use super::stage::{Front, Stage};

const SECTION: &str = "## Behind nginx";

/// Starts nginx with the files and the server of the page.
fn start(stage: &Stage) -> Gateway {
    Gateway::start(GatewayProgram::Nginx, |folder, port| {
        let path = folder.display().to_string();
        let parts = folder.join("conf.d");
        fs::create_dir(&parts).unwrap();
        page::run(SECTION, "cp ", &[("/etc/nginx", &path)]);
        stage.adapt_files(folder);
        stage.adapt_files(&parts);
        let server = page::block(SECTION, "nginx", "server {").replace("/etc/nginx", &path);
        let server =
            server.replace("listen 80;", &format!("listen 127.0.0.1:{port}; location /closed {{ deny all; }}"));
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let temporary = temporary.map(|kind| format!("{kind}_temp_path {path}/{kind};")).concat();
        let config = format!(
            "daemon off; master_process off; error_log stderr; pid {path}/nginx.pid; events {{}}
            http {{ access_log off; {temporary} include {path}/conf.d/*.conf; {} }}",
            stage.adapt(&server)
        );
        fs::write(folder.join("nginx.conf"), config).unwrap();
    })
}

/// P1: nginx passes the scenarios, and the commands of the page work. A 403 of nginx itself stays one, and no client asks the agent.
#[test]
fn nginx_passes_the_scenarios() {
    let mut stage = Stage::start("nginx");
    let nginx = start(&stage);
    let front = Front::new(nginx.port());
    play(front, &mut stage);
    for (path, status) in [("/closed", 403), ("/_tollgate", 404)] {
        let answer = front.client().get(path, &[]);
        assert_eq!((answer.status, answer.find("retry-after")), (status, None), "{path}");
    }
    // nginx passes on a path as the client wrote it, also with bytes that belong escaped.
    let mut client = front.client();
    for status in [200, 200, 200, 429] {
        assert_eq!(client.get("/search?q=\u{e9}", &[("x-api-key", "raw")]).status, status);
    }
    let config = format!("nginx -e stderr -c {}/nginx.conf ", nginx.folder().display());
    page::see_that_it_works(SECTION, nginx.port());
    page::run(SECTION, "nginx ", &[("nginx ", &config)]);
}

/// P1: two agents are restarted in turn, and one of them decides each call.
#[test]
fn two_agents_behind_nginx_are_restarted_in_turn() {
    let mut stage = Stage::start("nginx").with_second_agent("nginx");
    let nginx = start(&stage);
    restart_in_turn(Front::new(nginx.port()), &mut stage);
}
