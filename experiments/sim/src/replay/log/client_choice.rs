//! Choice of a call's client among the addresses of its line.
//!
//! A wrong client makes every figure of a report wrong, and nobody notices it. So several addresses that differ are refused unless
//! exactly one of them is public, and the user can say which one is meant.

use std::str::FromStr;

use tollgate_core::one_line::excerpt;

use super::address::{self, LoggedClient, is_private};
use super::log_call::{AddressField, AddressKind, LogCall};

/// Reason for a line without the list that `--client` chooses.
const NO_LIST: &str = "the line has no X-Forwarded-For, from which --client takes the client; choose another field, or leave out \
                       calls that no proxy has passed on, such as health checks";

/// Address of a line that is the client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClientChoice {
    /// The address by which the server knows the client. Of several, the one that is public.
    #[default]
    Known,
    /// The first address of the line.
    First,
    /// The first address of `X-Forwarded-For`: what the client says of itself.
    FirstForwarded,
    /// The last address of `X-Forwarded-For`: what the nearest proxy says of the client.
    LastForwarded,
    /// The field with this name.
    Field(String),
}

impl FromStr for ClientChoice {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "first" => Self::First,
            "first-forwarded" => Self::FirstForwarded,
            "last-forwarded" => Self::LastForwarded,
            field => Self::Field(field.to_owned()),
        })
    }
}

impl ClientChoice {
    /// Returns the client of a call; nothing if the call needs none.
    ///
    /// # Errors
    /// With the field that is missing, or looks wrong.
    pub(super) fn client(&self, call: &LogCall<'_>) -> Result<Option<LoggedClient>, String> {
        let of_kind = |kind: AddressKind| call.addresses.iter().filter(move |field| field.kind == kind);
        let chosen = match self {
            Self::Field(name) => match call.addresses.iter().find(|field| *field.name == **name) {
                Some(field) => one_of(&[field]),
                None => Err(no_field(name, call)),
            },
            Self::First => match call.addresses.iter().find(|field| field.kind != AddressKind::Other) {
                Some(field) => edge(field, false),
                None => Err(no_client(call)),
            },
            Self::FirstForwarded | Self::LastForwarded => match of_kind(AddressKind::Forwarded).next() {
                Some(field) => edge(field, *self == Self::LastForwarded),
                None => Err(NO_LIST.to_owned()),
            },
            Self::Known => known(call),
        };
        match chosen {
            Ok(client) => Ok(Some(client)),
            Err(_) if call.is_without_client && *self == Self::Known && call.addresses.is_empty() => Ok(None),
            Err(reason) => Err(reason),
        }
    }
}

fn known(call: &LogCall<'_>) -> Result<LoggedClient, String> {
    let fields: Vec<_> = call.addresses.iter().filter(|field| field.kind != AddressKind::Other).collect();
    if fields.is_empty() { Err(no_client(call)) } else { one_of(&fields) }
}

/// Returns the one client of some fields, or the one that is public.
fn one_of(fields: &[&AddressField<'_>]) -> Result<LoggedClient, String> {
    let mut clients: Vec<LoggedClient> = Vec::new();
    let mut wrong = None;
    for field in fields {
        if !address::is_host(&field.text) && address::ip_list(&field.text).is_none() {
            // Anybody can write nonsense into a header. It hides no client if the server itself knows a public one.
            let is_of_server = field.kind == AddressKind::Client || fields.len() == 1;
            wrong = wrong.filter(|(_, is_of_server)| *is_of_server).or(Some((*field, is_of_server)));
        }
        for client in field.clients() {
            if !clients.contains(&client) {
                clients.push(client);
            }
        }
    }
    let public: Vec<&LoggedClient> = clients.iter().filter(|client| is_public(client)).collect();
    if let Some((field, is_of_server)) = wrong {
        let is_known = |client: &LoggedClient| {
            fields
                .iter()
                .any(|field| field.kind == AddressKind::Client && field.clients().any(|named| named == *client))
        };
        if is_of_server || !matches!(public[..], [client] if is_known(client)) {
            return Err(no_address(field));
        }
    }
    let candidates = if public.is_empty() { clients.iter().collect() } else { public };
    match candidates[..] {
        [] => Err("no address".to_owned()),
        [client] => Ok(client.clone()),
        [first, .., last] => {
            let names: Vec<_> = fields.iter().map(|field| format!("`{}`", field.name)).collect();
            let has_list = fields.iter().any(|field| field.kind == AddressKind::Forwarded);
            let choices = if has_list { "first, last-forwarded" } else { "first" };
            Err(format!(
                "{first} and {last} may be the client ({}); choose with --client {choices} or a field's name",
                names.join(", ")
            ))
        }
    }
}

fn is_public(client: &LoggedClient) -> bool {
    match client {
        LoggedClient::Ip(ip) => !is_private(*ip),
        LoggedClient::Host(name) => name != "localhost",
    }
}

/// Returns the first or the last address of a list.
fn edge(field: &AddressField<'_>, is_last: bool) -> Result<LoggedClient, String> {
    if address::is_host(&field.text) {
        return Ok(LoggedClient::Host(field.text.to_ascii_lowercase()));
    }
    let mut parts = field.text.split(',');
    let part = if is_last { parts.next_back() } else { parts.next() };
    part.and_then(address::ip).map(LoggedClient::Ip).ok_or_else(|| no_address(field))
}

fn no_address(field: &AddressField<'_>) -> String {
    let is_of_server = field.kind == AddressKind::Client && !field.text.starts_with("unix:");
    let remedy = if is_of_server { "" } else { "; choose another field with --client" };
    format!("the client (`{}`) is `{}`, which is no address{remedy}", field.name, excerpt(&field.text))
}

fn no_client(call: &LogCall<'_>) -> String {
    let others: Vec<_> = call.addresses.iter().map(|field| format!("`{}`", field.name)).collect();
    match &others[..] {
        [] => "the line has no address of a client".to_owned(),
        others => format!("the line has no address of a client beside {}", others.join(", ")),
    }
}

fn no_field(name: &str, call: &LogCall<'_>) -> String {
    let known: Vec<_> = call.addresses.iter().map(|field| format!("`{}`", field.name)).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    format!("no field `{}` with an address; the line has {known}", excerpt(name))
}

#[cfg(test)]
mod tests {
    use super::AddressKind::{Client, Forwarded, Header, Other};
    use super::*;

    fn chosen(choice: &str, fields: &[(AddressKind, &'static str)]) -> Result<String, String> {
        let mut call = LogCall::default();
        for (number, (kind, text)) in fields.iter().enumerate() {
            call.add_address(*kind, ["a", "b", "c"][number], *text);
        }
        let choice = if choice.is_empty() { ClientChoice::Known } else { choice.parse().unwrap() };
        choice.client(&call).map(|client| client.map_or_else(String::new, |client| client.to_string()))
    }

    #[test]
    fn the_client_is_the_only_address_or_the_only_public_one() {
        let (client, other, balancer) = ("203.0.113.7", "198.51.100.9", "10.0.0.3");
        for (choice, fields, expected) in [
            ("", &[(Client, client)][..], Some(client)),
            ("", &[(Client, "203.0.113.7:80")], Some(client)),
            ("", &[(Client, client), (Client, balancer)], Some(client)),
            ("", &[(Client, balancer), (Client, client)], Some(client)),
            ("", &[(Client, client), (Client, client)], Some(client)),
            ("", &[(Client, client), (Client, other)], None),
            ("", &[(Client, balancer), (Client, "192.168.0.1")], None),
            ("", &[(Client, balancer), (Forwarded, client)], Some(client)),
            ("", &[(Client, balancer), (Forwarded, "203.0.113.7, 198.51.100.9")], None),
            ("", &[(Client, balancer), (Forwarded, "203.0.113.7, evil")], None),
            ("", &[(Client, balancer), (Forwarded, "192.168.0.1")], None),
            ("", &[(Client, balancer), (Header, client)], Some(client)),
            ("", &[(Client, client), (Forwarded, other)], None),
            ("", &[(Client, client), (Forwarded, "203.0.113.7, 10.0.0.3")], Some(client)),
            ("", &[(Client, client), (Forwarded, "evil")], Some(client)),
            ("", &[(Client, client), (Forwarded, "198.51.100.9, evil")], None),
            ("", &[(Client, client), (Header, other)], None),
            ("", &[(Client, "-"), (Header, client), (Forwarded, other)], None),
            ("", &[(Client, "8.8.8.8"), (Forwarded, "9.9.9.9")], None),
            ("", &[(Client, balancer), (Forwarded, "9.9.9.9")], Some("9.9.9.9")),
            ("", &[(Client, "lb.example.com"), (Forwarded, client)], None),
            ("", &[(Client, "-"), (Forwarded, client)], Some(client)),
            ("", &[(Forwarded, "203.0.113.7, 10.0.0.3")], Some(client)),
            ("", &[(Forwarded, "unknown, 203.0.113.7")], Some(client)),
            ("", &[(Forwarded, "203.0.113.7, 198.51.100.9")], None),
            ("", &[(Client, "host.example.com")], Some("host.example.com")),
            ("", &[(Client, "unix:")], None),
            ("", &[(Client, "evil")], None),
            ("", &[(Other, client)], None),
            ("", &[], None),
            ("first", &[(Client, client), (Client, other)], Some(client)),
            ("first", &[(Forwarded, "203.0.113.7, 198.51.100.9")], Some(client)),
            ("first-forwarded", &[(Client, balancer), (Forwarded, "203.0.113.7, 198.51.100.9")], Some(client)),
            ("last-forwarded", &[(Client, balancer), (Forwarded, "203.0.113.7, 198.51.100.9")], Some(other)),
            ("last-forwarded", &[(Client, client), (Forwarded, "-")], None),
            ("first-forwarded", &[(Client, client), (Header, other)], None),
            ("last-forwarded", &[(Client, balancer), (Forwarded, "203.0.113.7, evil")], None),
            ("b", &[(Client, balancer), (Other, client)], Some(client)),
            ("c", &[(Client, client)], None),
        ] {
            assert_eq!(chosen(choice, fields).ok().as_deref(), expected, "{choice} {fields:?}");
        }
    }

    #[test]
    fn a_refusal_names_the_field_and_the_remedy() {
        for (choice, fields, said) in [
            ("", &[(Client, "203.0.113.7"), (Client, "198.51.100.9")][..], "(`a`, `b`); choose with --client first or"),
            ("", &[(Client, "203.0.113.7"), (Forwarded, "198.51.100.9")], "--client first, last-forwarded or"),
            ("", &[(Client, "evil\u{1b}[2J")], "the client (`a`) is `evil\\u{1b}[2J`, which is no address"),
            ("", &[(Client, "unix:")], "choose another field with --client"),
            (
                "",
                &[(Client, "10.0.0.3"), (Forwarded, "evil, 9.9.9.9")],
                "(`b`) is `evil, 9.9.9.9`, which is no address; choose",
            ),
            ("x", &[(Client, "203.0.113.7")], "no field `x` with an address; the line has `a`"),
        ] {
            let reason = chosen(choice, fields).unwrap_err();
            assert!(reason.contains(said), "{reason}");
        }
    }
}
