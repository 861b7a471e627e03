//! Call as any format logs it, before its client is chosen.

use std::borrow::Cow;

use super::address::{self, LoggedClient, is_unknown};
use super::request_target::RequestTarget;

/// Meaning of a field that may hold the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::replay) enum AddressKind {
    /// The address by which the server knows the client.
    Client,
    /// A list that proxies and the client itself have written, as `X-Forwarded-For`.
    Forwarded,
    /// An address that a proxy, or the client itself, has written into another header, such as `X-Real-IP`.
    Header,
    /// Another part of the line, such as the server's name. It is the client only if the user says so.
    Other,
}

/// Field that may hold the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::replay) struct AddressField<'a> {
    pub(in crate::replay) name: Cow<'a, str>,
    pub(in crate::replay) text: Cow<'a, str>,
    pub(in crate::replay) kind: AddressKind,
}

/// Parts of a line that are relevant for rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::replay) struct LogCall<'a> {
    pub(in crate::replay) time_ms: u64,
    pub(in crate::replay) addresses: Vec<AddressField<'a>>,
    pub(in crate::replay) request: RequestTarget<'a>,
    pub(in crate::replay) status: Option<Cow<'a, str>>,
    pub(in crate::replay) user: Option<Cow<'a, str>>,
    pub(in crate::replay) user_agent: Option<Cow<'a, str>>,
    /// Descriptors with names that are no parts of a request.
    pub(in crate::replay) descriptors: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// Cost in units; one if nothing says another.
    pub(in crate::replay) cost: Option<u64>,
    /// True if the line lists the descriptors of the call itself, so it needs no client.
    pub(in crate::replay) is_without_client: bool,
}

impl AddressField<'_> {
    /// Returns the clients that the field can name: a host, or each address of a list.
    pub(in crate::replay) fn clients(&self) -> impl Iterator<Item = LoggedClient> {
        let host = address::is_host(&self.text).then(|| LoggedClient::Host(self.text.to_ascii_lowercase()));
        host.into_iter().chain(self.text.split(',').filter_map(address::ip).map(LoggedClient::Ip))
    }
}

impl<'a> LogCall<'a> {
    /// Adds a field that may hold the client, unless the log knows none.
    pub(in crate::replay) fn add_address(
        &mut self,
        kind: AddressKind,
        name: impl Into<Cow<'a, str>>,
        text: impl Into<Cow<'a, str>>,
    ) {
        let text = text.into();
        if !is_unknown(&text) {
            self.addresses.push(AddressField { name: name.into(), text, kind });
        }
    }

    pub(in crate::replay) fn into_owned(self) -> LogCall<'static> {
        let owned = |text: Cow<'a, str>| Cow::Owned(text.into_owned());
        let address = |field: AddressField<'a>| AddressField {
            name: owned(field.name),
            text: owned(field.text),
            kind: field.kind,
        };
        LogCall {
            time_ms: self.time_ms,
            addresses: self.addresses.into_iter().map(address).collect(),
            request: self.request.into_owned(),
            status: self.status.map(owned),
            user: self.user.map(owned),
            user_agent: self.user_agent.map(owned),
            descriptors: self.descriptors.into_iter().map(|(name, value)| (owned(name), owned(value))).collect(),
            cost: self.cost,
            is_without_client: self.is_without_client,
        }
    }
}
