//! A call whose counters lie in several slots: a step for each, all at once, and the others give back when one refuses.
//!
//! What a step charges is tentative until twice the time has passed that the call had left, by the server's own time; then
//! it has confirmed itself, and giving it back is void. So no step waits for another, nothing stays charged for a call that
//! was refused while its agent lives, and what an agent leaves behind that dies in between is what a lost answer would. The
//! call goes on in a task of its own when its caller has left.

use std::future::Future;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::Poll;

use futures_util::future::join_all;
use smallvec::SmallVec;
use tokio::sync::oneshot;
use tollgate_core::clock::Timestamp;

use super::codec::{Manner, Token};
use tollgate_redis::Socket;

use super::steps::{Steps, store_error};
use crate::store::StoreError;
use tollgate_core::counter::ChargeResults;
use tollgate_core::counter::{Charge, ChargeMode, ChargeResult};

type Answered = Result<ChargeResults, StoreError>;

/// A call in parts.
struct Call {
    steps: Steps,
    socket: Arc<Socket>,
    token: Token,
    parts: Vec<Part>,
}

/// What lies in one slot.
struct Part {
    takes: SmallVec<[Charge; 2]>,
    /// Where those stand in the call.
    places: SmallVec<[usize; 2]>,
}

/// Judges and charges the counters of a call, those of each slot in a step.
pub(super) async fn take(steps: &Steps, takes: &[Charge]) -> Answered {
    if takes.iter().all(|take| take.slot == takes[0].slot) {
        return steps.run(takes, Manner::WholeAmongOthers).await;
    }
    let socket = steps.connection.socket().map_err(store_error)?;
    let call = Call { steps: steps.clone(), socket: socket.clone(), token: new_token(), parts: parts(takes) };
    let (answer, answered) = oneshot::channel();
    socket.spawn(call.run(answer));
    answered.await.unwrap_or(Err(StoreError::TimedOut))
}

impl Call {
    async fn run(self, answer: oneshot::Sender<Answered>) {
        let expires_at = self.parts.iter().flat_map(|part| &part.takes).filter_map(expiry).min();
        let manner = Manner::Part { token: self.token, expires_at: expires_at.unwrap_or(Timestamp::from_ms(u64::MAX)) };
        let asked = self.parts.iter().map(|part| self.steps.run_on(&self.socket, &part.takes, manner));
        let answers = join_all(asked).await;
        let (together, to_give_back) = self.settle(&answers);
        let manner = Manner::TakeBack { token: self.token };
        let undone = to_give_back.iter().map(|takes| self.steps.run_on(&self.socket, takes, manner));
        let mut undoing = pin!(join_all(undone));
        // Their place in the line is taken before the caller can ask anything else.
        let early = std::future::poll_fn(|context| Poll::Ready(undoing.as_mut().poll(context).is_ready())).await;
        // Nobody may wait any more.
        let _ = answer.send(together);
        if !early {
            undoing.await;
        }
    }

    /// What the parts say together, and the questions to give back: those of parts that charged, or may have.
    fn settle(&self, answers: &[Answered]) -> (Answered, Vec<Vec<Charge>>) {
        let parts = || self.parts.iter().zip(answers);
        let charged = parts().all(|(part, answer)| answer.as_ref().is_ok_and(|taken| part.has_charged(taken)));
        if charged {
            return (Ok(self.in_order(answers, true)), Vec::new());
        }
        let may_have_charged = |(part, answer): (&Part, &Answered)| {
            let may = match answer {
                Ok(taken) => part.has_charged(taken),
                Err(error) => *error == StoreError::TimedOut,
            };
            may.then(|| part.questions()).filter(|questions| !questions.is_empty())
        };
        let to_give_back = parts().filter_map(may_have_charged).collect();
        let errors = || answers.iter().filter_map(|answer| answer.as_ref().err().copied());
        let Some(error) = errors().find(|error| !error.needs_backfill()).or_else(|| errors().next()) else {
            return (Ok(self.in_order(answers, false)), to_give_back);
        };
        // What a part charged in any case must not be taken for a debt.
        let has_stated = parts().any(|(part, answer)| answer.is_ok() && part.questions().len() < part.takes.len());
        (Err(if has_stated { StoreError::TimedOut } else { error }), to_give_back)
    }

    /// The answers as the call has its takes; where one was refused no question is charged.
    fn in_order(&self, answers: &[Answered], charged: bool) -> ChargeResults {
        let mut placed = Vec::new();
        for (part, taken) in self.parts.iter().zip(answers) {
            for ((place, take), taken) in part.places.iter().zip(&part.takes).zip(taken.iter().flatten()) {
                placed.push((*place, ChargeResult { charged: charged || !is_question(take), ..*taken }));
            }
        }
        placed.sort_unstable_by_key(|(place, _)| *place);
        placed.into_iter().map(|(_, taken)| taken).collect()
    }
}

impl Part {
    /// Whether its questions, if it has any, were charged.
    fn has_charged(&self, answers: &ChargeResults) -> bool {
        self.takes.iter().zip(answers).all(|(take, taken)| taken.charged || !is_question(take))
    }

    fn questions(&self) -> Vec<Charge> {
        self.takes.iter().filter(|take| is_question(take)).cloned().collect()
    }
}

fn parts(takes: &[Charge]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for (place, take) in takes.iter().enumerate() {
        let known = parts.iter().position(|part| part.takes[0].slot == take.slot);
        let known = known.unwrap_or_else(|| {
            parts.push(Part { takes: SmallVec::new(), places: SmallVec::new() });
            parts.len() - 1
        });
        parts[known].takes.push(take.clone());
        parts[known].places.push(place);
    }
    parts
}

const fn is_question(take: &Charge) -> bool {
    matches!(take.mode, ChargeMode::Enforce { .. })
}

const fn expiry(take: &Charge) -> Option<Timestamp> {
    match take.mode {
        ChargeMode::Enforce { expires_at } | ChargeMode::CountOnly { expires_at } => Some(expires_at),
        ChargeMode::Backfill { .. } | ChargeMode::Refund { .. } => None,
    }
}

/// A name that no other call has while it matters, of this agent or another one.
pub(super) fn new_token() -> Token {
    static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(RandomState::new().build_hasher().finish()));
    NEXT.fetch_add(1, Ordering::Relaxed)
}
