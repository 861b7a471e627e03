//! Tests of the binary `tollgate-lab`.

mod support;
mod documented_figures;
mod scenarios;
mod live;
