//! Types and pure algorithms that every part of Tollgate shares.
//!
//! Agents and aggregators never import each other: they share the types of this crate (calls, counters, rules,
//! decisions, messages) and its window arithmetic. The crate does no input or output, reads no clock except in
//! [`clock`], and parses no files; `tollgate-rules` parses text into a [`rules::RuleSet`] and `tollgate-wire` encodes
//! [`messages`]. Modules are listed in the order of their layers: each one imports only the modules before it, and a
//! test checks this.

mod timestamp;
pub mod clock;
pub mod name;
pub mod one_line;
pub mod rendezvous;
pub mod in_flight;
pub mod log_throttle;
pub mod newcomers;
pub mod request_path;
pub mod client_network;
pub mod trace_context;
pub mod call;
#[doc(hidden)]
pub mod call_key;
pub mod window;
pub mod algorithm;
pub mod counter;
pub mod regions;
pub mod own_answer;
pub mod decision_id;
pub mod decision;
pub mod decided_call;
pub mod rules;
pub mod messages;
