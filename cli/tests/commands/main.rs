//! The binary as users run it: what it prints, where, and how it ends.

mod support;
mod help;
mod demo;
mod replay;
mod rules;
mod rules_output;
mod up;
mod reload;
mod cookbook;
mod import;
mod stop;
mod tokens;
mod check;
mod config;
mod experiment;
