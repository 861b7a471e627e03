//! Own answer of a rule: the parts of an answer that the rules file chooses in place of Tollgate's.
//!
//! A decision has the own answer of the rule that it shows, so an answer fits its rule also while rules are reloaded.

/// Maximum length of a title, of a message and of a text among the fields, in bytes.
pub const ANSWER_TEXT_LEN_MAX: usize = 1_024;
/// Maximum number of fields of an own answer.
pub const ANSWER_FIELDS_LEN_MAX: usize = 16;

/// Names of the headers that tell a client about its limit. An own answer may hide them.
pub const LIMIT_HEADERS: [&str; 8] = [
    "ratelimit",
    "ratelimit-policy",
    "retry-after",
    "x-ratelimit-delay-ms",
    "x-ratelimit-limit",
    "x-ratelimit-policy",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
];

/// Names of the members that bodies of decisions have in any form, and of `instance` (RFC 9457). A field has another name.
pub const BODY_MEMBERS: [&str; 20] = [
    "allowed",
    "at_ms",
    "by",
    "delay_ms",
    "detail",
    "error",
    "id",
    "instance",
    "limit",
    "over_quota",
    "remaining",
    "reset_ms",
    "retry_after_ms",
    "rule",
    "slots",
    "source",
    "status",
    "title",
    "type",
    "violated-policies",
];

/// Own answer of a rule. The default changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnAnswer {
    /// Status of denials. A call that costs more than the quota keeps 403.
    pub status: Option<ErrorStatus>,
    /// Title of denials, in place of such as "Too many requests". A nested body has none.
    pub title: Option<Box<str>>,
    /// Text of denials, in place of the reason with the numbers of the limit.
    pub message: Option<Box<str>>,
    /// Further members of the body of denials.
    pub fields: Vec<(Box<str>, FieldValue)>,
    /// Form of the body of denials.
    pub body: DenialBody,
    /// Headers that answers do not have, of [`LIMIT_HEADERS`].
    pub hide: Vec<&'static str>,
}

/// HTTP status of an error: 400 to 599.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorStatus(u16);

/// Value of a further member of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue {
    /// Text.
    Text(Box<str>),
    /// Whole number.
    Whole(i64),
    /// Truth value.
    Flag(bool),
}

/// Form of the body of a denial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DenialBody {
    /// Problem details (RFC 9457), with the members of an admission.
    #[default]
    Problem,
    /// An object `error` with a code, a message and details.
    Nested,
}

impl ErrorStatus {
    /// Returns the status with this code; none if it is no error.
    #[must_use]
    pub fn new(code: u16) -> Option<Self> {
        (400..=599).contains(&code).then_some(Self(code))
    }

    /// Returns the status code.
    #[must_use]
    pub const fn code(self) -> u16 {
        self.0
    }

    /// Returns true if gateways take the status for a failure of the agent itself.
    #[doc(hidden)]
    #[must_use]
    pub const fn is_of_server(self) -> bool {
        self.0 >= 500
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_are_statuses_of_denials() {
        for (code, is_error) in [(399, false), (400, true), (429, true), (599, true), (600, false), (200, false)] {
            assert_eq!(ErrorStatus::new(code).map(ErrorStatus::code), is_error.then_some(code));
        }
    }
}
