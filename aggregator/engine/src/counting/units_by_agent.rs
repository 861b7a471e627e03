//! The units of one counter by the agents that admitted them, from which agents compute their parts while the store is down.
//!
//! Two numbers per agent are enough, because only the proportions matter: the units of the current and of the previous
//! span of one window. Agents past the cap are not told apart; their units count as those of others.

use std::sync::Arc;

use tollgate_core::messages::signals::AGENTS_LEN_MAX;
use tollgate_core::window::{SubWindow, Window};

#[derive(Clone, Debug, Default)]
pub(super) struct UnitsByAgent {
    /// Number of the current span. Spans are windows that are aligned to the epoch.
    span: u64,
    agents: Vec<AgentSpans>,
}

#[derive(Clone, Debug)]
struct AgentSpans {
    name: Arc<str>,
    current: u32,
    previous: u32,
}

impl UnitsByAgent {
    /// Counts units that an agent admitted, or refunded if they are negative.
    pub(super) fn count(&mut self, name: &Arc<str>, units: i64, window: Window, sub_window: SubWindow) {
        let span = sub_window / u64::from(window.sub_windows());
        self.roll_to(span);
        let known = self.agents.iter().position(|agent| Arc::ptr_eq(&agent.name, name) || agent.name == *name);
        let index = known.unwrap_or_else(|| {
            if self.agents.len() < AGENTS_LEN_MAX && units > 0 {
                // Most counters have one agent.
                self.agents.reserve_exact(usize::from(self.agents.is_empty()));
                self.agents.push(AgentSpans { name: name.clone(), current: 0, previous: 0 });
                return self.agents.len() - 1;
            }
            usize::MAX
        });
        let Some(agent) = self.agents.get_mut(index) else { return };
        let counted = match self.span - span {
            0 => &mut agent.current,
            1 => &mut agent.previous,
            _ => return,
        };
        let units = i32::try_from(units).unwrap_or(if units < 0 { i32::MIN } else { i32::MAX });
        *counted = counted.saturating_add_signed(units);
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the agents and their units in the window that ends in a sub-window, the greatest first, then by name. As
    /// in an interpolated window, the previous span counts by its part that is left.
    pub(super) fn in_window(&self, window: Window, now: SubWindow) -> Vec<(&Arc<str>, u64)> {
        let parts = u64::from(window.sub_windows());
        let (span, left) = (now / parts, parts - now % parts);
        let units = |agent: &AgentSpans| match span.saturating_sub(self.span) {
            0 => u64::from(agent.current) + (u64::from(agent.previous) * left).div_ceil(parts),
            1 => (u64::from(agent.current) * left).div_ceil(parts),
            _ => 0,
        };
        let mut agents: Vec<_> = self.agents.iter().map(|agent| (&agent.name, units(agent))).collect();
        agents.retain(|(_, units)| *units > 0);
        agents.sort_unstable_by(|(a, a_units), (b, b_units)| b_units.cmp(a_units).then(a.cmp(b)));
        agents
    }

    /// Moves to a later span. Agents without units make room.
    fn roll_to(&mut self, span: u64) {
        let steps = span.saturating_sub(self.span);
        if steps == 0 {
            return;
        }
        self.span = span;
        for agent in &mut self.agents {
            agent.previous = if steps == 1 { agent.current } else { 0 };
            agent.current = 0;
        }
        self.agents.retain(|agent| agent.previous > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window() -> Window {
        Window::new(60_000, 12).unwrap()
    }

    fn seen(units: &UnitsByAgent, sub_window: SubWindow) -> Vec<(&str, u64)> {
        units.in_window(window(), sub_window).into_iter().map(|(name, units)| (&**name, units)).collect()
    }

    #[test]
    fn units_count_by_agent_until_their_window_has_passed() {
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let mut units = UnitsByAgent::default();
        units.count(&a, 6, window(), 120);
        units.count(&b, 9, window(), 125);
        units.count(&a, 6, window(), 131);
        units.count(&"a".into(), -1, window(), 131);
        assert_eq!(seen(&units, 131), [("a", 11), ("b", 9)]);
        units.count(&b, 4, window(), 132);
        units.count(&a, 1, window(), 131);
        units.count(&a, 99, window(), 119);
        assert_eq!(seen(&units, 132), [("b", 13), ("a", 12)], "the one before last does not count");
        assert_eq!(seen(&units, 138), [("b", 9), ("a", 6)], "half of the previous span");
        assert_eq!(seen(&units, 150), [("b", 2)]);
        assert_eq!(seen(&units, 156), []);
    }

    /// capped: agents past the cap are others, until one of the first is gone.
    #[test]
    fn agents_past_the_cap_wait_for_room() {
        let mut units = UnitsByAgent::default();
        let name = |number: usize| -> Arc<str> { format!("a{number}").into() };
        (0..=AGENTS_LEN_MAX).for_each(|number| units.count(&name(number), 1, window(), 120));
        assert_eq!(seen(&units, 120).len(), AGENTS_LEN_MAX);
        units.count(&name(1), 1, window(), 132);
        units.count(&name(1), 1, window(), 144);
        units.count(&name(99), 1, window(), 144);
        assert_eq!(seen(&units, 144), [("a1", 2), ("a99", 1)]);
    }
}
