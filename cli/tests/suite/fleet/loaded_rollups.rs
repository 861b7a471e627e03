//! The topic `rollups` of a fleet in DuckDB and ClickHouse, loaded and read by the statements of docs/warehouse.md: the sums equal
//! those of the callers' own logs.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use tollgate_servers::is_full;

use super::warehouse::{Warehouse, sections, write_file};
use crate::support::wait_for;

/// Number of rows that the page's queries show.
const TOP_LEN: usize = 10;

/// Admitted and denied calls, as callers saw them.
pub(super) struct Seen {
    /// Calls by minute.
    pub(super) calls: BTreeMap<u64, (u64, u64)>,
    /// Calls by rule, label of the caller and minute.
    pub(super) callers: BTreeMap<(String, String, u64), (u64, u64)>,
    /// Calls by agent.
    pub(super) agents: BTreeMap<String, (u64, u64)>,
    /// Quota of each rule, in a minute.
    pub(super) quotas: BTreeMap<String, u64>,
}

impl Seen {
    /// Compares the sums of all callers in a table or a view with those that they saw.
    fn assert_callers(&self, warehouse: &mut Warehouse, table: &str) {
        let found = warehouse.run(&format!(
            "SELECT rule, name, start_ms, sum(admitted), sum(denied) FROM {table} WHERE \"by\" = 'caller'
             GROUP BY rule, name, start_ms ORDER BY rule, name, start_ms"
        ));
        let callers = self.callers.iter();
        let expected: Vec<_> = callers
            .map(|((rule, caller, minute), (admitted, denied))| json!([rule, caller, minute, admitted, denied]))
            .collect();
        assert_eq!(found, expected, "{table}");
    }

    /// Compares the answers of the page's queries with the callers' logs.
    fn assert_queries(&self, warehouse: &mut Warehouse, queries: &[&str]) {
        let [calls, denied, near, new, others] = queries else { panic!("compare each query of the page: {queries:?}") };
        let expected: Vec<_> = self.calls.iter().map(|(minute, (a, d))| json!([seconds(*minute), a, d])).collect();
        assert_eq!(warehouse.run(calls), expected, "{calls}");

        let mut sums: BTreeMap<(&str, &str), f64> = BTreeMap::new();
        let mut parts = sums.clone();
        let mut since = sums.clone();
        let mut rules: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for ((rule, caller, minute), (admitted, denied)) in &self.callers {
            let name = (&**rule, &**caller);
            *sums.entry(name).or_default() += number(&json!(denied));
            let part = number(&json!(admitted)) / number(&json!(self.quotas[rule]));
            parts.entry(name).and_modify(|most| *most = most.max(part)).or_insert(part);
            if *denied > 0 {
                // Minutes come in their order.
                since.entry(name).or_insert_with(|| number(&json!(seconds(*minute))));
            }
            let of_rule = rules.entry(rule).or_default();
            *of_rule = (of_rule.0 + admitted, of_rule.1 + denied);
        }
        for (query, of) in [(denied, sums), (near, parts), (new, since)] {
            assert_top(&warehouse.run(query), &of, query);
        }

        let agents = self.agents.iter().map(|(name, (a, d))| json!(["agent", "", name, a, d]));
        let expected = agents.chain(rules.iter().map(|(name, (a, d))| json!(["rule", name, "", a, d])));
        let mut found = warehouse.run(others);
        found.sort_by_key(ToString::to_string);
        assert_eq!(found, expected.collect::<Vec<_>>(), "{others}");
    }
}

/// Loads the topic and compares it with the calls. Nobody but `write_again` may write to it meanwhile: that writes older lines and
/// repeats all, which must not change a sum. ClickHouse has stored the lines before, so that it does not find both in one insert.
pub(super) fn assert_equal(brokers: &str, seen: &Seen, write_again: impl FnOnce()) {
    let sections = sections();
    let folder = tempfile::tempdir().expect("a folder");
    let mut clickhouse = is_full().then(|| start_clickhouse(brokers, folder.path(), &sections["ClickHouse"]));
    write_file(brokers, "rollups", folder.path());
    // ClickHouse keeps one of several lines with one key in an insert, so it may have fewer lines than the topic.
    let before = clickhouse.as_mut().map(|clickhouse| {
        let read = newest(&mut start_duckdb(folder.path(), &sections["DuckDB"]));
        wait_for("all lines in ClickHouse", || (newest(clickhouse) == read).then(|| stored(clickhouse)))
    });
    write_again();

    write_file(brokers, "rollups", folder.path());
    let mut duckdb = start_duckdb(folder.path(), &sections["DuckDB"]);
    seen.assert_callers(&mut duckdb, "minutes");
    seen.assert_callers(&mut duckdb, "'rollups.parquet'");
    seen.assert_queries(&mut duckdb, &sections["Queries"]);

    if let (Some(clickhouse), Some(before)) = (&mut clickhouse, before) {
        let [lines, as_of] = newest(&mut duckdb);
        wait_for("the topic in ClickHouse", || {
            (newest(clickhouse) == [lines, as_of] && stored(clickhouse) >= before + lines).then_some(())
        });
        seen.assert_callers(clickhouse, "minutes");
        seen.assert_queries(clickhouse, &sections["Queries"]);
    }
}

/// Starts ClickHouse with the tables of the page. Nothing merges the lines, so that the view must find the newest ones.
fn start_clickhouse(brokers: &str, folder: &Path, statements: &[&str]) -> Warehouse {
    let mut clickhouse = Warehouse::clickhouse(brokers, folder, statements);
    clickhouse.run("SYSTEM STOP MERGES rollups");
    clickhouse
}

/// Starts DuckDB with the file of this folder.
fn start_duckdb(folder: &Path, statements: &[&str]) -> Warehouse {
    let mut duckdb = Warehouse::duckdb(folder);
    for statement in statements {
        duckdb.run(statement);
    }
    duckdb
}

/// Returns number and age of the newest lines: equal in two warehouses that have read the same topic.
fn newest(warehouse: &mut Warehouse) -> [u64; 2] {
    let rows = warehouse.run("SELECT count(), sum(as_of) FROM minutes");
    [0, 1].map(|column| rows[0][column].as_u64().unwrap_or_default())
}

/// Returns the number of lines in ClickHouse's table, with those that a newer line replaces.
fn stored(clickhouse: &mut Warehouse) -> u64 {
    clickhouse.run("SELECT count() FROM rollups")[0][0].as_u64().expect("a count")
}

/// Compares rows of rule, caller and number with the callers of the greatest numbers. Of equal numbers, any may be the last.
/// Quotients are compared to the ninth digit, because DuckDB multiplies by the reciprocal.
fn assert_top(rows: &[Value], of: &BTreeMap<(&str, &str), f64>, query: &str) {
    let rounded = |number: f64| (number * 1e9).round();
    let mut greatest: Vec<f64> = of.values().copied().map(rounded).collect();
    greatest.sort_by(|a, b| b.total_cmp(a));
    greatest.truncate(TOP_LEN);
    let found: Vec<f64> = rows.iter().map(|row| rounded(number(&row[2]))).collect();
    assert_eq!(found, greatest, "{query}");
    for row in rows {
        let text = |column: usize| row[column].as_str().expect("a text");
        let expected = of.get(&(text(0), text(1))).copied().map(rounded);
        assert_eq!(expected, Some(rounded(number(&row[2]))), "{row} of {query}");
    }
}

fn seconds(minute_ms: u64) -> String {
    (minute_ms / 1_000).to_string()
}

fn number(value: &Value) -> f64 {
    value.as_f64().or_else(|| value.as_str()?.parse().ok()).expect("a number")
}
