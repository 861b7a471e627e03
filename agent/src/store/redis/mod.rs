//! Counters in Redis: one value for all agents, one round trip for each call.
//!
//! A step is one script ([`steps`]) that charges all its counters or none by the server's own clock. Calls that come while others are in flight are sent together, and many simple ones share a
//! script ([`gathered_steps`]). The scripts decide as the pure state machines of `tollgate_core::algorithm` do, which the
//! conformance suite verifies. The pure state machines also make the verdict ([`codec`]), and replace values that a rule
//! change or a clock step has made unusable ([`conversion`]). Each write renews a TTL after which the counter would be
//! idle. Connection, errors and settings are in `tollgate_redis`, which the rule mirror and the fleet registry share.

mod value;
mod codec;
mod conversion;
mod steps;
mod gathered_steps;
mod fleet_services;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::clock::{Clock, Timestamp};
use tollgate_core::counter::{Charge, ChargeResults, CounterId};
use tollgate_core::regions::stored_limit::LimitView;
use tollgate_engine::{RuleRanks, StoreShape};
use tollgate_redis::{Connection, FleetRegistry, RuleMirror, Witnesses, read_limit};

use super::{ChargeStore, FleetServices, StoreError, StoreServer};
use fleet_services::RedisServices;
use gathered_steps::GatheredSteps;
use steps::Steps;

pub use tollgate_redis::{
    HashSlots, PREFIX_DEFAULT, RedisAddressError, RedisCredentials, RedisSettings, RedisTlsFiles,
};

/// Maximum time for reading a limit that is only displayed.
const VIEW_WAIT: Duration = Duration::from_millis(250);

/// Counters in Redis.
pub struct RedisStore {
    slots: HashSlots,
    gathered: GatheredSteps,
    fleet: Arc<RedisServices>,
    /// Ranks in place of the generations of charges, once an agent announces its rules here.
    ranks: Arc<RuleRanks>,
}

impl RedisStore {
    /// A store at this address. It connects at the first [`ChargeStore::ping`], inside a tokio runtime; until then it is
    /// unreachable.
    ///
    /// # Errors
    /// When the address is not that of a Redis.
    pub fn new(settings: &RedisSettings, clock: Arc<dyn Clock>) -> Result<Self, RedisAddressError> {
        let connection = Arc::new(Connection::new(settings, clock, steps::charge_script())?);
        let ranks = Arc::new(RuleRanks::default());
        Ok(Self {
            slots: settings.slots,
            fleet: Arc::new(RedisServices {
                registry: FleetRegistry::on(connection.clone(), settings),
                ranks: ranks.clone(),
                mirror: RuleMirror::on(connection.clone(), &settings.prefix),
                witnesses: Witnesses::on(connection.clone(), &settings.prefix),
            }),
            gathered: GatheredSteps::new(Steps::new(settings, connection), settings.slots),
            ranks,
        })
    }

    /// Address of the server, without the password.
    #[must_use]
    pub fn address(&self) -> &str {
        self.gathered.steps.connection.address()
    }

    /// Services of the fleet for an agent, which announces its rules by them.
    pub(crate) fn fleet_services(&self) -> Arc<dyn FleetServices> {
        self.ranks.begin();
        self.fleet.clone()
    }
}

impl ChargeStore for RedisStore {
    async fn charge(&self, charges: &[Charge]) -> Result<ChargeResults, StoreError> {
        let ranked = self.ranks.with_ranks(charges);
        let charges = ranked.as_deref().unwrap_or(charges);
        self.gathered.run(charges).await
    }

    /// The floor of a global rule and its counters have different slots.
    fn shape(&self) -> StoreShape {
        match self.slots {
            HashSlots::Together => StoreShape::Server,
            HashSlots::Multi => StoreShape::Slots,
        }
    }

    async fn ping(&self) -> Result<Timestamp, StoreError> {
        self.gathered.steps.connection.ping().await
    }

    fn servers(&self) -> Vec<StoreServer> {
        let connection = &self.gathered.steps.connection;
        let node = connection.node();
        let (is_connected, trouble) = (node.is_some(), connection.trouble());
        vec![StoreServer { node: node.unwrap_or_else(|| connection.address().to_owned()), is_connected, trouble }]
    }

    async fn limit_view(&self, counter: CounterId) -> Option<LimitView> {
        let steps = &self.gathered.steps;
        let read = read_limit(&steps.connection, &steps.prefix, counter);
        tokio::time::timeout(VIEW_WAIT, read).await.ok()?.ok()?
    }
}
