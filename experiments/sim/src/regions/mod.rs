//! Regions in virtual time: the production engines of the budgets, with a model of each region's store, its callers, the links
//! to the home cluster, and their faults.
//!
//! A region's processes append to the ledger over a link that delays, loses and duplicates, and read it through a mirror that
//! may repeat a part in its order. Processes are suspended between a decision and its effect, restarted without memory, and
//! doubled. Each has a clock of its own. The store admits by an exact list of the last window, in its own time.

mod settings;
mod region_store;
mod queue;
mod process;
mod mistake;
mod outcome;
mod world;

pub use mistake::RegionMistake;
pub use outcome::{BudgetSample, RegionsOutcome, Violation};
pub use settings::{CallerPlan, LinkFaults, ProcessFaults, RegionSettings, RegionsSettings, StoreFaults, TermsChange};
pub use world::{RegionsWorld, counter_id};
