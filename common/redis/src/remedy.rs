//! Classes of the errors of a Redis, and the remedy of each: a line in the log tells an operator what to do.

use redis::{ErrorKind, RedisError};
use tollgate_core::counter::StoreError;

/// Commands that Tollgate sends, or that its scripts call, as rules of an ACL.
macro_rules! commands {
    () => {
        "+select +role +asking +cluster|slots +cluster|info +eval +evalsha +time +info +get +set +del +append +getrange +setrange +pttl +pexpire +hget +hmget +hset +hdel \
         +zadd +zrem +zscore +zrangebyscore +zremrangebyscore"
    };
}

/// Text of the error of a connection on which an answer does not end.
pub(crate) const ANSWER_TOO_LONG: &str = "an answer is longer than 8 MiB";

/// Key of Tollgate that holds no counter.
#[derive(Debug)]
pub(crate) struct OwnKey {
    pub(crate) name: String,
    /// Sentence part that follows the deletion of the key.
    pub(crate) after_deletion: &'static str,
}

/// Code of an error, and its class.
pub(crate) fn classify<'a>(error: &'a RedisError, text: &str) -> (&'a str, StoreError) {
    if is_too_long(error) {
        return ("TOO-LONG", StoreError::AnswerLost);
    }
    if error.is_io_error() || is_unreadable(error) {
        return ("BROKEN", StoreError::AnswerLost);
    }
    // Before version 7 the errors of a script's commands are inside another error's text.
    if text.contains("OOM command not allowed") || error.code() == Some("OOM") {
        return ("OOM", StoreError::Full);
    }
    let code = if error.kind() == ErrorKind::AuthenticationFailed { Some("WRONGPASS") } else { error.code() };
    match code.unwrap_or("ERR") {
        code @ ("UNREADABLE" | "WRONGTYPE") => (code, StoreError::Unreadable),
        "ERR" | "ResponseError" => (of_text(text), StoreError::Refused),
        code => (code, StoreError::Refused),
    }
}

/// Returns true if the answer tells that the primary is another server now, that this one has been restarted, or that it wants a
/// login. A connection to it stays open all the same.
pub(crate) fn has_moved(error: &RedisError) -> bool {
    const CODES: [&str; 4] = ["READONLY", "MASTERDOWN", "LOADING", "NOAUTH"];
    // Before version 7 the errors of a script's commands are inside another error's text.
    let is_in_text = || {
        let text = error.to_string();
        CODES.iter().any(|code| text.split(|c: char| !c.is_ascii_uppercase()).any(|word| word == *code))
    };
    error.code().is_some_and(|code| CODES.contains(&code))
        || error.code().is_none_or(|code| code == "ERR") && is_in_text()
}

/// Returns true if the connection was given up because an answer did not end.
pub(crate) fn is_too_long(error: &RedisError) -> bool {
    error.is_io_error() && error.to_string().contains(ANSWER_TOO_LONG)
}

/// Returns true if the answer does not have the form that was expected.
pub(crate) fn is_unreadable(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Parse | ErrorKind::UnexpectedReturnType)
}

/// Code of an error that Redis itself gives none.
fn of_text(text: &str) -> &'static str {
    let lower = text.to_ascii_lowercase();
    let has = |part: &str| lower.contains(part);
    if has("permissions") || has("user executing the script") {
        "NOPERM"
    } else if has("cluster support disabled") {
        "NO-CLUSTER"
    } else if has("switch database") {
        "DATABASE"
    } else if has("unknown command") || has("unknown redis command") {
        "COMMAND"
    } else {
        "ERR"
    }
}

pub(crate) fn remedy(code: &str) -> &'static str {
    match code {
        "CONNECT" => "check the address, and that the server runs and accepts connections from this machine",
        "BROKEN" => "none if the server was restarted; a new connection is made",
        "NO-LOGIN" => "check that the address is that of a Redis; write rediss:// if the server speaks TLS",
        "NO-REDIS" => {
            "give the address of a Redis; another kind of server listens at this one, or a Redis with TLS, whose address begins with rediss://"
        }
        "FILE" => "correct the file; it is read again for the next attempt",
        "TLS-ISSUER" => {
            "name a file with the issuers of the server's certificate: --redis-ca FILE, in PEM; or install them on this machine"
        }
        "TLS-VALIDITY" => "renew the certificate of the server, or correct the clock of this machine",
        "TLS-NAME" => {
            "connect by a name or an address that the certificate of the server has, or add this one to the certificate (subjectAltName); Sentinels name servers by address, unless they have resolve-hostnames and announce-hostnames"
        }
        "TLS-CLIENT" => {
            "give a certificate that the server's issuers have signed: --redis-cert FILE and --redis-key FILE; or set tls-auth-clients no at the server"
        }
        "TLS-NONE" => {
            "write redis:// for a port without TLS, or give the port of the server that speaks TLS (its setting tls-port); for a slow network, raise --redis-connect-timeout"
        }
        "TLS" => {
            "check the TLS settings of the server: TLS 1.3 is spoken, and TLS 1.2 with ECDHE and AES-GCM or ChaCha20"
        }
        "SENTINEL" => {
            "write redis+sentinel://host:26379,host:26379/NAME for Sentinels, or give the address of the Redis itself"
        }
        "NO-SENTINEL" => "give the addresses of the Sentinels (port 26379), or write redis:// for a Redis itself",
        "SENTINEL-NAME" => "write the name that the Sentinels watch behind their addresses; SENTINEL MASTERS shows it",
        "SENTINEL-LOGIN" => {
            "give the password of the Sentinels: --redis-sentinel-password-file FILE, with --redis-sentinel-user NAME for a user who may run SENTINEL MASTER; or leave it out, if they have none"
        }
        "SENTINEL-TLS" => {
            "check that the addresses are those of Sentinels; write rediss+sentinel:// if they and the Redis speak TLS, and redis+sentinel:// if not"
        }
        "SENTINEL-OLD" => {
            "none, if the newer Sentinels come back within 10 s or these were set up anew; else end the Sentinels that name an old primary"
        }
        "NOREPLICAS" => {
            "start a replica, or lower min-replicas-to-write; after a fail-over, give the addresses of all servers, or those of the Sentinels"
        }
        "DENIED" => {
            "the server is in protected mode and has no password: set one (CONFIG SET requirepass), and put it into the address; or, in a network that only gateways reach, CONFIG SET protected-mode no"
        }
        "TOO-LONG" => {
            "check that the address is that of a Redis, and that nothing between agent and server changes the answers"
        }
        "UNREADABLE-ANSWER" => "check that nothing between agent and server changes the answers",
        "OOM" => "raise the server's maxmemory, or give limits a Redis of their own",
        "NOAUTH" | "WRONGPASS" => {
            "give the password that the server has: --redis-password-file FILE, which is read again for each attempt, or in the address: redis://user:password@host; or leave it out, if the server has none"
        }
        "NOPERM" => concat!(
            "allow this user the commands and keys of Tollgate (tollgate:* unless --redis-prefix names others): ACL SETUSER name ~tollgate:* ",
            commands!()
        ),
        "DATABASE" => {
            "give a database that the server has: a number below its setting databases, by default redis://host/0 to redis://host/15; a node of a cluster has only 0"
        }
        "COMMAND" => concat!(
            "remove rename-command for the commands of Tollgate from the server's configuration and restart it, or give limits a Redis of their own, version 5 or newer; the commands are: ",
            commands!()
        ),
        "LOADING" => "none: the server is loading its data",
        "BUSY" => "another client's script runs too long; SCRIPT KILL ends it",
        "READONLY" | "MASTERDOWN" => {
            "none after a fail-over: the agent connects anew and resolves the name again; else give the address of the primary, or those of all servers: redis://host,host"
        }
        "CROSSSLOT" => {
            "write redis+cluster://host,host for the nodes of a cluster; behind a proxy in front of one, start all agents with --redis-slots multi"
        }
        "MOVED" | "ASK" | "TRYAGAIN" => {
            "the server is a node of a cluster: write redis+cluster://host,host in place of redis://, in the settings of all agents"
        }
        "CLUSTERDOWN" => {
            "redis-cli --cluster check host:port names the slots that no primary serves; start their nodes, or assign them with redis-cli --cluster fix host:port"
        }
        "NO-CLUSTER" => {
            "write redis://host for a Redis that is no node of a cluster, or set cluster-enabled yes at the server"
        }
        "NO-SLOTS" => "join the nodes and assign all slots: redis-cli --cluster create host:port host:port host:port",
        "MISCONF" => "repair its snapshots, or set stop-writes-on-bgsave-error no: counters need no persistence",
        "UNREADABLE" | "WRONGTYPE" => {
            "another version of Tollgate or another program wrote this key; delete it, or start all agents with another --redis-prefix"
        }
        _ => "correct what the answer names, or give limits a Redis of their own, version 5 or newer",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_a_cluster_have_a_remedy_that_works() {
        assert!(remedy("CROSSSLOT").contains("--redis-slots multi"));
        assert!(remedy("MOVED").contains("redis+cluster://"));
    }

    #[test]
    fn a_value_of_another_version_has_a_remedy() {
        assert!(["UNREADABLE", "WRONGTYPE"].iter().all(|code| remedy(code).contains("another version of Tollgate")));
    }

    /// MISCONF, NOREPLICAS, NOPERM and OOM are answers of a primary.
    #[test]
    fn only_answers_of_a_server_that_is_no_primary_end_the_connection() {
        let answer = |text: &str| RedisError::from((ErrorKind::Extension, "answer", text.to_owned()));
        for (text, moved) in [
            (
                "Error running script (call to f_1): @user_script:1: READONLY You can't write against a read only replica",
                true,
            ),
            ("MASTERDOWN Link with MASTER is down", true),
            ("LOADING Redis is loading the dataset in memory", true),
            ("MISCONF Redis is configured to save RDB snapshots", false),
            ("NOREPLICAS Not enough good replicas to write", false),
            ("NOPERM this user has no permissions", false),
            ("OOM command not allowed when used memory > 'maxmemory'", false),
        ] {
            assert_eq!(has_moved(&answer(text)), moved, "{text}");
        }
    }

    #[test]
    fn a_request_may_have_run_only_when_the_connection_broke() {
        let class = |error: &RedisError| classify(error, &error.to_string()).1;
        let broken = std::io::Error::from(std::io::ErrorKind::BrokenPipe).into();
        assert_eq!(class(&broken), StoreError::AnswerLost);
        let too_long = std::io::Error::new(std::io::ErrorKind::InvalidData, ANSWER_TOO_LONG).into();
        assert_eq!(classify(&too_long, ""), ("TOO-LONG", StoreError::AnswerLost));
        assert!(remedy("TOO-LONG").contains("the address is that of a Redis"));
        let answer = |text: &str| RedisError::from((ErrorKind::Extension, "answer", text.to_owned()));
        assert_eq!(
            class(&answer("Error running script: OOM command not allowed when used memory > 'maxmemory'")),
            StoreError::Full
        );
        assert_eq!(
            class(&answer("Error running script: READONLY You can't write against a read only replica")),
            StoreError::Refused
        );
    }
}
