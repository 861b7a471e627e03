//! Aggregators over embedded buses. Each answer to HTTP is compared with `openapi.yaml`.

mod contract;
mod support;
mod embedded;
mod regions;
mod openapi;
mod answers;
mod published_rules;
