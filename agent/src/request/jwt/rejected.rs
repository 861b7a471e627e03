//! Why a token is as good as none, and how often that was so.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// Why a token is as good as none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// It is no signed token, or one that must not be read further.
    Malformed,
    /// Its algorithm is none of ours, or not that of the key it names.
    Algorithm,
    /// It names a key that is not in the file.
    UnknownKey,
    /// No key made its signature.
    Signature,
    /// Its time is over.
    Expired,
    /// Its time has not come.
    NotYetValid,
    /// It is from someone else.
    Issuer,
    /// It is for someone else.
    Audience,
    /// There are no keys to evaluate it by.
    NoKeys,
}

/// How many tokens were rejected.
#[derive(Clone, Debug)]
pub(super) struct RejectedCounters([Counter; Rejected::ALL.len()]);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    reason: &'static str,
}

impl Rejected {
    const ALL: [Self; 9] = [
        Self::Malformed,
        Self::Algorithm,
        Self::UnknownKey,
        Self::Signature,
        Self::Expired,
        Self::NotYetValid,
        Self::Issuer,
        Self::Audience,
        Self::NoKeys,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Algorithm => "algorithm",
            Self::UnknownKey => "unknown_key",
            Self::Signature => "signature",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::Issuer => "issuer",
            Self::Audience => "audience",
            Self::NoKeys => "no_keys",
        }
    }
}

impl RejectedCounters {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let family = Family::<Labels, Counter>::default();
        let help = "Bearer tokens that the rules ask about and that gave no descriptor";
        registry.sub_registry_with_prefix("tollgate").register("jwt_rejected", help, family.clone());
        Self(Rejected::ALL.map(|reason| family.get_or_create(&Labels { reason: reason.as_str() }).clone()))
    }

    pub(super) fn count(&self, reason: Rejected) {
        self.0[reason as usize].inc();
    }
}
