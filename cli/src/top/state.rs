//! State of `tollgate top`: the newest answers, the choices of the person, and since when nobody answers.

use tollgate_core::clock::Timestamp;

use super::api::{TopData, TopOrder, TopQuestion};
use super::cells::elements;
use crate::client::NoAnswer;

/// Command of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TopKey {
    Sort(TopOrder),
    NextRule,
    Up,
    Down,
    PageUp,
    PageDown,
    Quit,
}

/// Time since which the aggregator does not answer as it should, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unheard {
    pub(super) since: Timestamp,
    pub(super) why: String,
}

#[derive(Debug)]
pub(super) struct TopState {
    pub(super) question: TopQuestion,
    pub(super) data: TopData,
    /// Number of callers above the first one that is shown.
    pub(super) scroll: usize,
    pub(super) unheard: Option<Unheard>,
    /// True if a person can press keys.
    pub(super) is_live: bool,
}

impl TopState {
    pub(super) fn new(question: TopQuestion, data: TopData, is_live: bool) -> Self {
        Self { question, data, scroll: 0, unheard: None, is_live }
    }

    /// Takes an answer; without one, the last data stay.
    pub(super) fn receive(&mut self, answer: Result<TopData, NoAnswer>, now: Timestamp) {
        match answer {
            Ok(data) => (self.data, self.unheard) = (data, None),
            Err(NoAnswer::Silent(why) | NoAnswer::Refused(why)) => {
                let since = self.unheard.take().map_or(now, |unheard| unheard.since);
                self.unheard = Some(Unheard { since, why });
            }
        }
        self.scroll = self.scroll.min(self.last_caller());
    }

    /// Does what a key says; `page` is the number of callers that are shown. Returns false if the person wants to quit.
    pub(super) fn press(&mut self, key: TopKey, page: usize) -> bool {
        let page = page.max(1);
        match key {
            TopKey::Sort(order) => (self.question.order, self.scroll) = (order, 0),
            TopKey::NextRule => (self.question.rule, self.scroll) = (self.next_rule(), 0),
            TopKey::Up => self.scroll = self.scroll.saturating_sub(1),
            TopKey::PageUp => self.scroll = self.scroll.saturating_sub(page),
            TopKey::Down => self.scroll = (self.scroll + 1).min(self.last_caller()),
            TopKey::PageDown => self.scroll = (self.scroll + page).min(self.last_caller()),
            TopKey::Quit => return false,
        }
        true
    }

    fn last_caller(&self) -> usize {
        elements(&self.data.callers["callers"]).len().saturating_sub(1)
    }

    /// Returns the rule after the present one; none after the last one.
    fn next_rule(&self) -> Option<String> {
        let mut names = elements(&self.data.rules["rules"]).iter().filter_map(|rule| rule["rule"].as_str());
        match &self.question.rule {
            None => names.next(),
            Some(present) => names.skip_while(|name| name != present).nth(1),
        }
        .map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn state(callers: usize) -> TopState {
        let callers = json!({ "callers": vec![json!({}); callers] });
        let rules = json!({ "rules": [{ "rule": "a" }, { "rule": "b" }] });
        let question = TopQuestion { order: TopOrder::Denied, rule: None, minutes: 5 };
        TopState::new(question, TopData { rules, callers, ..TopData::default() }, true)
    }

    #[test]
    fn keys_choose_the_order_the_rule_and_the_callers() {
        let mut state = state(25);
        for (key, scroll) in [
            (TopKey::Up, 0),
            (TopKey::Down, 1),
            (TopKey::PageDown, 11),
            (TopKey::PageDown, 21),
            (TopKey::PageDown, 24),
            (TopKey::Down, 24),
            (TopKey::PageUp, 14),
            (TopKey::Sort(TopOrder::Near), 0),
        ] {
            assert!(state.press(key, 10));
            assert_eq!(state.scroll, scroll, "{key:?}");
        }
        assert_eq!(state.question.order, TopOrder::Near);
        for expected in [Some("a"), Some("b"), None, Some("a")] {
            assert!(state.press(TopKey::NextRule, 10));
            assert_eq!(state.question.rule.as_deref(), expected);
        }
        assert!(!state.press(TopKey::Quit, 10));
    }

    #[test]
    fn the_last_data_stay_while_nobody_answers_and_the_first_failure_counts() {
        let mut state = state(25);
        let at = Timestamp::from_ms;
        state.scroll = 24;
        state.receive(Err(NoAnswer::Silent("refused".to_owned())), at(7_000));
        state.receive(Err(NoAnswer::Silent("no answer".to_owned())), at(9_000));
        assert_eq!(state.unheard, Some(Unheard { since: at(7_000), why: "no answer".to_owned() }));
        assert_eq!(state.last_caller(), 24);
        state.receive(Ok(TopData { callers: json!({ "callers": [{}, {}] }), ..TopData::default() }), at(10_000));
        assert_eq!((state.unheard, state.scroll), (None, 1));
    }
}
