//! Fields of a JSON format, and the call that they give.

use std::borrow::Cow;

use serde_json::{Map, Value};
use tollgate_core::one_line::excerpt;

use super::super::address;
use super::super::forwarding;
use super::super::instant;
use super::super::log_call::{AddressField, AddressKind, LogCall};
use super::super::request_target::RequestTarget;
use super::super::token::is_absent;
use super::lookup::{find_texts, text_at, value_at};

/// Number of names of fields in a message.
const NAMES_SHOWN_MAX: usize = 8;

/// Paths of a format's fields. Of several, the first that a line has is taken.
#[derive(Debug)]
pub(in crate::replay::log) struct JsonFields {
    /// Paths of which a line of this format has one; without any, those of the client.
    pub(in crate::replay::log) signature: &'static [&'static str],
    pub(super) time: &'static [&'static str],
    pub(super) client: &'static [&'static str],
    /// True if the first of `client` is the client by the documents of the server. Otherwise all of them may be.
    pub(super) is_first_client: bool,
    /// Whole request, such as `GET / HTTP/1.1`.
    pub(super) request: &'static [&'static str],
    pub(super) method: &'static [&'static str],
    pub(super) target: &'static [&'static str],
    pub(super) status: &'static [&'static str],
    pub(super) user: &'static [&'static str],
    pub(super) user_agent: &'static [&'static str],
}

impl JsonFields {
    pub(in crate::replay::log) fn detects(&self, object: &Map<String, Value>) -> bool {
        let signature = if self.signature.is_empty() { self.client } else { self.signature };
        signature.iter().any(|path| value_at(object, path).is_some())
    }

    /// Reads a call. `field` is a path that the user names as the client.
    pub(in crate::replay::log) fn parse(
        &self,
        object: &Map<String, Value>,
        field: Option<&str>,
    ) -> Result<LogCall<'static>, String> {
        let mut call = LogCall { time_ms: self.time_ms(object)?, ..LogCall::default() };
        for path in self.client {
            if let Some(text) = text_at(object, path) {
                call.add_address(AddressKind::Client, *path, text);
                if self.is_first_client && !call.addresses.is_empty() {
                    break;
                }
            }
        }
        if call.addresses.iter().any(is_list) {
            // A name such as `client` may mean something else.
            call.addresses.retain(is_list);
        }
        for (path, kind, text) in find_texts(object, forwarding::kind_of) {
            call.add_address(kind, path, forwarding::addresses(text.into()));
        }
        if let Some(field) = field.filter(|field| call.addresses.iter().all(|known| known.name != *field))
            && let Some(text) = text_at(object, field)
        {
            call.add_address(AddressKind::Other, field.to_owned(), text);
        }
        if call.addresses.is_empty() {
            return Err(format!(
                "no field is known as the address of the client ({}); name it with --json ip=FIELD",
                names(object)
            ));
        }
        let first =
            |paths: &[&str]| paths.iter().find_map(|path| text_at(object, path)).filter(|text| !is_absent(text));
        call.request =
            request(first(self.request).as_deref(), first(self.method).as_deref(), first(self.target).as_deref());
        call.status = first(self.status).map(Cow::Owned);
        call.user = first(self.user).map(Cow::Owned);
        call.user_agent = first(self.user_agent).map(Cow::Owned);
        Ok(call)
    }

    pub(super) fn time_ms(&self, object: &Map<String, Value>) -> Result<u64, String> {
        let mut wrong = None;
        for path in self.time {
            let Some(text) = text_at(object, path) else { continue };
            match instant::parse(&text) {
                Some(time_ms) => return Ok(time_ms),
                None => wrong = wrong.or(Some(format!("`{path}` is `{}`, which is no time", excerpt(&text)))),
            }
        }
        Err(wrong.unwrap_or_else(|| {
            format!("no field is known as the time ({}); name it with --json time=FIELD", names(object))
        }))
    }
}

/// Returns a request whose parts are logged apart or as one text. A `request` without a method is a target.
pub(super) fn request(line: Option<&str>, method: Option<&str>, target: Option<&str>) -> RequestTarget<'static> {
    if let Some(line) = line {
        let whole = RequestTarget::of_line(line);
        if line.starts_with('/') && target.is_none() {
            return RequestTarget::of_parts(method, Some(line)).into_owned();
        }
        if whole.method.is_some() {
            return whole.into_owned();
        }
    }
    RequestTarget::of_parts(method, target).into_owned()
}

fn is_list(field: &AddressField<'_>) -> bool {
    address::ip_list(&field.text).is_some()
}

fn names(object: &Map<String, Value>) -> String {
    let mut names: Vec<_> = object.keys().take(NAMES_SHOWN_MAX).map(|name| format!("`{}`", excerpt(name))).collect();
    if object.len() > NAMES_SHOWN_MAX {
        names.push("…".to_owned());
    }
    if names.is_empty() { "it has none".to_owned() } else { names.join(", ") }
}
