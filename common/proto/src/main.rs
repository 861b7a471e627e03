//! Generator of `common/wire/src/tollgate.v1.rs` from the schema in this crate. It is plain Rust and needs no `protoc`.

use std::fs;
use std::path::Path;

use anyhow::Context;

fn main() -> anyhow::Result<()> {
    generate(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/src"))
}

/// Writes the code without the `impl`s of enums, which hold names of values that nothing uses.
fn generate(out: &Path) -> anyhow::Result<()> {
    let schema = env!("CARGO_MANIFEST_DIR");
    let descriptors = protox::compile(["tollgate/v1/tollgate.proto"], [schema])?;
    prost_build::Config::new().out_dir(out).compile_fds(descriptors)?;
    let file = out.join("tollgate.v1.rs");
    let code = fs::read_to_string(&file)?;
    let mut parts = code.split("\nimpl ");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        kept += part.split_once("\n}").context("an `impl` has an end")?.1;
    }
    Ok(fs::write(file, kept)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The checked-in code matches the schema.
    #[test]
    fn the_checked_in_code_matches_the_schema() {
        let out = std::env::temp_dir().join(format!("tollgate-proto-{}", std::process::id()));
        std::fs::create_dir_all(&out).unwrap();
        generate(&out).unwrap();
        let generated = std::fs::read_to_string(out.join("tollgate.v1.rs")).unwrap();
        std::fs::remove_dir_all(&out).unwrap();
        let checked_in = include_str!("../../wire/src/tollgate.v1.rs");
        assert!(generated == checked_in, "run `cargo run -p tollgate-proto` and commit its output");
    }
}
