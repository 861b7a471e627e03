//! Tests of the Kafka bus on a real Apache Kafka.

mod support;
mod conforms;
mod topics;
mod outages;
mod records;
mod sasl;
