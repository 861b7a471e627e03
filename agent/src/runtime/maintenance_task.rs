//! The task that executes the effects of the engine's [`Maintenance`]: requests to the store with their deadline, the log,
//! and the state directory.

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};
use tollgate_core::clock::Clock;
use tollgate_engine::{
    Engine, Maintenance, MaintenanceEffect, MaintenanceInput, MaintenanceRequest, MaintenanceSettings, Notice,
    StoreError, UNATTENDED_DEADLINE,
};

use super::RulesListener;
use crate::state_dir::StateDir;
use crate::store::{ChargeStore, FleetServices};

/// Parts of an agent that its maintenance uses.
pub(crate) struct MaintenanceParts<S> {
    pub(crate) engine: Arc<Engine>,
    pub(crate) clock: Arc<dyn Clock>,
    /// None if the counts are in the engine's own table.
    pub(crate) store: Option<Arc<S>>,
    pub(crate) fleet: Option<Arc<FleetServices>>,
    /// Receives the rules that are published in the store, if the agent follows them.
    pub(crate) rules: Option<RulesListener>,
    pub(crate) state: Option<Arc<StateDir>>,
}

/// The running maintenance of one agent. It ends when this is dropped.
pub(crate) struct MaintenanceTask {
    node: Arc<str>,
    fleet: Option<Arc<FleetServices>>,
    reached_store: watch::Receiver<bool>,
    stop: Arc<Notify>,
}

/// Waker of the task.
struct TaskWaker(Notify);

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

impl MaintenanceTask {
    /// Starts the task.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub(crate) fn start<S: ChargeStore>(parts: MaintenanceParts<S>) -> Self {
        let (reached, reached_store) = watch::channel(false);
        let stop = Arc::new(Notify::new());
        let stopped = stop.clone();
        let (node, fleet) = (parts.engine.settings().node.clone(), parts.fleet.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = stopped.notified() => {}
                () = parts.run(&reached) => {}
            }
        });
        Self { node, fleet, reached_store, stop }
    }

    /// Ends the task and removes the agent from the store's registry.
    pub(crate) async fn stop(&self) {
        self.stop.notify_one();
        if let Some(fleet) = &self.fleet {
            let _ = in_time(fleet.leave(&self.node)).await;
        }
    }

    /// Waits until the store has answered for the first time, at most as long as one request may take.
    pub(crate) async fn reach_store(&self) {
        let mut reached = self.reached_store.clone();
        let _ = timeout(UNATTENDED_DEADLINE, reached.wait_for(|reached| *reached)).await;
    }
}

impl Drop for MaintenanceTask {
    fn drop(&mut self) {
        self.stop.notify_one();
    }
}

impl<S: ChargeStore> MaintenanceParts<S> {
    async fn run(self, reached: &watch::Sender<bool>) {
        let settings = MaintenanceSettings {
            announces: self.fleet.is_some(),
            follows_rules: self.fleet.is_some() && self.rules.is_some(),
        };
        let mut maintenance = Maintenance::new(self.engine.clone(), settings);
        let waker = Arc::new(TaskWaker(Notify::new()));
        maintenance.set_waker(Waker::from(waker.clone()));
        let mut requests = FuturesUnordered::new();
        let mut effects = Vec::new();
        let mut input = MaintenanceInput::Tick;
        loop {
            let now = self.clock.now();
            maintenance.poll(now, input, &mut effects);
            for effect in effects.drain(..) {
                match effect {
                    MaintenanceEffect::Notify(notice) => log(&self.engine.settings().node, notice),
                    MaintenanceEffect::SaveFleetSize(agents) => {
                        if let Some(state) = &self.state {
                            state.change(|saved| saved.agents = Some(agents));
                        }
                    }
                    MaintenanceEffect::Send(request) => requests.push(self.execute(request)),
                }
            }
            let has_reached = self.engine.has_reached_store();
            reached.send_if_modified(|reached| !std::mem::replace(reached, has_reached) && has_reached);
            let wait = Duration::from_millis(maintenance.wake_at(now).ms_since(now));
            input = tokio::select! {
                Some(answer) = requests.next(), if !requests.is_empty() => answer,
                () = waker.0.notified() => MaintenanceInput::Tick,
                () = sleep(wait) => MaintenanceInput::Tick,
            };
        }
    }

    /// Executes a request to the store, within its deadline.
    async fn execute(&self, request: MaintenanceRequest) -> MaintenanceInput {
        match request {
            MaintenanceRequest::Ping => MaintenanceInput::Pinged(match &self.store {
                Some(store) => in_time(store.ping()).await,
                None => Err(StoreError::Unreachable),
            }),
            MaintenanceRequest::Backfill(request) => {
                let answer = match &self.store {
                    Some(store) => in_time(store.charge(request.charges())).await,
                    None => Err(StoreError::Unreachable),
                };
                MaintenanceInput::Backfilled(request, answer)
            }
            MaintenanceRequest::Announce => MaintenanceInput::Announced(self.announce().await),
            MaintenanceRequest::ReadRules => {
                self.read_rules().await;
                MaintenanceInput::RulesRead
            }
        }
    }

    async fn announce(&self) -> Result<u32, StoreError> {
        match &self.fleet {
            Some(fleet) => in_time(fleet.announce(&self.engine.settings().node)).await,
            None => Ok(0),
        }
    }

    async fn read_rules(&self) {
        if let (Some(fleet), Some(receive)) = (&self.fleet, &self.rules)
            && let Ok(Some((generation, published))) = in_time(fleet.published_rules()).await
        {
            receive(generation, None, published);
        }
    }
}

async fn in_time<T>(request: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    timeout(UNATTENDED_DEADLINE, request).await.unwrap_or(Err(StoreError::TimedOut))
}

fn log(node: &str, notice: Notice) {
    if notice == Notice::StoreRecovered {
        tracing::info!(%node, "{notice}");
    } else {
        tracing::warn!(%node, "{notice}");
    }
}
