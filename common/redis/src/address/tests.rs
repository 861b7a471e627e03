//! Addresses in all their forms.

use super::*;

fn shown(url: &str) -> Result<String, String> {
    RedisAddress::parse(url).map(|address| address.to_string()).map_err(|error| error.to_string())
}

/// D7: one server, several, Sentinel, TLS, IPv6 and a Unix socket have an address each.
#[test]
fn addresses_are_shown_without_the_password() {
    for (url, expected) in [
        ("redis://:secret@10.0.0.5", "redis://10.0.0.5:6379"),
        ("redis://user:secret@host:7000/3", "redis://host:7000"),
        ("REDISS://:secret@host", "rediss://host:6379"),
        ("valkeys://host", "rediss://host:6379"),
        ("redis://u:secret@a,b:7000,[::1],[2001:db8::1]:7001/2", "redis://a:6379,b:7000,[::1]:6379,[2001:db8::1]:7001"),
        ("redis://[fe80::1%eth0]:7000", "redis://[fe80::1%eth0]:7000"),
        ("redis+sentinel://:secret@s1,s2:7000/main", "redis+sentinel://s1:26379,s2:7000/main"),
        ("rediss+sentinel://s1/main/3", "rediss+sentinel://s1:26379/main"),
        ("unix:///run/redis.sock?pass=secret", "unix:///run/redis.sock"),
        ("redis+unix:///run/redis%20a.sock", "unix:///run/redis a.sock"),
    ] {
        assert_eq!(shown(url).as_deref(), Ok(expected), "{url}");
    }
}

/// A database in a query went unread, and database 0 was used.
#[test]
fn a_part_of_an_address_is_read_or_refused() {
    for (url, part) in [
        ("redis://h?db=3", "`?db=`"),
        ("redis://:secret@h:7000/2?timeout=secret", "`?timeout=`"),
        ("redis://h/3#secret", "`#`"),
        ("unix:///run/redis.sock?database=3&pass=secret", "`?database=`"),
        ("unix:///run/redis.sock?pass=a&secret", "write %26 for a &"),
        ("redis://secret@h", "redis://:password@host"),
        ("redis://secret:@h:7000/3", "redis://:password@host"),
        ("unix:///run/redis.sock?user=secret", "unix:///path?pass=password"),
        ("unix:///run/redis.sock?user=secret&pass=", "unix:///path?pass=password"),
    ] {
        let error = shown(url).expect_err(url);
        assert!(error.contains(part) && !error.contains("secret"), "{url}: {error}");
    }
    for (url, database) in [
        ("redis://h/3", 3),
        ("redis://h:/3/\n", 3),
        ("redis://user:password@host:6379/3", 3),
        ("redis+sentinel://s/main/3", 3),
        ("unix:///path?db=3&user=U&pass=P", 3),
        ("redis://:a%23@h", 0),
    ] {
        assert_eq!(RedisAddress::parse(url).expect(url).database, database, "{url}");
    }
}

/// Passwords may have any character; only a percent sign before two hexadecimal digits is escaped.
#[test]
fn passwords_may_have_any_character() {
    for (url, user, password) in [
        ("redis://u%3Av:a:b@h", Some("u:v"), "a:b"),
        ("redis://:p@ss/w?r#d,1@h,h2:7000/3", None, "p@ss/w?r#d,1"),
        ("redis://:100%25%41%@h", None, "100%A%"),
        ("redis://ü:é@h", Some("ü"), "é"),
        ("unix:///s?user=u&pass=a%26b=c+d@e", Some("u"), "a&b=c+d@e"),
    ] {
        let address = RedisAddress::parse(url).expect(url);
        assert_eq!((address.user.as_deref(), address.password.as_deref()), (user, Some(password)), "{url}");
    }
}

#[test]
fn an_unusable_address_is_refused_without_quoting_it() {
    for url in [
        "",
        "10.0.0.5",
        "http://:secret@host",
        "redis://:secret@host/x",
        "redis://:secret@h:99999",
        "redis://:secret@h:0",
        "redis://:secret@",
        "redis://h,,i",
        "redis://::1",
        "redis://[::1",
        "redis://[secret]",
        "redis://[::1]7000",
        "redis+sentinel://h",
        "redis+sentinel://:secret@h/",
        "unix:",
        "unix://secret",
        "redis://:%ff@h",
    ] {
        let error = shown(url).expect_err(url);
        assert!(error.contains("not the address of a Redis") && !error.contains("secret"), "{url}: {error}");
    }
}
