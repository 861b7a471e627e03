//! `cost` and `costs`: the units that a call takes, and the check that some call can pass.

use serde_json::{Value, json};
use tollgate_core::rules::{DescriptorSpec, LimitPolicy, Pattern, Rule, parse_units};

use crate::display::quoted_pattern;
use crate::hint;
use crate::request_values::warn_unmet_text;
use crate::schema::{map_of, units};
use crate::yaml::{Fields, Node, YamlReader, line_of};

const CHEAPER: &str = "lower the cost, or raise the quota or the burst";

pub(super) fn read_costs(reader: &mut YamlReader<'_>, node: &Node<'_>, known: &[DescriptorSpec], rule: &mut Rule) {
    let fields = reader.mapping(node, "`costs`");
    let mut by = fields.iter();
    let (Some((name, table)), None) = (by.next(), by.next()) else {
        reader.refuse(line_of(node), "`costs` go by one descriptor; write such as { endpoint: { /search*: 5 } }");
        return;
    };
    warn_undeclared(reader, line_of(table), name, known);
    let entries = reader.mapping(table, "`costs`");
    if entries.iter().next().is_none() {
        let text = format!("`costs` by `{name}` are empty, so they set no cost; write some, or remove them");
        reader.warn(line_of(table), text);
    }
    for (text, line) in entries.names() {
        warn_unmet_text(reader, line, name, text, known);
    }
    let cost = |(pattern, node)| Some((Pattern::parse(pattern), read_units(reader, node, "a cost")?));
    let costs = entries.iter().filter_map(cost).collect();
    rule.costs = Some((name.into(), costs));
}

pub(super) fn costs_form() -> Value {
    let mut costs = map_of(&map_of(&units()));
    costs["type"] = "object".into();
    (costs["minProperties"], costs["maxProperties"]) = (1.into(), 1.into());
    costs
}

pub(super) fn cost_text(rule: &Rule) -> Option<String> {
    let named = rule
        .costs
        .iter()
        .flat_map(|(name, table)| table.iter().map(move |(pattern, cost)| format!("{cost} if {name}={pattern}")));
    let parts: Vec<String> = named.chain(rule.cost.map(|cost| cost.to_string())).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

pub(super) fn costs_json(rule: &Rule) -> Value {
    let entry = |(pattern, cost): &(Pattern, u64)| json!({ "match": pattern.to_string(), "cost": cost });
    let costs = rule.costs.as_ref();
    costs.map(|(name, table)| json!({ "by": **name, "table": table.iter().map(entry).collect::<Vec<_>>() })).into()
}

/// Warns of a descriptor that is not declared: only a call that carries it itself has a value.
pub(crate) fn warn_undeclared(reader: &mut YamlReader<'_>, line: usize, name: &str, known: &[DescriptorSpec]) {
    if known.iter().all(|spec| *spec.name != *name) {
        let hint = hint(name, known.iter().map(|spec| &*spec.name));
        let text =
            format!("`{name}` is not under `descriptors`, so only a call that names it itself is counted by it{hint}");
        reader.warn(line, text);
    }
}

/// Checks that some call can pass: a call that costs more than passes at once is always denied.
pub(crate) fn check_costs(reader: &mut YamlReader<'_>, fields: &Fields<'_>, rule: &Rule, known: &[DescriptorSpec]) {
    let at_once = || rule.all_policies().map(LimitPolicy::at_once);
    let Some((least, most)) = at_once().min().zip(at_once().max()) else { return };
    let (by, table) = rule.costs.as_ref().map_or(("", &[][..]), |(by, table)| (by, table));
    let line = |name: &str| fields.get(name).map_or(fields.line(), line_of);
    let all_too_dear = table.iter().all(|(_, cost)| *cost > most);
    if let Some(cost) = rule.cost.filter(|cost| *cost > most && all_too_dear) {
        let text =
            format!("a call costs {cost}, and at most {most} pass at once, so every call would be denied; {CHEAPER}");
        reader.refuse(line("cost"), text);
    } else if all_too_dear && !table.is_empty() {
        let text = format!(
            "every entry costs more than the {most} that pass at once, so all of them would be denied; {CHEAPER}"
        );
        reader.refuse(line("costs"), text);
    } else {
        let named =
            table.iter().map(|(pattern, cost)| (format!("`{}`", quoted_pattern(pattern, by, known)), *cost, "costs"));
        let others = rule.cost.map(|cost| ("another call".to_owned(), cost, "cost"));
        for (what, cost, field) in named.chain(others).filter(|(_, cost, _)| *cost > least) {
            let tier = if cost > most { "" } else { " in the lowest tier" };
            let text = format!("{what} costs {cost}, and at most {least} pass at once{tier}: it never passes");
            reader.warn(line(field), text);
        }
    }
    if rule.cost == Some(0) && table.is_empty() {
        reader.warn(line("cost"), "a call costs 0, so nothing is ever counted or limited by this rule");
    }
}

pub(super) fn read_units(reader: &mut YamlReader<'_>, node: &Node<'_>, what: &str) -> Option<u64> {
    reader.parse_by(node, what, "a number of units, such as 5 or 10kB", |text| Some(parse_units(text).ok()?.0))
}
