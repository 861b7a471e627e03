//! The live display: asks once a second, draws each answer and each key, and ends with a key or a signal.
//!
//! A task of its own asks, so that keys and the clock of the display do not wait for a slow aggregator.

use std::io::{ErrorKind, stdout};
use std::sync::Arc;
use std::time::Duration;

use console::style;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval};
use tollgate_core::clock::{Clock, SystemClock, Timestamp};

use super::api::{Aggregators, TopData, TopQuestion};
use super::cells::Glyphs;
use super::frame::{Emphasis, callers_shown, frame};
use super::screen::{self, TopScreen};
use super::state::TopState;
use crate::board::Board;
use crate::client::NoAnswer;

/// Time between two questions, and between two drawings without an answer.
const REFRESH: Duration = Duration::from_secs(1);

type Answers = mpsc::Receiver<(TopQuestion, Result<TopData, NoAnswer>)>;

pub(super) async fn watch(aggregators: Aggregators, mut state: TopState, glyphs: Glyphs) -> anyhow::Result<()> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut resized = signal(SignalKind::window_change())?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let (questions, asked) = watch::channel(state.question.clone());
    let mut answers = ask_on(aggregators, asked);
    let screen = TopScreen::enter()?;
    let mut keys = screen.keys();
    let mut ticks = interval(REFRESH);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut out = stdout();
    let mut display = TopDisplay { board: Board::new(&mut out, true, REFRESH), size: screen::size(), glyphs };
    loop {
        tokio::select! {
            Some((question, answer)) = answers.recv() => {
                // An answer to the question before is late.
                if question == state.question {
                    state.receive(answer, clock.now());
                }
            }
            Some(key) = keys.recv() => {
                let page = callers_shown(&state, display.size, glyphs, clock.now());
                if !state.press(key, page) {
                    return Ok(());
                }
                questions.send_if_modified(|asked| {
                    let is_new = *asked != state.question;
                    asked.clone_from(&state.question);
                    is_new
                });
            }
            _ = ticks.tick() => {}
            _ = resized.recv() => {}
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
        }
        match display.draw(&state, clock.now()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            drawn => drawn?,
        }
    }
}

/// Asks once a second, and at once after a change of the question.
fn ask_on(mut aggregators: Aggregators, mut asked: watch::Receiver<TopQuestion>) -> Answers {
    let (sender, answers) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut ticks = interval(REFRESH);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first answer is there already.
        ticks.tick().await;
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                changed = asked.changed() => if changed.is_err() { return },
            }
            let question = asked.borrow_and_update().clone();
            let answer = aggregators.ask(&question).await;
            if sender.send((question, answer)).await.is_err() {
                return;
            }
        }
    });
    answers
}

struct TopDisplay<'a> {
    board: Board<'a>,
    size: super::frame::FrameSize,
    glyphs: Glyphs,
}

impl TopDisplay<'_> {
    fn draw(&mut self, state: &TopState, now: Timestamp) -> std::io::Result<()> {
        let size = screen::size();
        if std::mem::replace(&mut self.size, size) != size {
            self.board.clear()?;
        }
        let lines = frame(state, size, self.glyphs, now).into_iter().map(|(emphasis, text)| match emphasis {
            Emphasis::Plain => text + "\n",
            Emphasis::Heading => format!("{}\n", style(text).bold()),
            Emphasis::Alarm => format!("{}\n", style(text).red().bold()),
        });
        self.board.draw(&lines.collect::<String>())
    }
}
