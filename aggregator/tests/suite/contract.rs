//! Contract of an aggregator: each answer of the suite has a status, headers and a body that `aggregator/openapi.yaml` describes.

use std::sync::OnceLock;

use serde_json::Value;
use tollgate_servers::ApiContract;

pub(crate) const TEXT: &str = include_str!("../../openapi.yaml");

pub(crate) fn contract() -> &'static ApiContract {
    static CONTRACT: OnceLock<ApiContract> = OnceLock::new();
    CONTRACT.get_or_init(|| ApiContract::parse("aggregator", "aggregator/openapi.yaml", TEXT))
}

/// Returns path and description of each operation, all of which are `get`.
pub(crate) fn operations() -> impl Iterator<Item = (&'static str, &'static Value)> {
    contract().operations().map(|(path, method, operation)| {
        assert_eq!(method, "get", "{path}: an aggregator changes nothing");
        (path, operation)
    })
}
