//! Tests of the workspace and of the binary `tollgate`: its commands, and fleets of its processes over real servers.

mod support;
mod layout;
mod tidy;
mod commands;
mod compose;
mod package;
mod fleet;
mod two_regions;
mod gateways;
mod monitoring;
mod page;
mod redis;
mod kafka;
