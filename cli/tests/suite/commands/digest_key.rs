//! `tollgate digest-key`: a new key, and files that exist.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::{file, finish, tollgate};

#[test]
fn a_new_key_is_random_and_an_existing_file_stays_as_it_is() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("digest-key");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let create = |name: &str| {
        let path = folder.join(name);
        let made = finish(&mut tollgate(&["digest-key", path.to_str().unwrap()]));
        assert_eq!((made.exit, &*made.out), (0, ""), "{}", made.err);
        let key = fs::read_to_string(&path).unwrap();
        assert!(!made.err.contains(key.trim()), "the key is printed");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        (key, made.err)
    };
    let (first, created) = create("a");
    assert!(created.contains("a: created; give the same key to all agents"), "{created}");
    let (second, _) = create("b");
    assert_ne!(first, second);
    let (again, kept) = create("a");
    assert!(again == first && kept.contains("a: holds a key, and stays as it is"), "{kept}");
    let path = folder.join("a");
    let up = ["up", "--http", "127.0.0.1:0", "--digest-key-file", path.to_str().unwrap()];
    drop(crate::support::Up::of(&mut tollgate(&up)));
}

#[test]
fn a_file_that_holds_something_else_is_refused_and_kept() {
    let path = file("digest-key-foreign", "something else\n");
    let refused = finish(&mut tollgate(&["digest-key", path.to_str().unwrap()]));
    assert_eq!((refused.exit, &*refused.out), (2, ""));
    assert!(refused.err.contains("this is no digest key"), "{}", refused.err);
    assert_eq!(fs::read_to_string(&path).unwrap(), "something else\n");
    let nowhere = finish(&mut tollgate(&["digest-key", "/nowhere/key"]));
    assert_eq!(nowhere.exit, 1);
    assert!(nowhere.err.contains("/nowhere/key: the file cannot be created: "), "{}", nowhere.err);
}
