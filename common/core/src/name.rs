//! Names that decisions show: the rule and the agent.
//!
//! Every decision has two, and many threads make decisions. A counted reference would be one more place in memory that
//! all of them write; a name is interned for the life of the process instead, and copied for nothing. The number of
//! interned names has a cap, past which a name is counted.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

const NAMES_LEN_MAX: usize = 100_000;

static NAMES: LazyLock<Mutex<HashMap<&'static str, &'static TextOfName>>> = LazyLock::new(Mutex::default);

/// Name of a rule or an agent. A clone is a copy of a pointer.
#[derive(Clone)]
pub struct Name(NameText);

/// Both variants are thin pointers, because a decision with two wide ones takes longer to move.
#[derive(Clone)]
enum NameText {
    Interned(&'static TextOfName),
    Counted(Arc<TextOfName>),
}

struct TextOfName(Box<str>);

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = names.get(text) {
            return Self(NameText::Interned(known));
        }
        if names.len() >= NAMES_LEN_MAX {
            return Self(NameText::Counted(Arc::new(TextOfName(text.into()))));
        }
        let interned: &'static TextOfName = Box::leak(Box::new(TextOfName(text.into())));
        names.insert(&interned.0, interned);
        Self(NameText::Interned(interned))
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            NameText::Interned(text) => &text.0,
            NameText::Counted(text) => &text.0,
        }
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        self
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&**self, f)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_are_one_text() {
        let (a, b) = (Name::from("per-key"), Name::from(&*String::from("per-key")));
        assert!(a == b && a.as_ptr() == b.as_ptr());
        assert_ne!(a, Name::from("per-ip"));
    }
}
