//! DuckDB and ClickHouse, and the statements of docs/warehouse.md for them.
//!
//! The statements are taken from the page, so each of them is run. Replaced are only the address of the broker, the topic in the
//! line of kcat, which writes the files for DuckDB, and the caller of single decisions. ClickHouse is chdb, which runs with
//! `scripts/test --full` because it is large. Its Kafka engine reads the topic itself.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use tollgate_servers::{finish, python_script};

const DOCUMENT: &str = include_str!("../../../../docs/warehouse.md");
/// Address of Kafka in the document.
const BROKER: &str = "broker:9092";
/// Script for DuckDB: reads statements as JSON lines, and answers each with its rows. A time is the text of its seconds in Unix
/// time.
const DUCKDB: &str = "
import calendar, datetime, json, sys
import duckdb

def plain(value):
    return str(calendar.timegm(value.timetuple())) if isinstance(value, datetime.datetime) else value

connection = duckdb.connect()
for line in sys.stdin:
    rows = connection.execute(json.loads(line)).fetchall()
    print(json.dumps([[plain(value) for value in row] for row in rows]), flush=True)
";
/// Script for ClickHouse, with the same lines. chdb creates a table of the Kafka engine and starts its reader, but answers with an
/// error, which is passed over: without a reader, no line would come.
const CLICKHOUSE: &str = "
import json, sys
from chdb import session

database = session.Session('clickhouse')
database.query(\"SET date_time_output_format = 'unix_timestamp'\")
for line in sys.stdin:
    statement = json.loads(line)
    try:
        rows = str(database.query(statement, 'JSONCompactEachRow'))
    except Exception as error:
        if 'ENGINE = Kafka' not in statement or 'Shutdown was called' not in str(error):
            raise
        rows = ''
    print(json.dumps([json.loads(row) for row in rows.splitlines()]), flush=True)
";

/// Database in a Python process, ended when dropped.
pub(super) struct Warehouse {
    process: Child,
    statements: Option<ChildStdin>,
    rows: BufReader<ChildStdout>,
}

impl Warehouse {
    /// Starts DuckDB, whose files are in this folder.
    pub(super) fn duckdb(folder: &Path) -> Self {
        Self::start(python_script(DUCKDB, "duckdb", "scripts/servers"), folder)
    }

    /// Starts ClickHouse, and runs these statements over this Kafka.
    pub(super) fn clickhouse(brokers: &str, folder: &Path, statements: &[&str]) -> Self {
        let mut clickhouse = Self::start(python_script(CLICKHOUSE, "chdb", "scripts/servers full"), folder);
        for statement in statements {
            clickhouse.run(&statement.replace(BROKER, brokers));
        }
        clickhouse
    }

    fn start(mut python: Command, folder: &Path) -> Self {
        let python = python.current_dir(folder).env("TZ", "UTC").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = python.spawn().expect("Python runs");
        let rows = BufReader::new(process.stdout.take().expect("it is piped"));
        Self { statements: process.stdin.take(), process, rows }
    }

    /// Runs a statement and returns its rows.
    pub(super) fn run(&mut self, statement: &str) -> Vec<Value> {
        let statements = self.statements.as_mut().expect("it runs");
        writeln!(statements, "{}", json!(statement)).expect("Python reads; its error is above");
        let mut rows = String::new();
        self.rows.read_line(&mut rows).expect("Python answers");
        serde_json::from_str(&rows).unwrap_or_else(|_| panic!("the error of Python is above: {statement}"))
    }
}

impl Drop for Warehouse {
    /// Ends Python by the end of its input.
    fn drop(&mut self) {
        self.statements = None;
        let _ = self.process.wait();
    }
}

/// Returns the statements of the page by the headings of their sections. No text in them has a semicolon.
pub(super) fn sections() -> BTreeMap<&'static str, Vec<&'static str>> {
    let mut sections: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for section in DOCUMENT.split("\n## ").skip(1) {
        let (heading, text) = section.split_once('\n').expect("a heading is a line");
        for block in text.split("```sql\n").skip(1) {
            let (block, _) = block.split_once("```").expect("a block ends");
            let statements = block.split(';').map(str::trim).filter(|statement| !statement.is_empty());
            sections.entry(heading).or_default().extend(statements);
        }
    }
    let found: Vec<_> = sections.keys().copied().collect();
    assert_eq!(found, ["ClickHouse", "DuckDB", "Queries", "Single decisions"], "run each section of the page");
    sections
}

/// Writes a topic into a file of its name, by the page's line of kcat.
pub(super) fn write_file(brokers: &str, topic: &str, folder: &Path) {
    let line = DOCUMENT.split('`').find(|code| code.starts_with("kcat ")).expect("the page has a line of kcat");
    let line = line.replace(BROKER, brokers).replace("rollups", topic);
    let kcat = finish(Command::new("sh").args(["-c", &line]).current_dir(folder));
    assert_eq!(kcat.exit, 0, "{line}: {} (scripts/servers installs kcat, or apt-get install kcat)", kcat.err);
}
