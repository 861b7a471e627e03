//! Rules files and imports through the public interface.

mod explain;
mod envoy;
mod schema;
