//! Links the tests of this crate as programs are linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!(
            "cargo::rustc-link-arg-tests=-Wl,--wrap=rd_kafkap_leader_discovery_set_topic,--wrap=rd_kafkap_leader_discovery_set_CurrentLeader"
        );
    }
}
