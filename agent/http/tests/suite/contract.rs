//! Contract of the agent: each answer of the suites has a status, headers and a body that `agent/http/openapi.yaml` describes.

use std::sync::OnceLock;

use tollgate_servers::ApiContract;

pub(crate) const TEXT: &str = include_str!("../../openapi.yaml");

pub(crate) fn contract() -> &'static ApiContract {
    static CONTRACT: OnceLock<ApiContract> = OnceLock::new();
    CONTRACT.get_or_init(|| ApiContract::parse("agent", "agent/http/openapi.yaml", TEXT))
}
