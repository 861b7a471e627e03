//! `cost:` and `costs:`: how many units a call takes, and that some call can pay.

use std::sync::Arc;

use super::patterns::quoted;
use super::warn_unknown;
use crate::yaml::{Fields, Node, Reader, line_of};
use tollgate_core::rules::DescriptorSpec;
use tollgate_core::rules::{LimitPolicy, Pattern, Rule, parse_units};

const CHEAPER: &str = "lower the cost, or raise the quota or the burst";

type Table = (Arc<str>, Vec<(Pattern, u64)>);

pub(super) fn read_cost(reader: &mut Reader<'_>, node: &Node<'_>, what: &str) -> Option<u64> {
    let text = reader.text(node, what)?;
    let cost = parse_units(text).ok().map(|(units, _)| units);
    if cost.is_none() {
        reader.refuse(line_of(node), format!("{what} is `{text}`; write a number of units, such as 5 or 10kB"));
    }
    cost
}

pub(super) fn read_costs(reader: &mut Reader<'_>, node: &Node<'_>, known: &[DescriptorSpec]) -> Option<Table> {
    let fields = reader.mapping(node, "`costs`");
    let mut by = fields.iter();
    let (Some((name, table)), None) = (by.next(), by.next()) else {
        reader.refuse(line_of(node), "`costs` go by one descriptor; write such as { endpoint: { /search*: 5 } }");
        return None;
    };
    warn_unknown(reader, line_of(table), name, known);
    let mut costs = Vec::new();
    for (pattern, node) in reader.mapping(table, "`costs`").iter() {
        if let Some(cost) = read_cost(reader, node, "a cost") {
            costs.push((Pattern::parse(pattern), cost));
        }
    }
    if reader.mapping(table, "`costs`").iter().next().is_none() {
        reader.warn(
            line_of(table),
            format!("`costs` by `{name}` are empty, so they set no cost; write some, or remove them"),
        );
    }
    Some((name.into(), costs))
}

/// That no call is too dear for ever.
pub(super) fn check_costs(reader: &mut Reader<'_>, fields: &Fields<'_>, rule: &Rule, known: &[DescriptorSpec]) {
    let (Some(least), Some(most)) =
        (rule.all_policies().map(LimitPolicy::at_once).min(), rule.all_policies().map(LimitPolicy::at_once).max())
    else {
        return;
    };
    let (by, table) = rule.costs.as_ref().map_or(("", &[][..]), |(by, table)| (by, table));
    let line = |name: &str| fields.get(name).map_or(fields.line(), line_of);
    let all_dear = !table.is_empty() && table.iter().all(|(_, cost)| *cost > most);
    if let Some(cost) = rule.cost.filter(|cost| *cost > most && (table.is_empty() || all_dear)) {
        let text =
            format!("a call costs {cost}, and at most {most} pass at once, so every call would be denied; {CHEAPER}");
        reader.refuse(line("cost"), text);
    } else if all_dear {
        let text = format!(
            "every entry costs more than the {most} that pass at once, so all of them would be denied; {CHEAPER}"
        );
        reader.refuse(line("costs"), text);
    } else {
        let others = rule.cost.map(|cost| ("another call".to_owned(), cost, "cost")).into_iter();
        let named = table.iter().map(|(pattern, cost)| (format!("`{}`", quoted(pattern, by, known)), *cost, "costs"));
        for (what, cost, field) in named.chain(others).filter(|(_, cost, _)| *cost > least) {
            let whom = if cost > most { "" } else { " in the lowest tier" };
            reader.warn(
                line(field),
                format!("{what} costs {cost}, and at most {least} pass at once{whom}: it never passes"),
            );
        }
    }
    if rule.cost == Some(0) && table.is_empty() {
        reader.warn(line("cost"), "a call costs 0, so nothing is ever counted or limited by this rule");
    }
}
