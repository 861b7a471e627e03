//! The binary as users run it: output, messages and exit codes.

mod support;
mod help;
mod demo;
mod replay;
mod rules;
mod rules_output;
mod up;
mod reload;
mod metrics;
mod flood;
mod cookbook;
mod import;
mod stop;
mod tokens;
mod check;
mod config;
mod experiment;
