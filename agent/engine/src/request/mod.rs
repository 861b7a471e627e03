//! Requests: the life of an operation, from its begin over the answer of the store to an answer that comes late.

mod store_request;
mod store_step;
mod operation;
mod renewed_request;
mod charge_results;
mod life_cycle;
mod late_answer;

pub use late_answer::{LATE_ANSWER_WAIT_MAX, LATE_REQUESTS_MAX};
pub use operation::{Operation, Output, Progress, UNATTENDED_DEADLINE};
pub use store_request::{DecidedRule, StoreRequest};
pub use store_step::{RequestStep, StepAnswers};
