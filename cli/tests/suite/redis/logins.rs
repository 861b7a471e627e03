//! Users and passwords of Redis: where they come from, their replacement while an agent runs, and refused logins.

use std::net::UdpSocket;

use tollgate_servers::{Redis, finish};

use super::{Log, agent, wait_for_store};
use crate::support::{Up, file, tollgate};

/// Password with characters that separate the parts of an address.
const PASSWORD: &str = "p@s:s/w?r#d,1é%";

fn with_password() -> Redis {
    Redis::start_with(&["--requirepass", PASSWORD])
}

/// D7: a password with any character comes from the address, the variable, or a file.
#[test]
fn a_password_comes_from_the_address_the_variable_or_a_file() {
    let redis = with_password();
    let in_address = redis.url().replace("redis://", &format!("redis://:{PASSWORD}@"));
    let password_file = file("redis-password", &format!("{PASSWORD}\nnot read\n")).display().to_string();
    let args = ["agent", "--http", "127.0.0.1:0", "--limit", "9/h per api_key"];
    for (url, variable, flags) in [
        (&in_address, None, &[][..]),
        (&redis.url(), Some(("TOLLGATE_REDIS_PASSWORD", PASSWORD)), &[]),
        (&redis.url(), None, &["--redis-password-file", &password_file]),
    ] {
        let mut command = tollgate(&args);
        wait_for_store(&Up::of(command.args(flags).env("TOLLGATE_REDIS", url).envs(variable)));
    }
    let refused = finish(tollgate(&args).args(["--redis", &redis.url(), "--redis-password", "x"]));
    assert_eq!(refused.exit, 2);
    assert!(refused.err.contains("put it into TOLLGATE_REDIS_PASSWORD"), "{}", refused.err);
    let twice =
        finish(tollgate(&args).args(["--redis-password-file", &password_file]).env("TOLLGATE_REDIS", &in_address));
    assert!(twice.exit == 2 && twice.err.contains("the password of Redis is given twice"), "{}", twice.err);
    assert!(!twice.err.contains(PASSWORD));
}

/// A user of an ACL, whose password is replaced while the agent runs: the agent goes on once its file has the new one.
#[test]
fn a_replaced_password_is_read_from_its_file_without_a_restart() {
    let redis = Redis::start();
    let acl = |rule: &str| assert_eq!(redis.command(&format!("ACL SETUSER limits {rule}")), "+OK");
    acl("on >first ~* +@all");
    let password_file = file("rotated-password", "first");
    let path = password_file.display().to_string();
    let mut agent = agent(&redis.url(), &["--redis-user", "limits", "--redis-password-file", &path]);
    let mut log = Log::of(&mut agent);
    wait_for_store(&agent);
    acl("resetpass >second");
    assert!(redis.command("CLIENT KILL USER limits").starts_with(':'));
    let told = log.line("Password authentication failed");
    assert!(told.contains(&redis.url()) && told.contains(&format!("which came from {path}")), "{told}");
    std::fs::write(&password_file, "second").expect("a file is written");
    log.line("connected to Redis");
    wait_for_store(&agent);
}

/// A Redis without a password that answers only to its own machine. Both remedies of the line work.
#[test]
fn protected_mode_is_named_with_two_remedies() {
    // The address of this machine for others: nothing is sent.
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    socket.connect("192.0.2.1:9").expect("a network besides loopback, over which Redis is asked");
    let host = socket.local_addr().expect("an address").ip();
    for remedy in ["CONFIG SET requirepass secret", "CONFIG SET protected-mode no"] {
        let redis = Redis::start_with(&["--bind", "0.0.0.0"]);
        let url = format!("redis://{host}:{}", redis.port());
        let password_file = file("protected-password", "");
        let path = password_file.display().to_string();
        let mut agent = agent(&url, &["--redis-password-file", &path]);
        let told = Log::of(&mut agent).line("protected mode");
        let named = remedy.trim_end_matches(" secret");
        assert!(told.contains(&url) && told.contains(named), "{told}");
        assert_eq!(redis.command(remedy), "+OK");
        if remedy.contains("requirepass") {
            std::fs::write(&password_file, "secret").expect("a file is written");
        }
        wait_for_store(&agent);
    }
}
