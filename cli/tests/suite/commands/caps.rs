//! Caps of an agent that are refused at its start.

use crate::support::{file, finish, tollgate};

/// capped: a cap that is not valid is refused at the start, with the flag, the value and the values that it may have.
#[test]
fn a_cap_outside_its_range_is_refused_at_the_start() {
    for command in ["up", "agent"] {
        for (flag, value, told) in [
            (
                "--sketch-bytes",
                "9223372036854775807",
                "write a number of bytes from 65536 (64 KiB) to 4294967296 (4 GiB)",
            ),
            ("--sketch-bytes", "4294967297", "65536 (64 KiB) to 4294967296 (4 GiB)"),
            ("--sketch-bytes", "65535", "65536 (64 KiB) to 4294967296 (4 GiB)"),
            ("--sketch-bytes", "64MiB", "65536 (64 KiB) to 4294967296 (4 GiB)"),
            ("--counters-max", "4611686018427387904", "write a number of counters from 1 to 1000000000"),
            ("--counters-max", "1000000001", "from 1 to 1000000000"),
            ("--counters-max", "0", "from 1 to 1000000000"),
        ] {
            let args = [command, "--http", "127.0.0.1:0", "--limit", "5/s per ip", flag, value];
            let said = finish(&mut tollgate(&args));
            assert_eq!((said.exit, &*said.out), (2, ""), "{args:?}: {}", said.err);
            assert!([flag, value, told].iter().all(|part| said.err.contains(part)), "{args:?}: {}", said.err);
        }
        for (flag, value) in
            [("--sketch-bytes", "65536"), ("--sketch-bytes", "4294967296"), ("--counters-max", "1000000000")]
        {
            let said = finish(&mut tollgate(&["config", command, flag, value]));
            assert_eq!(said.exit, 0, "{value}: {}", said.err);
        }
    }
    let path = file("caps.yaml", "sketch_bytes: 1\n");
    let said = finish(&mut tollgate(&["agent", "--config", path.to_str().unwrap()]));
    let told = format!("{}:1: `sketch_bytes` cannot be `1`: write a number of bytes from 65536", path.display());
    assert!(said.exit == 2 && said.err.contains(&told), "{}", said.err);
}
