//! Redis and the agent of a measurement.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use tollgate_servers::{Redis, Server, ServerError, ServerKind, free_port};

use super::plan::{DEADLINE, RedisState};
use super::request::DOMAIN;

/// Agent in a process of its own.
struct RlsAgentKind;

pub(super) struct RlsServers {
    redis: Redis,
    _agent: Server<RlsAgentKind>,
    grpc: SocketAddr,
}

impl ServerKind for RlsAgentKind {
    const NAME: &'static str = "the agent";

    fn is_ready(port: u16) -> bool {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    }
}

impl RlsServers {
    pub(super) fn start(redis_server: &str, tollgate: &Path) -> Result<Self, ServerError> {
        let redis = Redis::try_start(redis_server, &[])?;
        let grpc = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let agent = Server::launch(grpc.port(), |folder| {
            let rules = folder.join("rules.yaml");
            std::fs::write(&rules, self::rules())?;
            let (program, rules) = (tollgate.display().to_string(), rules.display().to_string());
            let (url, grpc) = (redis.url(), grpc.to_string());
            let command =
                [&*program, "agent", "--rules", &rules, "--redis", &url, "--http", "127.0.0.1:0", "--grpc", &grpc];
            Ok(command.map(ToOwned::to_owned).to_vec())
        })?;
        Ok(Self { redis, _agent: agent, grpc })
    }

    pub(super) fn grpc(&self) -> SocketAddr {
        self.grpc
    }

    /// Brings Redis into a state.
    pub(super) fn bring(&mut self, state: RedisState) {
        match state {
            RedisState::Running => {}
            RedisState::Stopped => self.redis.pause(),
            RedisState::Killed => self.redis.kill(),
        }
    }

    /// Lets Redis run again.
    pub(super) fn restore(&mut self, state: RedisState) -> Result<(), ServerError> {
        match state {
            RedisState::Running => Ok(()),
            RedisState::Stopped => {
                self.redis.resume();
                Ok(())
            }
            RedisState::Killed => self.redis.try_restart(),
        }
    }
}

/// Returns a small quota of each caller, and a large one of its tenant.
fn rules() -> String {
    let deadline_ms = DEADLINE.as_millis();
    format!(
        "defaults: {{ deadline: {deadline_ms}ms }}
rules:
  - {{ name: per-key, match: {{ domain: {DOMAIN} }}, per: [api_key], quota: 100/min }}
  - {{ name: per-tenant, match: {{ domain: {DOMAIN} }}, per: [tenant], quota: 1000000/min }}
"
    )
}
