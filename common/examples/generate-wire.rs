//! Writes `src/wire/tollgate.v1.rs` from `proto/`, in plain Rust: no protoc.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let descriptors = protox::compile(["tollgate/v1/tollgate.proto"], ["common/proto"])?;
    prost_build::Config::new().out_dir("common/src/wire").compile_fds(descriptors)?;
    Ok(())
}
