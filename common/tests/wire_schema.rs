//! The checked-in code of the wire is what its schema says.

#[test]
fn generated_code_is_that_of_the_schema() {
    let out = std::env::temp_dir().join(format!("tollgate-wire-{}", std::process::id()));
    std::fs::create_dir_all(&out).unwrap();
    let descriptors = protox::compile(["tollgate/v1/tollgate.proto"], ["proto"]).unwrap();
    prost_build::Config::new().out_dir(&out).compile_fds(descriptors).unwrap();
    let generated = std::fs::read_to_string(out.join("tollgate.v1.rs")).unwrap();
    std::fs::remove_dir_all(&out).unwrap();
    assert!(
        generated == include_str!("../src/wire/tollgate.v1.rs"),
        "run `cargo run -p tollgate-common --example generate-wire` and commit what it writes"
    );
}
