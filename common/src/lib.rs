//! What every part of Tollgate agrees on.
//!
//! Agents and aggregators never import each other: they meet here, in the words (calls, counters, rules, decisions), in
//! the arithmetic of windows, in the wire format and on the bus. Modules stand in the order of their layers: each one
//! imports only what stands before it, and a test holds that.

pub mod clock;
pub mod call;
pub mod window;
pub mod algorithm;
pub mod counter;
pub mod problem;
pub mod yaml;
pub mod rule;
pub mod decision;
pub mod charge;
pub mod signal;
pub mod presence;
pub mod wire;
pub mod bus;
