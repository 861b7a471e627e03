//! Real gateways in front of real agents, configured as `docs/gateways.md` says.
//!
//! All gateways pass one table of scenarios ([`scenarios`]). The timeouts of the page are prolonged, because an agent on a busy
//! machine may be late.

mod page;
mod stage;
mod scenarios;
mod nginx;
mod caddy;
mod haproxy;
mod traefik;
mod envoy;
