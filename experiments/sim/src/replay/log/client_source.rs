//! Source of a call's client: the fields that name it, and the other addresses of the line.

use serde::Serialize;

use super::address::LoggedClient;
use super::log_call::{AddressField, AddressKind, LogCall};

/// Fields that name a client, and the addresses that were passed over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClientSource {
    fields: Vec<String>,
    passed_over: Vec<PassedAddress>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct PassedAddress {
    address: String,
    field: String,
}

impl ClientSource {
    pub(in crate::replay) fn of(call: &LogCall<'_>, client: &LoggedClient) -> Self {
        let naming = call.addresses.iter().filter(|field| field.clients().any(|named| named == *client));
        let passed = passed_over(call, client)
            .map(|(field, other)| PassedAddress { address: other.to_string(), field: field.name.to_string() });
        Self { fields: naming.map(|field| field.name.to_string()).collect(), passed_over: passed.collect() }
    }

    /// Returns the names and the values of rows for a user.
    pub(in crate::replay) fn rows(&self) -> impl Iterator<Item = (&'static str, String)> {
        let passed =
            self.passed_over.iter().map(|passed| ("passed over", format!("{} ({})", passed.address, passed.field)));
        std::iter::once(("ip from", self.fields.join(", "))).chain(passed)
    }
}

/// Returns the other addresses of a line with their fields.
pub(in crate::replay) fn passed_over<'c, 'a>(
    call: &'c LogCall<'a>,
    client: &'c LoggedClient,
) -> impl Iterator<Item = (&'c AddressField<'a>, LoggedClient)> {
    let others = call.addresses.iter().flat_map(|field| field.clients().map(move |named| (field, named)));
    // The name of the server is no client.
    let is_server =
        |field: &AddressField<'_>, named: &LoggedClient| field.kind == AddressKind::Other && named.is_host();
    others.filter(move |(field, named)| named != client && !is_server(field, named))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_is_each_field_with_the_client_and_each_other_address() {
        let mut call = LogCall::default();
        call.add_address(AddressKind::Other, "server", "example.com");
        call.add_address(AddressKind::Client, "first", "10.0.0.3:80");
        call.add_address(AddressKind::Forwarded, "x_forwarded_for", "203.0.113.7, 10.0.0.4");
        call.add_address(AddressKind::Header, "x_real_ip", "203.0.113.7");
        let source = ClientSource::of(&call, &LoggedClient::Ip("203.0.113.7".parse().unwrap()));
        let rows = source.rows().map(|(name, value)| format!("{name}: {value}"));
        let expected = [
            "ip from: x_forwarded_for, x_real_ip",
            "passed over: 10.0.0.3 (first)",
            "passed over: 10.0.0.4 (x_forwarded_for)",
        ];
        assert_eq!(rows.collect::<Vec<_>>(), expected);
    }
}
