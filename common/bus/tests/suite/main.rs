//! Tests of the Kafka bus on a real Apache Kafka.

mod support;
mod conforms;
mod topics;
mod ledger;
mod outages;
mod records;
mod rejections;
mod sasl;
