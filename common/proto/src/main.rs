//! Generator of `common/wire/src/tollgate.v1.rs` and of the messages of `agent/grpc` and of `cli/src/otlp` from the schemas in this
//! crate. It is plain Rust and needs no `protoc`.

use std::fs;
use std::path::Path;

use anyhow::ensure;
use prost::Message;
use prost_types::FileDescriptorSet;
use prost_types::field_descriptor_proto::Type;

/// Services that an agent offers to gateways. Their schemas are those of Envoy and of gRPC, without the fields that are neither
/// read nor written.
const SERVICES: [&str; 3] = [
    "envoy/service/auth/v3/external_auth.proto",
    "envoy/service/ratelimit/v3/rls.proto",
    "grpc/health/v1/health.proto",
];
/// Messages that a process sends to a collector of OpenTelemetry. Their schemas are those of OpenTelemetry, without the fields that are
/// neither read nor written.
const TELEMETRY: [&str; 2] = [
    "opentelemetry/proto/collector/metrics/v1/metrics_service.proto",
    "opentelemetry/proto/collector/trace/v1/trace_service.proto",
];

fn main() -> anyhow::Result<()> {
    let schema = Path::new(env!("CARGO_MANIFEST_DIR"));
    generate_wire(&schema.join("../wire/src"))?;
    generate_services(&schema.join("../../agent/grpc/src/proto"))?;
    generate_telemetry(&schema.join("../../cli/src/otlp/proto"))
}

fn generate_wire(out: &Path) -> anyhow::Result<()> {
    let descriptors = protox::compile(["tollgate/v1/tollgate.proto"], [env!("CARGO_MANIFEST_DIR")])?;
    prost_build::Config::new().out_dir(out).compile_fds(descriptors)?;
    remove_impls(&out.join("tollgate.v1.rs"))
}

/// Removes the `impl`s of enums from generated code. They hold names of values, which nothing uses.
fn remove_impls(file: &Path) -> anyhow::Result<()> {
    let (mut kept, mut end) = (String::new(), None);
    for line in fs::read_to_string(file)?.lines() {
        let code = line.trim_start();
        if end.is_none() && code.starts_with("impl ") {
            end = Some(format!("{}}}", &line[..line.len() - code.len()]));
        }
        match &end {
            Some(last) if line == last => end = None,
            Some(_) => {}
            None => kept.extend([line, "\n"]),
        }
    }
    ensure!(end.is_none(), "an `impl` has an end");
    Ok(fs::write(file, kept)?)
}

/// Writes a module for each package, and the schemas in the form that a server describes itself with.
fn generate_services(out: &Path) -> anyhow::Result<()> {
    let mut descriptors = protox::compile(SERVICES, [env!("CARGO_MANIFEST_DIR")])?;
    fs::write(out.join("services.bin"), descriptors.encode_to_vec())?;
    take_any_bytes(&mut descriptors);
    let services = tonic_prost_build::configure().build_client(false).build_transport(false).out_dir(out);
    Ok(services.include_file("mod.rs").compile_fds(descriptors)?)
}

/// Writes a module for each package.
fn generate_telemetry(out: &Path) -> anyhow::Result<()> {
    let descriptors = protox::compile(TELEMETRY, [env!("CARGO_MANIFEST_DIR")])?;
    prost_build::Config::new().out_dir(out).include_file("mod.rs").compile_fds(descriptors)?;
    fs::read_dir(out)?.try_for_each(|entry| remove_impls(&entry?.path()))
}

/// Makes bytes of the texts of a descriptor's entries, in the code alone. Envoy copies headers into them, and a header may have bytes
/// that are no UTF-8. A message with such a text cannot be decoded, and Envoy lets a request pass that gets no decision.
fn take_any_bytes(descriptors: &mut FileDescriptorSet) {
    let messages = descriptors.file.iter_mut().flat_map(|file| &mut file.message_type);
    let nested = messages.filter(|message| message.name() == "RateLimitDescriptor").flat_map(|of| &mut of.nested_type);
    for field in nested.filter(|message| message.name() == "Entry").flat_map(|entry| &mut entry.field) {
        field.set_type(Type::Bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use super::*;

    type Files = BTreeMap<PathBuf, Vec<u8>>;

    fn files(folder: &Path) -> Files {
        let read = |entry: std::io::Result<fs::DirEntry>| {
            let path = entry.unwrap().path();
            (path.file_name().unwrap().into(), fs::read(path).unwrap())
        };
        fs::read_dir(folder).unwrap().map(read).collect()
    }

    fn generated(name: &str, generate: impl FnOnce(&Path) -> anyhow::Result<()>) -> Files {
        let out = std::env::temp_dir().join(format!("tollgate-proto-{name}-{}", std::process::id()));
        fs::create_dir_all(&out).unwrap();
        generate(&out).unwrap();
        let generated = files(&out);
        fs::remove_dir_all(&out).unwrap();
        generated
    }

    /// The checked-in code matches the schemas.
    #[test]
    fn the_checked_in_code_matches_the_schemas() {
        let remedy = "run `cargo run -p tollgate-proto` and commit its output";
        let wire = include_bytes!("../../wire/src/tollgate.v1.rs").to_vec();
        assert!(generated("wire", generate_wire) == Files::from([("tollgate.v1.rs".into(), wire)]), "{remedy}");
        let services = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../agent/grpc/src/proto");
        assert!(generated("services", generate_services) == files(&services), "{remedy}");
        let telemetry = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cli/src/otlp/proto");
        assert!(generated("telemetry", generate_telemetry) == files(&telemetry), "{remedy}");
    }
}
