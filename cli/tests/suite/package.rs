//! Tests of `scripts/package` and of the files that it installs: units and default settings.
//!
//! One test packages the binary of this build, unpacks the result into a folder, and runs the units' commands as a user
//! without rights. It needs dpkg-deb, dpkg-shlibdeps, strip and, as root, setpriv. The tests do not show that dpkg
//! configures the package, nor that systemd starts the units.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::{Up, file, finish, tollgate};

/// Identity without any right: `nobody` of Debian.
const NOBODY: u32 = 65_534;
const UNITS: [&str; 2] = ["tollgate-agent", "tollgate-aggregator"];
const SETTINGS: [&str; 3] = ["agent.yaml", "aggregator.yaml", "rules.yaml"];
/// Keys of a unit that take a right away, with their values.
const HARDENED: [(&str, &str); 6] = [
    ("DynamicUser", "yes"),
    ("ProtectSystem", "strict"),
    ("NoNewPrivileges", "yes"),
    ("CapabilityBoundingSet", ""),
    ("MemoryDenyWriteExecute", "yes"),
    ("SystemCallFilter", "@system-service"),
];

/// Both files that `scripts/package` makes.
struct Packages {
    deb: String,
    tarball: String,
}

/// Contents of the Debian package in a folder that every user can read; deleted when dropped.
struct Unpacked(tempfile::TempDir);

/// Lines `KEY=VALUE` of a unit.
struct Unit(Vec<(String, String)>);

/// Runs a program that a package of Debian contains, and returns its standard output.
fn run(program: &str, package: &str, args: &[&str]) -> String {
    let Output { status, stdout, stderr } = Command::new(program)
        .args(args)
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}; install it with: apt-get install {package}"));
    assert!(status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

/// Paths of an archive's files, from a list in which the owner must be root.
fn files_of(list: &str) -> BTreeSet<String> {
    let entries = list.lines().map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [mode, owner, .., path] = words[..] else { panic!("{line}") };
        assert!(owner == "root/root" || owner == "0/0", "{line}");
        assert!(!mode[5..].contains('w'), "others can write it: {line}");
        path.to_owned()
    });
    let files = entries.filter(|path| !path.ends_with('/'));
    files.map(|path| path.trim_start_matches("./").to_owned()).collect()
}

/// Files that both archives must contain.
fn expected_files() -> BTreeSet<String> {
    let pages = ["", "-agent", "-aggregator", "-up", "-rules", "-rules-publish", "-config", "-completions", "-man"];
    let pages = pages.iter().map(|of| format!("usr/share/man/man1/tollgate{of}.1.gz"));
    let units = UNITS.iter().map(|unit| format!("usr/lib/systemd/system/{unit}.service"));
    let settings = SETTINGS.iter().map(|name| format!("etc/tollgate/{name}"));
    let others = [
        "usr/bin/tollgate",
        "usr/share/bash-completion/completions/tollgate",
        "usr/share/zsh/vendor-completions/_tollgate",
        "usr/share/fish/vendor_completions.d/tollgate.fish",
        "usr/share/tollgate/envoy/envoy.yaml",
        "usr/share/tollgate/nginx/tollgate.conf",
        "usr/share/tollgate/kafka/server.properties",
        "usr/share/tollgate/kafka/acls.sh",
        "usr/share/tollgate/prometheus/rules.yaml",
        "usr/share/tollgate/grafana/tollgate.json",
    ];
    pages.chain(units).chain(settings).chain(others.map(str::to_owned)).collect()
}

impl Packages {
    /// Packages the binary of this build.
    fn make() -> Self {
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("package");
        let _ = fs::remove_dir_all(&out);
        let mut script = Command::new("../scripts/package");
        script.args(["--binary", env!("CARGO_BIN_EXE_tollgate"), "--out"]).arg(&out).stdin(Stdio::null());
        let made = finish(script.stdout(Stdio::piped()).stderr(Stdio::piped()));
        assert_eq!(made.exit, 0, "{}{}", made.out, made.err);
        let made: Vec<&str> = made.out.lines().collect();
        let [tarball, deb] = made[..] else { panic!("two files: {made:?}") };
        Self { deb: deb.to_owned(), tarball: tarball.to_owned() }
    }

    fn assert_both_contain_the_same_files_of_root(&self) {
        let in_deb = files_of(&run("dpkg-deb", "dpkg", &["-c", &self.deb]));
        let expected = expected_files();
        let missing: Vec<_> = expected.difference(&in_deb).collect();
        assert!(missing.is_empty(), "{missing:?} not in {in_deb:?}");
        let in_tarball = files_of(&run("tar", "tar", &["-tvf", &self.tarball]));
        let (top, _) = self.tarball.rsplit_once('/').unwrap().1.split_once(".tar.gz").unwrap();
        let in_tarball = in_tarball.iter().map(|path| path.strip_prefix(top).and_then(|path| path.strip_prefix('/')));
        let in_tarball: BTreeSet<_> = in_tarball.map(|path| path.expect("one folder").to_owned()).collect();
        let only_deb = in_deb.into_iter().filter(|path| !path.starts_with("usr/share/doc/"));
        let only_tarball = ["LICENSE", "README.md"].map(str::to_owned);
        assert_eq!(in_tarball, only_deb.chain(only_tarball).collect());
    }

    fn assert_control_is_complete(&self) {
        let field = |name: &str| {
            let format = format!("--showformat=${{{name}}}");
            run("dpkg-deb", "dpkg", &["--show", &format, &self.deb])
        };
        assert_eq!((&*field("Package"), &*field("Version")), ("tollgate", env!("CARGO_PKG_VERSION")));
        assert!(field("Depends").contains("libc6 (>= 2."), "{}", field("Depends"));
        assert_eq!(field("Depends").contains("libssl3"), cfg!(feature = "kafka-tls"), "{}", field("Depends"));
        assert!(!field("Architecture").is_empty() && field("Maintainer").contains('@'));
        let control = tempfile::tempdir().unwrap();
        run("dpkg-deb", "dpkg", &["-e", &self.deb, control.path().to_str().unwrap()]);
        // dpkg asks before it replaces a changed file of this list.
        let settings = fs::read_to_string(control.path().join("conffiles")).unwrap();
        assert_eq!(settings.lines().collect::<Vec<_>>(), SETTINGS.map(|name| format!("/etc/tollgate/{name}")));
        for script in ["postinst", "prerm", "postrm"] {
            run("sh", "dash", &["-n", control.path().join(script).to_str().unwrap()]);
        }
    }
}

impl Unpacked {
    fn new(packages: &Packages) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        run("dpkg-deb", "dpkg", &["-x", &packages.deb, folder.path().to_str().unwrap()]);
        let unpacked = Self(folder);
        for name in SETTINGS {
            let path = unpacked.0.path().join("etc/tollgate").join(name);
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, unpacked.moved(&text)).unwrap();
        }
        unpacked
    }

    /// Replaces the folders of an installation by those of this one.
    fn moved(&self, text: &str) -> String {
        let root = self.0.path().to_str().unwrap();
        let folders = ["/usr/bin/", "/etc/tollgate/"].iter();
        folders.fold(text.replace("%S", &format!("{root}/state")), |text, folder| {
            text.replace(folder, &format!("{root}{folder}"))
        })
    }

    fn unit(&self, name: &str) -> Unit {
        Unit::read(&self.0.path().join(format!("usr/lib/systemd/system/{name}.service")))
    }

    /// Command of a unit as a user without rights runs it, with the unit's variables and its own folder for state.
    fn command(&self, name: &str, unit: &Unit) -> Command {
        let state = self.0.path().join("state").join(unit.value("StateDirectory"));
        fs::create_dir_all(&state).unwrap();
        let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
        let user = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"), "--clear-groups".to_owned()];
        let words = self.moved(unit.value("ExecStart"));
        let mut words: Vec<&str> = words.split(' ').collect();
        if is_root {
            run("setpriv", "util-linux", &["--version"]);
            chown(&state, Some(NOBODY), Some(NOBODY)).unwrap();
            let user = user.iter().map(String::as_str);
            words = ["setpriv"].into_iter().chain(user).chain(words).collect();
        }
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env_clear().env("PATH", "/usr/bin:/bin");
        for variable in unit.values("Environment") {
            let (name, value) = variable.split_once('=').unwrap_or_else(|| panic!("{name}: {variable}"));
            command.env(name, self.moved(value));
        }
        command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

impl Unit {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with(['#', '[']));
        let entry = |line: &str| line.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        Self(lines.map(|line| entry(line).unwrap_or_else(|| panic!("{}: {line}", path.display()))).collect())
    }

    fn values(&self, key: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(known, _)| known == key).map(|(_, value)| &**value)
    }

    /// First value of a key.
    fn value(&self, key: &str) -> &str {
        self.values(key).next().unwrap_or_else(|| panic!("no {key}"))
    }
}

/// The one test that packages the binary, which takes seconds.
#[test]
fn the_package_installs_services_that_answer_a_user_without_rights() {
    let packages = Packages::make();
    packages.assert_both_contain_the_same_files_of_root();
    packages.assert_control_is_complete();
    let unpacked = Unpacked::new(&packages);

    let unit = unpacked.unit("tollgate-agent");
    let up = Up::of(unpacked.command("tollgate-agent", &unit).args(["--http", "127.0.0.1:0"]));
    let mut client = up.client();
    let health = client.get("/healthz", &[]).json();
    assert_eq!((&health["status"], &health["rules_error"]), (&"ok".into(), &serde_json::Value::Null), "{health}");
    let answer = client.check("k1");
    assert_eq!((answer.status, answer.header("x-ratelimit-remaining")), (200, "99"));
    up.signal("TERM");
    let (status, log) = up.end();
    assert!(status.success() && !log.contains("ERROR") && !log.contains("cannot"), "{status}: {log}");

    let unit = unpacked.unit("tollgate-aggregator");
    let refused = finish(&mut unpacked.command("tollgate-aggregator", &unit));
    assert_eq!((refused.exit, &*refused.err), (2, "error: an aggregator needs --kafka BROKERS\n"), "{}", refused.out);
    let mut with_kafka = unpacked.command("tollgate-aggregator", &unit);
    let up = Up::of(with_kafka.args(["--http", "127.0.0.1:0"]).env("TOLLGATE_KAFKA", "127.0.0.1:1"));
    assert_eq!(up.client().get("/healthz", &[]).status, 200);
}

#[test]
fn units_leave_no_rights_and_are_accepted_by_systemd() {
    for name in UNITS {
        let path = format!("../deploy/{name}.service");
        let unit = Unit::read(Path::new(&path));
        for (key, value) in HARDENED {
            assert_eq!(unit.value(key), value, "{name}: {key}");
        }
        for key in ["Description", "ExecReload", "Restart", "LimitNOFILE", "WantedBy"] {
            assert!(!unit.value(key).is_empty(), "{name}: {key}");
        }
        let state = format!("TOLLGATE_STATE_DIR=%S/{}", unit.value("StateDirectory"));
        assert!(unit.values("Environment").any(|variable| variable == state), "{name}: the process knows its folder");
        assert_eq!(unit.value("Documentation"), format!("man:{name}(1)"));
        // Where systemd is missing, the keys above are all that is checked. The program of the unit must exist.
        let text = fs::read_to_string(path).unwrap().replace("/usr/bin/tollgate", env!("CARGO_BIN_EXE_tollgate"));
        let copy = file(&format!("{name}.service"), &text);
        if let Ok(verified) = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(copy).output() {
            let (out, err) = (String::from_utf8_lossy(&verified.stdout), String::from_utf8_lossy(&verified.stderr));
            assert!(verified.status.success() && err.is_empty(), "{out}{err}");
        }
    }
}

/// Removes the mark of a setting that a file proposes in a comment. A comment of text has a blank after its mark.
fn proposed(line: &str) -> String {
    let Some((indent, rest)) = line.split_once('#').filter(|(before, _)| before.trim().is_empty()) else {
        return line.to_owned();
    };
    let is_setting = rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '-');
    let is_inside = !indent.is_empty() && rest.starts_with("  ");
    if is_setting || is_inside { format!("{indent}{rest}") } else { String::new() }
}

/// Each setting that the files propose in a comment is one that the command accepts.
#[test]
fn proposed_settings_and_rules_are_valid() {
    let [agent, aggregator, rules] = SETTINGS.map(|name| {
        let text = fs::read_to_string(format!("../deploy/etc/{name}")).unwrap();
        file(&format!("proposed/{name}"), &text.lines().map(proposed).collect::<Vec<_>>().join("\n"))
    });
    for (command, path) in [("agent", agent), ("aggregator", aggregator)] {
        let shown = finish(&mut tollgate(&["config", "--config", path.to_str().unwrap(), command]));
        assert_eq!(shown.exit, 0, "{command}: {}", shown.err);
        assert!(shown.out.contains("broker-1:9092,broker-2:9092"), "{}", shown.out);
    }
    for (path, count) in [(rules.to_str().unwrap(), 2), ("../deploy/etc/rules.yaml", 1)] {
        let valid = finish(&mut tollgate(&["rules", "validate", path]));
        let plural = if count == 1 { "" } else { "s" };
        assert_eq!(valid.exit, 0, "{}", valid.err);
        assert!(valid.err.ends_with(&format!("valid, {count} rule{plural}, 0 warnings\n")), "{}", valid.err);
    }
}
