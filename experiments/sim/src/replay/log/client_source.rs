//! Addresses of a line beside its client.

use super::address::LoggedClient;
use super::log_call::{AddressField, AddressKind, LogCall};

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
