//! The binary as users run it: output, messages and exit codes.

mod help;
mod demo;
mod replay;
mod rules;
mod rules_output;
mod rules_settings;
mod regions;
mod up;
mod tokens;
mod up_regions;
mod six_regions;
mod limit;
mod reload;
mod metrics;
mod flood;
mod cookbook;
mod tour;
mod import;
mod stop;
mod log;
mod pipes;
mod width;
mod check;
mod config;
mod caps;
