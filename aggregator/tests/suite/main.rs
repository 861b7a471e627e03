//! Aggregators over embedded buses.

mod embedded;
mod regions;
