//! The task that executes the effects of the engine's [`Maintenance`]: requests to the store with their deadline, the log,
//! and the state directory.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tollgate_core::clock::{Clock, Timestamp};
use tollgate_engine::{
    Engine, Maintenance, MaintenanceEffect, MaintenanceInput, MaintenanceRequest, MaintenanceSettings, Notice,
    StepAnswers, StoreError, StoreRequest, UNATTENDED_DEADLINE,
};

use super::deadline::answer_in_time;
use super::listeners::{RulesListener, WakeFn};
use super::steps_in_flight::{StepsEvent, StepsInFlight};
use crate::state_dir::StateDir;
use crate::store::{ChargeStore, FleetServices};

pub(crate) struct MaintenanceSetup<S> {
    pub(crate) engine: Arc<Engine>,
    pub(crate) clock: Arc<dyn Clock>,
    /// None if the counts are in the engine's own table.
    pub(crate) store: Option<Arc<S>>,
    pub(crate) fleet: Option<Arc<dyn FleetServices>>,
    /// Receives the rules that are published in the store, if the agent follows them.
    pub(crate) rules: Option<RulesListener>,
    pub(crate) state: Option<Arc<StateDir>>,
}

/// The running maintenance of one agent. It ends when this is dropped.
pub(crate) struct MaintenanceTask {
    node: Arc<str>,
    fleet: Option<Arc<dyn FleetServices>>,
    reached_store: watch::Receiver<bool>,
    task: AbortHandle,
}

impl MaintenanceTask {
    /// Starts the task.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub(crate) fn start<S: ChargeStore>(parts: MaintenanceSetup<S>) -> Self {
        let (reached, reached_store) = watch::channel(false);
        let (node, fleet) = (parts.engine.settings().node.clone(), parts.fleet.clone());
        let task = tokio::spawn(parts.run(reached)).abort_handle();
        Self { node, fleet, reached_store, task }
    }

    /// Ends the task and removes the agent from the store's registry. An announcement that is under way comes first.
    pub(crate) async fn stop(&self) {
        self.task.abort();
        let mut reached = self.reached_store.clone();
        // The task drops the sender when it ends.
        while reached.changed().await.is_ok() {}
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
        self.task.abort();
    }
}

impl<S: ChargeStore> MaintenanceSetup<S> {
    async fn run(self, reached: watch::Sender<bool>) {
        let settings = MaintenanceSettings {
            announces: self.fleet.is_some(),
            witnesses: self.fleet.is_some(),
            follows_rules: self.fleet.is_some() && self.rules.is_some(),
        };
        let mut maintenance = Maintenance::new(self.engine.clone(), settings);
        let work = Arc::new(Notify::new());
        let made = work.clone();
        maintenance.set_waker(Arc::new(WakeFn(move || made.notify_one())).into());
        let mut requests = FuturesUnordered::new();
        let mut effects = Vec::new();
        let mut input = MaintenanceInput::Tick;
        loop {
            let now = self.clock.now();
            maintenance.poll(now, input, &mut effects);
            for effect in effects.drain(..) {
                match effect {
                    MaintenanceEffect::Notify(notice) => log(&self.engine.settings().node, notice),
                    MaintenanceEffect::SaveAgents(agents) => {
                        if let Some(state) = &self.state {
                            let node = &self.engine.settings().node;
                            let others = agents.iter().filter(|agent| *agent != node).map(ToString::to_string);
                            state.change(|saved| saved.other_agents = Some(others.collect()));
                        }
                    }
                    MaintenanceEffect::SaveEmergency(switch) => {
                        if let Some(state) = &self.state {
                            state.change(|saved| saved.emergency = Some(switch.into()));
                        }
                    }
                    MaintenanceEffect::Send(request) => requests.push(self.execute(request)),
                }
            }
            reached.send_replace(self.engine.has_reached_store());
            let wait = Duration::from_millis(maintenance.wake_at(now).ms_since(now));
            input = tokio::select! {
                Some(answer) = requests.next(), if !requests.is_empty() => answer,
                () = work.notified() => MaintenanceInput::Tick,
                () = sleep(wait) => MaintenanceInput::Tick,
            };
        }
    }

    /// Sends the charges of a request, and returns the answers that come within the deadline.
    async fn charge(&self, request: &StoreRequest) -> StepAnswers {
        let Some(store) = &self.store else {
            return request.steps().iter().map(|_| Some(Err(StoreError::Unreachable))).collect();
        };
        let mut steps = StepsInFlight::send(store.clone(), request);
        let _ = timeout(UNATTENDED_DEADLINE, async {
            while let StepsEvent::Redirected(place, error) = (&mut steps).await {
                steps.answer(place, error);
            }
        })
        .await;
        steps.answers().clone()
    }

    /// Executes a request to the store, within its deadline.
    async fn execute(&self, request: MaintenanceRequest) -> MaintenanceInput {
        let store = self.store.as_deref().ok_or(StoreError::Unreachable);
        let fleet = self.fleet.as_deref().ok_or(StoreError::Unreachable);
        match request {
            MaintenanceRequest::Ping { primary, in_time, deadline } => {
                let ping = pin!(async { store?.ping_primary(primary).await });
                let (answer, is_late) = ping_within(in_time, deadline, ping).await;
                MaintenanceInput::Pinged { primary, answer, is_late }
            }
            MaintenanceRequest::Backfill(request) => {
                let answers = self.charge(&request).await;
                MaintenanceInput::Backfilled(request, answers)
            }
            MaintenanceRequest::Reopen(request) => {
                let answers = self.charge(&request).await;
                MaintenanceInput::Reopened(request, answers)
            }
            MaintenanceRequest::Witness(primary, number) => {
                let settings = self.engine.settings();
                let life = format!("{}@{}", settings.node, settings.epoch.as_ms());
                MaintenanceInput::Witnessed(
                    primary,
                    in_time(async { fleet?.witness(primary, &life, number).await }).await,
                )
            }
            MaintenanceRequest::Announce(rules) => {
                let node = &self.engine.settings().node;
                MaintenanceInput::Announced(in_time(async { fleet?.announce(node, rules).await }).await)
            }
            MaintenanceRequest::ReadRules => {
                let read = in_time(async { fleet?.published_rules().await }).await;
                let is_answered = read.is_ok();
                if let (Some(receive), Ok(Some((generation, published)))) = (&self.rules, read) {
                    receive(generation, None, published);
                }
                MaintenanceInput::RulesRead(is_answered)
            }
        }
    }
}

async fn ping_within(
    in_time: Duration,
    deadline: Duration,
    mut ping: Pin<&mut impl Future<Output = Result<Timestamp, StoreError>>>,
) -> (Result<Timestamp, StoreError>, bool) {
    if let Some(answer) = answer_in_time(in_time, ping.as_mut()).await {
        return (answer, false);
    }
    let answer = timeout(deadline.saturating_sub(in_time), ping).await.unwrap_or(Err(StoreError::TimedOut));
    (answer, true)
}

async fn in_time<T>(request: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    timeout(UNATTENDED_DEADLINE, request).await.unwrap_or(Err(StoreError::TimedOut))
}

fn log(node: &str, notice: Notice) {
    if notice.is_recovery() {
        tracing::info!(%node, "{notice}");
    } else {
        tracing::warn!(%node, "{notice}");
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::clock::SystemClock;
    use tollgate_core::rules::RuleSet;
    use tollgate_engine::EngineSettings;

    use super::*;
    use crate::store::MemoryStore;

    /// E7: an agent that has left does not announce itself again.
    #[tokio::test]
    async fn a_stop_waits_until_the_task_has_ended() {
        let clock = Arc::new(SystemClock::start());
        let engine = Arc::new(Engine::new(EngineSettings::new("a", clock.now()), RuleSet::none_yet()));
        let (store, fleet, rules, state) = (None::<Arc<MemoryStore>>, None, None, None);
        let parts = MaintenanceSetup { engine: engine.clone(), clock, store, fleet, rules, state };
        let task = MaintenanceTask::start(parts);
        task.stop().await;
        assert_eq!(Arc::strong_count(&engine), 1, "the task has dropped its engine");
    }
}
