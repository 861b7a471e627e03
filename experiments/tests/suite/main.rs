//! Tests of the binary `tollgate-lab`.

mod support;
mod scenarios;
mod documented_figures;
mod live;
