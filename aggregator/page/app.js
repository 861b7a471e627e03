// The page of Tollgate: shows the answers of the API under `api/v1/`, and writes nothing to the server.
//
// The stream `events` brings the state and the newest seconds once a second. Each table asks for its own data, only while
// it is on the screen. Filters, sort orders, the span and the selected range stand in the URL. Texts of the server are
// only ever set as text, never as markup. The chart is for the eye: the table below it has the same data.
//
// Order: constants, formats, elements, URL, requests, panels, columns, series, chart, state, connection, start.

const API = new URL("../api/v1/", import.meta.url);
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const SPANS = {
  "15m": { length: 15 * MINUTE, step: SECOND, stepName: "1s", name: "15 min" },
  "24h": { length: DAY, step: MINUTE, stepName: "1m", name: "24 h" },
};
const OPEN_SECONDS_MS = 2 * SECOND;       // the newest seconds are not shown: calls of them still arrive
const CALLER_MINUTES = 5;                 // range of the tables while no range is selected
const ENDPOINTS_MAX = 1000;               // rows of the table of endpoints
const ROW_STEPS = [10, 50, 200];
const SILENCE_MAX_MS = 5 * SECOND;        // a stream without an event for this time is lost
const RETRY_MAX_MS = 15 * SECOND;
const POLL_MS = 5 * SECOND;               // instead of the stream, if too many pages are open
const STREAM_RETRY_MIN_MS = 30 * SECOND;
const ANNOUNCE_MS = 10 * SECOND;          // minimum time between two announcements to a screen reader
const TOKEN_KEY = "tollgate-token";

// ---- Formats ----

const integer = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const decimal = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });
const tenth = new Intl.NumberFormat("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const secondFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const minuteFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const dayFormat = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const collator = new Intl.Collator("en", { numeric: true });

const count = (value) => (value == null ? "–" : integer.format(value));
const rate = (value) => (value == null ? "–" : (value >= 100 ? integer : decimal).format(value));
const permille = (value) => (value == null ? "–" : `${tenth.format(value / 10)}%`);
const names = (list) => list.slice(0, 5).join(", ") + (list.length > 5 ? ` and ${list.length - 5} more` : "");

// Returns a local time of day, with the day if it is not the day of `now`.
function clock(at, now = at, format = secondFormat) {
  if (at == null) return "–";
  const isSameDay = new Date(at).toDateString() === new Date(now).toDateString();
  return (isSameDay ? "" : `${dayFormat.format(at)}, `) + format.format(at);
}

// Returns a duration with at most two units: `120 ms`, `4.2 s`, `3 min 10 s`.
function duration(ms) {
  if (ms == null) return "–";
  if (Math.abs(ms) < SECOND) return `${Math.round(ms)} ms`;
  if (Math.abs(ms) < MINUTE) return `${decimal.format(ms / SECOND)} s`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min ${Math.floor((ms % MINUTE) / SECOND)} s`;
  if (ms < DAY) return `${Math.floor(ms / HOUR)} h ${Math.floor((ms % HOUR) / MINUTE)} min`;
  return `${Math.floor(ms / DAY)} d ${Math.floor((ms % DAY) / HOUR)} h`;
}

// Returns a quota in the syntax of the rules file: `100/min`, `5/15min`.
function quota(units, windowMs) {
  if (units == null) return "–";
  const [name, length] = [["d", DAY], ["h", HOUR], ["min", MINUTE], ["s", SECOND], ["ms", 1]]
    .find(([, length]) => windowMs % length === 0);
  return `${count(units)}/${windowMs === length ? "" : windowMs / length}${name}`;
}

// Returns the counts that are not zero: `count 2, list 1`.
const parts = (counts) => Object.entries(counts ?? {}).filter(([, value]) => value !== 0)
  .map(([name, value]) => `${name} ${count(value)}`).join(", ") || "–";

// ---- Elements ----

const byId = (id) => document.getElementById(id);

// Sets a text only if it differs, so that a selection and a screen reader are not disturbed.
function setText(target, text) {
  const element = typeof target === "string" ? byId(target) : target;
  if (element.textContent !== text) element.textContent = text;
}

// Creates an element with properties and children.
function create(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

// Shows a text, or hides its element if there is none.
function showNote(id, text) {
  byId(id).hidden = !text;
  setText(id, text);
}

// ---- URL ----

// Filters, span, range and the tables' orders, as in the URL. `range` is {from, to} in ms, without the end, or null.
// `tables` has the parameters `sort.PANEL` and `rows.PANEL`.
let view = readUrl();

function readUrl() {
  const query = new URLSearchParams(location.search);
  const [from, to] = [Date.parse(query.get("from")), Date.parse(query.get("to"))];
  return {
    rule: query.get("rule") ?? "",
    caller: query.get("caller") ?? "",
    span: query.get("span") === "24h" ? "24h" : "15m",
    range: from < to ? { from, to } : null,
    tables: Object.fromEntries([...query].filter(([name]) => /^(sort|rows)\./.test(name))),
  };
}

// Changes the view and the URL. A change that is not pushed replaces the present entry of the history.
function change(next, isPushed = true) {
  const before = view;
  view = { ...view, ...next };
  const iso = (at) => at && new Date(at).toISOString().replace(".000Z", "Z");
  const { rule, caller, range, tables } = view;
  const span = view.span === "15m" ? "" : view.span;
  const parameters = { rule, caller, span, from: iso(range?.from), to: iso(range?.to), ...tables };
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value));
  const text = query.toString().replaceAll("%3A", ":").replaceAll("%3D", "=");
  history[isPushed ? "pushState" : "replaceState"](null, "", (text ? `?${text}` : location.pathname) + location.hash);
  applyView(before);
}

// ---- Requests ----

// An answer of the API that is not a success. Its message is the detail of the problem.
class ApiError extends Error {
  constructor(response, problem) {
    super(problem.detail || problem.title || `HTTP status ${response.status}`);
    this.status = response.status;
    this.retryAfterMs = (Number(response.headers.get("Retry-After")) || 0) * SECOND;
  }
}

// Asks the API, and returns the response, or throws an `ApiError`. A 401 opens the form for a token.
async function ask(path, parameters, signal) {
  const url = new URL(path, API);
  for (const [name, value] of Object.entries(parameters)) if (value !== "") url.searchParams.set(name, value);
  const token = sessionStorage.getItem(TOKEN_KEY);
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const response = await fetch(url, { headers, signal, cache: "no-store" });
  if (response.ok) return response;
  const error = new ApiError(response, await response.json().catch(() => ({})));
  if (error.status === 401) askToken(token ? `The token was refused: ${error.message}` : "");
  throw error;
}

const askJson = async (...question) => (await ask(...question)).json();

// ---- Panels ----

const panels = {};

// A sortable table with its question to the API, which is asked again after `everyMs`, or later if answers take long.
//
// `columns`: see below. `key`: a unique text or number of a row. `order`: the column by which the answer is sorted, `-`
// for descending. `rows`, `caption`, `note`: read from the answer. `section`: is hidden while the API does not have the
// path. `isNeeded`: is true if it asks even off the screen.
class Panel {
  constructor(options) {
    const defaults = { path: "", section: "", order: "", question: () => ({}), note: () => "", onBody: () => {},
      isNeeded: () => this.section && byId(this.section).hidden };
    const start = { rowElements: new Map(), data: [], body: {}, nextAt: 0, isSeen: false, request: null };
    Object.assign(this, defaults, options, start);
    this.element = byId(`panel-${this.id}`);
    this.captionText = create("span");
    this.head = create("tr");
    for (const column of this.columns) {
      const button = create("button", { type: "button", onclick: () => this.sortBy(column) }, column.label);
      this.head.append(create("th", { scope: "col", className: column.isNumber ? "number" : "" }, button));
    }
    this.tbody = create("tbody");
    const table = create("table", {}, create("caption", {}, this.captionText), create("thead", {}, this.head), this.tbody);
    this.scroll = create("div", { className: "scroll" }, table);
    this.emptyNote = create("p", { className: "note", hidden: true }, this.empty);
    this.noteElement = create("p", { className: "note" });
    this.more = create("button", { type: "button", hidden: true, onclick: () => this.showMore() });
    this.element.append(this.scroll, this.emptyNote, this.noteElement, this.more);
    panels[this.id] = this;
  }

  isDue(now) {
    return this.path && (this.isSeen || this.isNeeded()) && !this.request && now >= this.nextAt;
  }

  // Asks at the next tick, and drops an answer under way, which belongs to another question.
  refresh() {
    this.request?.abort();
    this.request = null;
    this.nextAt = 0;
  }

  async load() {
    const request = (this.request = new AbortController());
    const began = performance.now();
    const error = await askJson(this.path, this.question(this), request.signal)
      .then((body) => this.request === request && this.show(body), (error) => error);
    if (this.request !== request) return;
    this.request = null;
    this.nextAt = began + Math.max(this.everyMs, 10 * (performance.now() - began));
    if (error instanceof Error) this.showError(error);
  }

  show(body) {
    this.body = body;
    this.data = this.rows(body);
    this.element.classList.remove("failed");
    setText(this.captionText, this.caption(body));
    setText(this.noteElement, this.note(body));
    this.more.hidden = !(body.matched > ROW_STEPS[0]);
    setText(this.more, `Show ${this.nextRowCount()} rows`);
    this.arrange();
    this.showSection(true);
    this.onBody(body);
  }

  // Keeps the old rows, greyed, above the error. A missing path is asked for only once a minute.
  showError(error) {
    this.element.classList.add("failed");
    setText(this.noteElement, `Not up to date: ${error.message}`);
    if (error.status !== 404) return;
    this.nextAt = performance.now() + MINUTE;
    this.showSection(false);
  }

  showSection(isShown) {
    if (!this.section) return;
    byId(this.section).hidden = !isShown;
    document.querySelector(`nav a[href="#${this.section}"]`).hidden = !isShown;
  }

  rowCount() {
    const rows = Number(view.tables[`rows.${this.id}`]);
    return ROW_STEPS.includes(rows) ? rows : ROW_STEPS[0];
  }

  nextRowCount() {
    const next = ROW_STEPS[ROW_STEPS.indexOf(this.rowCount()) + 1];
    return this.rowCount() < this.body.matched && next ? next : ROW_STEPS[0];
  }

  showMore() {
    change({ tables: { ...view.tables, [`rows.${this.id}`]: String(this.nextRowCount()) } });
  }

  // Returns the column and the direction of the order, from the URL or of the answer.
  present() {
    const order = view.tables[`sort.${this.id}`] ?? this.order;
    return [this.columns.find((column) => column.id === order.replace(/^-/, "")), order.startsWith("-") ? -1 : 1];
  }

  // Sorts by a column: numbers begin with the largest. A second click turns the order round.
  sortBy(column) {
    const [present, sign] = this.present();
    const next = present === column ? -sign : column.isNumber ? -1 : 1;
    change({ tables: { ...view.tables, [`sort.${this.id}`]: (next < 0 ? "-" : "") + column.id } });
  }

  sorted() {
    const [column, sign] = this.present();
    if (!column) return this.data;
    return this.data.map((row) => [column.value(row), row]).sort(([a], [b]) => {
      if (a == null || b == null) return (a == null) - (b == null);
      return sign * (typeof a === "number" ? a - b : collator.compare(a, b));
    }).map(([, row]) => row);
  }

  // Shows the rows in order. Rows keep their elements while they move, and a button in them keeps the focus.
  arrange() {
    const [column, sign] = this.present();
    this.columns.forEach((each, at) => {
      this.head.cells[at].ariaSort = each !== column ? null : sign < 0 ? "descending" : "ascending";
    });
    const focused = this.tbody.contains(document.activeElement) ? document.activeElement : null;
    const old = this.rowElements;
    this.rowElements = new Map();
    let next = this.tbody.firstElementChild;
    for (const row of this.sorted()) {
      const key = this.key(row);
      const element = old.get(key) ?? this.createRow();
      old.delete(key);
      this.rowElements.set(key, element);
      this.columns.forEach((column, at) => this.fill(element.cells[at], column, row));
      if (element === next) next = next.nextElementSibling;
      else this.tbody.insertBefore(element, next);
    }
    for (const element of old.values()) element.remove();
    if (focused && focused !== document.activeElement) focused.focus({ preventScroll: true });
    this.scroll.hidden = this.data.length === 0;
    this.emptyNote.hidden = this.data.length > 0;
  }

  createRow() {
    return create("tr", {}, ...this.columns.map((column, at) => {
      const cell = at === 0 ? create("th", { scope: "row" }) : create("td");
      cell.className = `${column.isNumber ? "number " : ""}${column.className ?? ""}`;
      if (column.press) cell.append(create("button", { type: "button" }));
      else if (column.className === "code") cell.append(create("span"));
      return cell;
    }));
  }

  // Fills a cell. `data-value` has the exact number, for tools.
  fill(cell, column, row) {
    const target = cell.firstElementChild ?? cell;
    setText(target, String(column.show(row, this.body)));
    const value = column.value(row);
    if (typeof value === "number") cell.dataset.value = value;
    else delete cell.dataset.value;
    if (column.isBad) cell.classList.toggle("bad", column.isBad(row));
    if (column.percent) cell.style.setProperty("--part", `${Math.min(100, column.percent(row))}%`);
    if (!column.press) return;
    target.onclick = () => column.press(row);
    target.ariaPressed = String(column.isPressed(row));
  }
}

// ---- Columns and tables ----

// Columns have an id, a label, a value of a row to sort by, and a text of a row and its answer to show.
const text = (id, label, value = (row) => row[id]) => ({ id, label, value, show: (row) => value(row) ?? "–" });
const code = (id, label, value) => ({ ...text(id, label, value), className: "code" });
const words = (id, label, value) => ({ ...text(id, label, value), className: "words" });
const number = (id, label, value = (row) => row[id], format = count) =>
  ({ id, label, value, show: (row) => format(value(row), row), isNumber: true });
const time = (id, label, value) =>
  ({ ...number(id, label, value), show: (row, body) => clock((value ?? ((row) => row[id]))(row), body.now_ms) });
const minute = (id, label) => ({ ...number(id, label), show: (row, body) => clock(row[id], body.now_ms, minuteFormat) });
const age = (id, label) => ({
  ...number(id, label),
  show: (row, body) => duration(row[id] == null ? null : Math.max(0, body.now_ms - row[id])),
});
const bad = (column, isBad) => ({ ...column, isBad });
const lastMinute = (column) => number(column.id, column.label, (row) => column.value(row.last_minute));

const admitted = number("admitted", "Admitted");
const denied = number("denied", "Denied");
const shadowDenied = number("shadow_denied", "Shadow");
const units = number("units", "Units");
const calls = number("calls", "Calls", (row) => row.admitted + row.denied);
const share = number("share", "Denied %", (row) => (1000 * row.denied) / (row.admitted + row.denied || 1), permille);
const lastDenied = minute("last_denied_ms", "Last denied");
const deniedBy = text("denied_by", "Denied by", (row) => parts((row.last_minute ?? row).denied_by));
const decidedBy = text("by_source", "Decided by", (row) => parts((row.last_minute ?? row).by_source));
const used = { ...number("used", "Used", (row) => row.used_permille, permille), className: "bar", percent: (row) => row.used_permille / 10 };

// Returns the minutes of the tables: until now, since the start of the selected range.
function rangeMinutes() {
  if (!view.range) return CALLER_MINUTES;
  const minutes = Math.ceil(((state.status?.now_ms ?? Date.now()) - view.range.from) / MINUTE);
  return Math.min(DAY / MINUTE, Math.max(1, minutes));
}

const since = (minutes) => `last ${minutes} min${view.range ? ", since the start of the selected range" : ""}`;

// Returns the state of an agent's rules in words.
const rulesState = ({ rules_state: state, rules_refusal: reason }) =>
  ({ refused: `refused: ${reason}`, own: "not published", ahead: "ahead of the published ones" })[state] ?? state;

// Marks the numbers of a caller whose first calls may be in `(others)`.
const atLeast = (column) => ({ ...column, show: (row, body) => (row.missing_max ? "≥ " : "") + column.show(row, body) });

// Creates a table of callers, as the API sorts them.
function createCallers(sort, order, caption, columns) {
  new Panel({
    id: sort, path: "callers", everyMs: 2 * SECOND, order, caption, empty: "No callers.",
    question: (panel) => ({ rule: view.rule, caller: view.caller, sort, minutes: rangeMinutes(), limit: panel.rowCount() }),
    rows: (body) => body.callers, key: (row) => JSON.stringify([row.rule, row.caller]),
    columns: [code("caller", "Caller"), text("rule", "Rule"), ...columns.map((column) =>
      ([calls, admitted, denied, shadowDenied].includes(column) ? atLeast(column) : column))],
    note: ({ callers, matched }) => (matched ? `${count(callers.length)} of ${count(matched)} callers.` : ""),
  });
}

function createPanels() {
  new Panel({
    id: "series", order: "-at", empty: "No calls in this range.", rows: (body) => body.points, key: ([at]) => at,
    caption: (body) => body.caption,
    columns: [{ ...time("at", "Time", ([at]) => at), isNumber: false }, number("calls", "Calls", (point) => point[1] + point[2]),
      ...[admitted, denied, shadowDenied, units].map(({ id, label }, at) => number(id, label, (point) => point[at + 1]))],
  });
  createCallers("denied", "-denied", (body) => `Callers with the most denied calls, ${since(body.minutes)}.`,
    [denied, admitted, share, lastDenied]);
  createCallers("near", "-used", () => "Callers that have used most of their quota in the present window.",
    [used, number("units_used", "Units", (row) => row.used),
      number("quota", "Quota", (row) => row.quota, (units, row) => quota(units, row.window_ms)), denied]);
  createCallers("calls", "-calls", (body) => `Callers with the most calls, ${since(body.minutes)}.`,
    [calls, admitted, denied, shadowDenied, units]);
  createCallers("new", "-first_denied_ms", ({ now_ms: now, minutes }) => (state.status.rules_changed_ms
    ? `Callers denied since the rules changed at ${clock(state.status.rules_changed_ms, now)}, and not before.`
    : `Callers denied for the first time, ${since(minutes)}.`),
  [minute("first_denied_ms", "First denied"), lastDenied, denied, admitted]);
  new Panel({
    id: "rules", path: "rules", everyMs: 2 * SECOND, rows: (body) => body.rules, key: (row) => row.rule,
    caption: () => "Rules that calls met in the last 15 min, with counts of the last minute. Press one to filter the page by it.",
    empty: "No call has met a rule in the last 15 min.",
    isNeeded: () => !panels.rules.body.rules, onBody: showRuleOptions,
    columns: [
      { ...code("rule", "Rule"), isPressed: (row) => row.rule === view.rule,
        press: (row) => change({ rule: row.rule === view.rule ? "" : row.rule }) },
      words("calls", "Applies to", (row) => row.text?.calls),
      words("limits", "Limit", (row) => row.text?.limit ?? (row.limits.length ? quota(row.limits[0].quota, row.limits[0].window_ms) : null)),
      words("bound", "Bound while Redis answers", (row) => row.text?.bound),
      number("callers", "Callers", (row) => row.callers?.estimate, (value, row) => (row.callers?.exact === false ? "≈ " : "") + count(value)),
      ...[admitted, denied, shadowDenied, units].map(lastMinute), deniedBy, decidedBy, time("changed_ms", "Changed")],
  });
  new Panel({
    id: "exceptions", path: "exceptions", everyMs: 2 * SECOND, order: "until_ms", empty: "",
    question: (panel) => ({ rule: view.rule, limit: panel.rowCount() }),
    rows: (body) => body.exceptions, key: (row) => JSON.stringify([row.rule, row.list, row.callers, row.until_ms]),
    caption: () => "Overrides and list entries in force that end by themselves. The next one to end is first.",
    note: ({ exceptions, matched }) => (matched ? `${count(exceptions.length)} of ${count(matched)} exceptions.` : ""),
    onBody: ({ generation }) => setText(panels.exceptions.emptyNote, generation == null
      ? "This server does not know the rules: publish them, or start it with --rules." : "No exception in force ends by itself."),
    columns: [code("callers", "Callers"), text("rule", "Rule", (row) => row.rule ?? `${row.list} list`),
      text("quota", "Quota", (row) => row.quota ?? { allow: "never denied", deny: "denied" }[row.list]),
      { ...number("until_ms", "Time left"), show: (row, body) => duration(Math.max(0, row.until_ms - body.now_ms)) },
      { ...time("until", "Until", (row) => row.until_ms), isNumber: false }, words("reason", "Reason", (row) => row.reason || null)],
  });
  new Panel({
    id: "endpoints", path: "endpoints", everyMs: 5 * SECOND, order: "-calls", empty: "No calls with an endpoint.",
    question: () => ({ minutes: rangeMinutes(), limit: ENDPOINTS_MAX }), rows: (body) => body.endpoints, key: (row) => row.endpoint,
    caption: ({ matched }) => `Calls of all rules, ${since(rangeMinutes())}.`
      + (matched > ENDPOINTS_MAX ? ` The ${count(ENDPOINTS_MAX)} endpoints with the most calls of ${count(matched)}.` : ""),
    columns: [code("endpoint", "Endpoint"), calls, admitted, denied, share, shadowDenied, units, deniedBy],
  });
  new Panel({
    id: "agents", path: "agents", section: "agents", everyMs: 5 * SECOND, order: "agent", empty: "No agents.",
    rows: (body) => body.agents, key: (row) => row.agent,
    caption: ({ newest_generation: newest }) => (newest == null ? "" : `Newest published rules: generation ${newest}. `) + "Counts of the last minute.",
    columns: [text("agent", "Agent"), text("region", "Region"), age("seen_ms", "Seen, ago"), bad(text("store", "Redis"), (row) => row.store === "down"),
      number("generation", "Generation", undefined, (value) => value ?? "–"),
      bad(words("rules_state", "Rules", rulesState), (row) => ["behind", "refused", "ahead"].includes(row.rules_state)),
      text("emergency", "Emergency", (row) => row.seen_ms && (row.emergency ?? "off")), lastMinute(admitted), lastMinute(denied), decidedBy,
      number("clock_offset_ms", "Clock offset", undefined, duration),
      number("dropped_rows", "Dropped rows")],
  });
  new Panel({
    id: "partitions", path: "partitions", section: "partitions", everyMs: 5 * SECOND, order: "partition",
    empty: "No partitions.", rows: (body) => body.partitions, key: (row) => row.partition,
    caption: () => "Partitions of the calls, and the aggregators that count them.",
    columns: [text("partition", "Partition"), text("aggregator", "Aggregator"),
      text("restored", "Restored", (row) => (row.restored ? "yes" : "no")), number("lag_records", "Lag, records"),
      number("counters", "Counters"), number("read", "Read"), age("appended_ms", "Newest record, ago")],
  });
  // One answer fills both tables of regions. Without a ledger it is 404, and the section stays hidden.
  new Panel({
    id: "budgets", empty: "No counter is above its floor.", key: (row) => `${row.id} ${row.region}`,
    caption: () => "Units that each region holds and wants of the largest counters. Held contains the floor.",
    rows: (body) => (body.counters ?? []).flatMap((counter) => counter.regions.map((region) => ({ ...counter, ...region }))),
    columns: [code("caller", "Caller", (row) => row.label ?? row.id), text("rule", "Rule"), number("quota", "Quota"), number("free", "Free"),
      text("region", "Region"), number("floor", "Floor"), number("held", "Held"), number("wants", "Wants"),
      number("age_ms", "Renewed, ago", undefined, duration)],
  });
  new Panel({
    id: "usage", path: "regions", section: "regions", everyMs: 5 * SECOND, empty: "No usage is reported.",
    key: (row) => `${row.rule} ${row.region}`, question: () => ({ limit: 20 }), onBody: showRegions,
    caption: () => "Units of the last window. Quota is that of a caller that uses all regions.",
    rows: (body) => (body.usage?.rules ?? []).flatMap((rule) => rule.regions.map((region) => ({ ...rule, total: rule.used, ...region }))),
    columns: [text("rule", "Rule"), text("scope", "Scope"), number("over_regions", "Quota", undefined, (units, row) => quota(units, row.window_ms)),
      text("region", "Region"), number("used", "Used"), number("demand", "Demand"), number("total", "Used, all regions")],
  });
}

// Lists the rules in the filter. A rule of the URL that is not in force stays in the list.
function showRuleOptions({ rules }) {
  const wanted = [...new Set(["", ...rules.map((rule) => rule.rule), view.rule])];
  const select = byId("filter-rule");
  if (wanted.join("\n") !== [...select.options].map((option) => option.value).join("\n")) {
    select.replaceChildren(...wanted.map((rule) => new Option(rule || "All rules", rule)));
  }
  select.value = view.rule;
}

function showRegions(body) {
  panels.budgets.show(body);
  setText("regions-state", [`This region: ${body.region}`, `coordinator: ${body.coordinator ?? "none"}`,
    body.ledger?.read_to_end === false && "the ledger is still being read",
    body.ledger?.error, body.store_error, body.usage?.error].filter(Boolean).join("; "));
}

// Asks for each table that is due, twice a second while the page is visible and connected.
function tick() {
  if (connection.mode === "lost") showLost();
  if (document.hidden || !["live", "polling"].includes(connection.mode)) return;
  for (const panel of Object.values(panels)) if (panel.isDue(performance.now())) panel.load();
  if (view.span === "24h" && performance.now() >= series.nextAt) loadSeries(3 * MINUTE);
}

// ---- Series ----

// Points of the present rule and span by their time; seconds without calls are absent.
const series = { points: new Map(), from: 0, isLoaded: false, nextAt: 0, request: 0 };

// Loads the points of the whole span, or of its newest part. An error stands below the chart.
async function loadSeries(partMs = Infinity, signal = undefined) {
  const { length, step, stepName } = SPANS[view.span];
  const isWhole = partMs === Infinity || !series.isLoaded;
  const question = { rule: view.rule, step: stepName };
  if (!isWhole || view.span === "24h") {  // the whole 15 min are the default of the API
    const now = state.status.now_ms;
    question.from_ms = Math.ceil((now - (isWhole ? length - step : partMs)) / step) * step;
    question.to_ms = now;
  }
  series.nextAt = performance.now() + 10 * SECOND;
  const request = ++series.request;
  try {
    const body = await askJson("series", question, signal);
    if (request !== series.request) return;
    if (isWhole) Object.assign(series, { points: new Map(), from: Math.ceil(body.from_ms / step) * step, isLoaded: true });
    mergePoints(body.points);
    showNote("series-note", "");
    showSeries();
  } catch (error) {
    if (request === series.request && error instanceof ApiError) showNote("series-note", `Not up to date: ${error.message}`);
  }
}

function mergePoints(points) {
  for (const point of points) series.points.set(point[0], point);
}

// Returns the span that is shown, [from, to) in ms, which is a whole number of steps.
function shownSpan() {
  const { length, step } = SPANS[view.span];
  const now = state.status?.now_ms ?? Date.now();
  const to = Math.floor((step === MINUTE ? now + step : now - OPEN_SECONDS_MS) / step) * step;
  return { from: to - length, to, step };
}

// Shows the sums of the range, the chart, and the table if it is open.
function showSeries() {
  const span = shownSpan();
  const { from, to } = view.range ?? span;
  for (const at of series.points.keys()) if (at < Math.min(from, span.from)) series.points.delete(at);
  const isCut = view.range && series.isLoaded && from < series.from;
  const points = [...series.points.values()].filter(([at]) => at >= from && at < Math.min(to, span.to));
  for (const [field, name] of [[1, "admitted"], [2, "denied"], [3, "shadow"]]) {
    setText(`sum-${name}`, count(isCut ? null : points.reduce((sum, point) => sum + point[field], 0)));
  }
  const text = `${clock(from, span.to)} to ${clock(to, span.to)}`;
  const cutText = view.span === "15m" ? ": too old for 15 min, see 24 h" : ": older than 24 h";
  setText("sum-range", view.range ? `in the selected range, ${text}${isCut ? cutText : ""}` : `in the last ${SPANS[view.span].name}`);
  showChart(span);
  const caption = `${text}, by ${span.step === SECOND ? "second" : "minute"}. Times without calls are left out.`;
  if (byId("series-details").open) panels.series.show({ points, now_ms: span.to, caption });
}

// ---- Chart ----

const chart = { plot: null, span: null, isDragging: false };

// Creates the chart with the colours of the style sheet. Without uPlot the tables still work.
function createChart() {
  chart.plot?.destroy();
  const parent = byId("chart");
  if (!window.uPlot || !parent.clientWidth || !state.status) return;
  chart.span = shownSpan();
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const axis = { stroke: color("--muted"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false } };
  const paths = uPlot.paths.stepped({ align: 1 });
  const line = (name) => ({ stroke: color(name), width: 1, paths, points: { show: false } });
  const timeText = (_, splits) => splits.map((at) =>
    (splits[1] - splits[0] < 60 ? secondFormat : minuteFormat).format(at * SECOND));
  chart.plot = new uPlot({
    width: parent.clientWidth,
    height: 220,
    padding: [8, 20, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
    scales: {
      x: { range: () => [chart.span.from / SECOND, chart.span.to / SECOND] },
      y: { range: (_, min, max) => [0, Math.max(5, max * 1.1)] },
    },
    axes: [{ ...axis, values: timeText, space: 70, size: 26 }, { ...axis, size: 54, values: (_, splits) => splits.map(count) }],
    series: [{}, line("--denied"), line("--shadow"), { ...line("--admitted"), fill: `${color("--admitted")}99` }],
    bands: [{ series: [1, 2], fill: `${color("--denied")}cc` }, { series: [2, 3], fill: hatching(color("--shadow")) }],
    hooks: { setCursor: [showReadout] },
  }, [[], [], [], []], parent);
  addBrush(chart.plot);
  showChart(chart.span);
}

// Returns a pattern of diagonal lines: shadow differs from the other series by more than its colour.
function hatching(color) {
  const size = 6 * devicePixelRatio;
  const tile = create("canvas", { width: size, height: size });
  const context = tile.getContext("2d");
  Object.assign(context, { strokeStyle: color, lineWidth: 2 * devicePixelRatio });
  for (const offset of [-size, 0, size]) {
    context.moveTo(offset - 1, size + 1);
    context.lineTo(offset + size + 1, -1);
  }
  context.stroke();
  return context.createPattern(tile, "repeat");
}

// Draws the stack: admitted without shadow, then shadow, then denied. Absent points are zero.
function showChart(span) {
  chart.span = span;
  if (!chart.plot || chart.isDragging) return;
  const data = [[], [], [], []];
  for (let at = span.from; at <= span.to; at += span.step) {
    const [, admitted = 0, denied = 0, shadow = 0] = series.points.get(at < span.to ? at : at - span.step) ?? [];
    const stack = [at / SECOND, admitted + denied, admitted, Math.max(0, admitted - shadow)];
    stack.forEach((value, row) => data[row].push(value));
  }
  chart.plot.setData(data);
  showSelection();
}

function mark(left, right) {
  const { plot } = chart;
  plot.root.classList.toggle("selected", right > left);
  plot.setSelect({ left, top: 0, width: right - left, height: plot.over.clientHeight }, false);
}

function showSelection() {
  const { plot } = chart;
  const x = (at) => Math.min(Math.max(plot.valToPos(at / SECOND, "x"), 0), plot.over.clientWidth);
  mark(view.range ? x(view.range.from) : 0, view.range ? x(view.range.to) : 0);
}

// Lets a drag, also by touch, select a range of whole steps.
function addBrush(plot) {
  const { over } = plot;
  let [start, end] = [0, 0];
  const stop = () => {
    chart.isDragging = false;
    showSelection();
  };
  over.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    [start, end, chart.isDragging] = [event.offsetX, event.offsetX, true];
    over.setPointerCapture(event.pointerId);
  });
  over.addEventListener("pointermove", (event) => {
    if (!chart.isDragging) return;
    end = Math.min(Math.max(event.offsetX, 0), over.clientWidth);
    mark(Math.min(start, end), Math.max(start, end));
  });
  over.addEventListener("pointerup", () => {
    if (!chart.isDragging) return;
    stop();
    if (Math.abs(end - start) < 4) return;
    const { step } = chart.span;
    const steps = (x) => (plot.posToVal(x, "x") * SECOND) / step;
    const from = Math.max(series.from, Math.floor(steps(Math.min(start, end))) * step);
    const to = Math.ceil(steps(Math.max(start, end))) * step;
    if (from < to) change({ range: { from, to } });
  });
  over.addEventListener("pointercancel", stop);
}

// Shows the counts under the pointer.
function showReadout(plot) {
  const at = plot.cursor.idx == null || plot.cursor.left < 0 ? null : plot.data[0][plot.cursor.idx] * SECOND;
  const [, admitted = 0, denied = 0, shadow = 0] = series.points.get(at) ?? [];
  setText("readout", at && `${clock(at)}: ${count(admitted)} admitted, ${count(denied)} denied, ${count(shadow)} shadow`);
}

// ---- State ----

const state = { status: null, announced: "", announcedAt: -ANNOUNCE_MS, timer: 0 };

function showStatus(status) {
  const isRulesChange = state.status?.rules_changed_ms !== status.rules_changed_ms;
  state.status = status;
  setText("server", `${status.aggregator ?? ""} ${status.version ?? ""}`.trim());
  byId("scope").hidden = status.scope !== "agent";
  byId("loading").hidden = !status.loading;
  setText("calls-per-s", rate(status.calls_per_s));
  setText("denied-per-s", rate(status.denied_per_s));
  setText("shadow-per-s", rate(status.shadow_denied_per_s));
  setText("lag", duration(status.lag_ms));
  setText("agent-count", count(status.agents));
  setText("degraded", names(status.degraded_agents) || "none");
  setText("emergency", status.emergency == null ? "off" : `on: ${status.emergency}`);
  byId("degraded").classList.toggle("bad", status.degraded_agents.length > 0);
  byId("emergency").classList.toggle("bad", status.emergency != null);
  showProblems(status);
  const isQuiet = [...series.points.values()].every(([, admitted, denied]) => admitted + denied === 0);
  const isEmpty = isQuiet && status.calls_per_s === 0 && !status.loading && series.isLoaded && !view.rule && !view.range;
  byId("empty").hidden = !isEmpty;
  for (const id of ["callers", "endpoints"]) byId(id).hidden = isEmpty;
  if (isRulesChange) for (const id of ["rules", "new"]) panels[id].refresh();
  announce();
}

// Lists what is broken: in the state line, and with the reason below it.
function showProblems({ problems, silent, refusing_agents: refusing, loading, now_ms: now }) {
  const shown = problems.map(({ part }) => part);
  const lines = problems.map(({ part, why, since_ms: since }) => `${part}, since ${clock(since, now)}: ${why}`);
  if (silent.length) shown.push(`silent: ${names(silent)}`);
  if (silent.length) lines.push(`Silent: ${silent.join(", ")}. They publish nothing, so their counts are missing here.`);
  if (refusing.length) shown.push(`rules refused: ${names(refusing)}`);
  if (refusing.length) lines.push(`Newer rules refused by ${refusing.join(", ")}. They enforce older ones; the reasons are under Agents.`);
  if (loading) lines.push("Loading: the server still reads its records, so counts are incomplete.");
  setText("health", shown.join("; ") || (loading ? "loading" : "none"));
  byId("health").classList.toggle("bad", shown.length > 0);
  const list = byId("problems");
  list.hidden = lines.length === 0;
  while (list.children.length > lines.length) list.lastElementChild.remove();
  lines.forEach((line, at) => setText(list.children[at] ?? list.appendChild(create("li")), line));
}

// Tells a screen reader about changed conditions, but not about changed numbers.
function announce() {
  const { problems, silent, refusing_agents: refusing, degraded_agents: degraded, emergency, loading } = state.status;
  const told = [connection.mode === "lost" && "Connection lost.", loading && "Loading.",
    problems.length > 0 && `Problems: ${names(problems.map(({ part }) => part))}.`, silent.length > 0 && `Silent: ${names(silent)}.`,
    refusing.length > 0 && `Rules refused: ${names(refusing)}.`, degraded.length > 0 && `Degraded agents: ${names(degraded)}.`, emergency != null && `Emergency on: ${emergency}.`]
    .filter(Boolean).join(" ") || "No problems.";
  clearTimeout(state.timer);
  const waitMs = state.announcedAt + ANNOUNCE_MS - performance.now();
  if (told === state.announced) return;
  if (waitMs > 0) state.timer = setTimeout(announce, waitMs);
  else [state.announced, state.announcedAt, byId("announcer").textContent] = [told, performance.now(), told];
}

// ---- Connection ----

// Modes: connecting, live (the stream), polling (no place for a stream), lost, token (one is needed), paused.
const connection = { mode: "connecting", controller: null, lostAt: 0, dataAt: null, error: null };

function setMode(mode) {
  if (mode === "lost" && connection.mode !== "lost") connection.lostAt = Date.now();
  connection.mode = mode;
  document.body.dataset.mode = mode;
  byId("lost").hidden = mode !== "lost";
  byId("token").hidden = mode !== "token";
  byId("main").hidden = mode === "token" || !state.status;
  byId("pause").ariaPressed = String(mode === "paused");
  showNote("stream-note", { polling: "Too many pages are open: this one asks every 5 s.", paused: "Paused." }[mode] ?? "");
  if (mode === "lost") showLost();
  if (state.status) announce();
}

function showLost() {
  const ageMs = Math.floor((performance.now() - connection.dataAt) / SECOND) * SECOND;
  setText("lost", `Connection lost since ${clock(connection.lostAt)}, retrying. `
    + (connection.dataAt == null ? "No data yet." : `Data is ${duration(ageMs)} old.`)
    + (connection.error instanceof ApiError ? ` The server says: ${connection.error.message}` : ""));
}

// Begins to follow the server, in place of an earlier connection.
function connect() {
  disconnect();
  connection.controller = new AbortController();
  follow(connection.controller.signal);
}

function disconnect() {
  connection.controller?.abort();
}

// Follows the server until `signal`: by the stream, or by questions if the server has no place for a stream.
async function follow(signal) {
  let failures = 0;
  while (!signal.aborted) {
    connection.error = await followStream(signal, () => (failures = 0)).catch((error) => error);
    const isFull = connection.error?.status === 503 && !signal.aborted;
    if (isFull && (await poll(Math.max(connection.error.retryAfterMs, STREAM_RETRY_MIN_MS), signal))) continue;
    if (signal.aborted) return;
    setMode("lost");
    await sleep(Math.min(RETRY_MAX_MS, SECOND * 2 ** failures++) * (0.8 + 0.4 * Math.random()), signal);
  }
}

// Reads the stream until it ends, fails or is silent for too long.
async function followStream(signal, onEvent) {
  const attempt = new AbortController();
  const stop = () => attempt.abort();
  signal.addEventListener("abort", stop);
  let watchdog = setTimeout(stop, 2 * SILENCE_MAX_MS);
  try {
    const response = await ask("events", { rule: view.rule }, attempt.signal);
    let isFirst = true;
    for await (const event of serverEvents(response)) {
      clearTimeout(watchdog);
      watchdog = setTimeout(stop, SILENCE_MAX_MS);
      onEvent();
      receive(event.status, view.span === "15m" ? event.points : [], "live");
      if (isFirst) loadSeries(Infinity, attempt.signal);
      isFirst = false;
    }
  } finally {
    clearTimeout(watchdog);
    signal.removeEventListener("abort", stop);
    attempt.abort();
  }
}

// Yields the data of each server-sent event.
async function* serverEvents(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (buffer + value).split(/\r?\n\r?\n/);
    buffer = events.pop();
    for (const event of events) {
      const data = event.split(/\r?\n/).filter((line) => line.startsWith("data:")).map((line) => line.slice(5));
      if (data.length) yield JSON.parse(data.join("\n"));
    }
  }
}

// Asks every 5 s for a time. Returns false if the server does not answer.
async function poll(lengthMs, signal) {
  const end = performance.now() + lengthMs;
  for (let isFirst = true; performance.now() < end && !signal.aborted; isFirst = false) {
    const status = await askJson("status", {}, signal).catch(() => null);
    if (!status) return false;
    receive(status, [], "polling");
    if (isFirst || view.span === "15m") loadSeries(isFirst ? Infinity : 2 * MINUTE, signal);
    await sleep(POLL_MS, signal);
  }
  return true;
}

// Shows what the server told. After a loss all tables ask again.
function receive(status, points, mode) {
  if (connection.mode === "lost") for (const panel of Object.values(panels)) panel.nextAt = 0;
  connection.dataAt = performance.now();
  mergePoints(points);
  showStatus(status);
  if (connection.mode !== mode) setMode(mode);
  showSeries();
  if (!chart.plot) createChart();
}

function sleep(ms, signal) {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
    signal.addEventListener("abort", resolve, { once: true });
  });
}

function askToken(reason) {
  disconnect();
  setMode("token");
  setText("token-error", reason);
  byId("token-input").focus();
}

// ---- Start ----

// Brings the controls and the data in line with the view.
function applyView(before) {
  const differs = (name) => JSON.stringify(view[name]) !== JSON.stringify(before?.[name]);
  const local = (at) => (at ? new Date(at - new Date(at).getTimezoneOffset() * MINUTE).toISOString().slice(0, 19) : "");
  const setValue = (id, value) => byId(id).value !== value && (byId(id).value = value);
  setValue("filter-rule", view.rule);
  if (byId("filter-caller").value.trim() !== view.caller) setValue("filter-caller", view.caller);
  if (differs("range")) for (const end of ["from", "to"]) setValue(`range-${end}`, local(view.range?.[end]));
  for (const input of document.getElementsByName("span")) input.checked = input.value === view.span;
  byId("clear-range").disabled = !view.range;
  byId("clear-filters").disabled = !view.rule && !view.caller;
  for (const panel of Object.values(panels)) panel.arrange();
  if (!before) return;
  const isOtherQuestion = ["rule", "caller", "range"].some(differs);
  for (const panel of Object.values(panels)) {
    const rows = `rows.${panel.id}`;
    if (isOtherQuestion || view.tables[rows] !== before.tables[rows]) panel.refresh();
  }
  if (differs("rule") || differs("span")) Object.assign(series, { points: new Map(), isLoaded: false });
  if (!["live", "polling", "lost"].includes(connection.mode)) return;
  if (differs("rule")) connect();
  else if (differs("span")) loadSeries();
  if (state.status) showSeries();
  tick();
}

// Reads the range from the two inputs, once both are complete.
function readRange() {
  const [from, to] = ["range-from", "range-to"].map((id) => new Date(byId(id).value).getTime());
  byId("range-to").setCustomValidity(from >= to ? "The end must be later than the start." : "");
  if (from < to) change({ range: { from, to } });
  else byId("range-to").reportValidity();
}

function listen() {
  const on = (id, type, listener) => byId(id).addEventListener(type, listener);
  let typing = 0;
  on("filters", "submit", (event) => event.preventDefault());
  on("filter-rule", "change", (event) => change({ rule: event.target.value }));
  on("filter-caller", "input", (event) => {
    clearTimeout(typing);
    typing = setTimeout(() => change({ caller: event.target.value.trim() }, false), 300);
  });
  for (const id of ["range-from", "range-to"]) on(id, "change", readRange);
  on("clear-range", "click", () => change({ range: null }));
  on("clear-filters", "click", () => change({ rule: "", caller: "" }));
  for (const input of document.getElementsByName("span")) input.addEventListener("change", () => change({ span: input.value }));
  on("series-details", "toggle", showSeries);
  on("pause", "click", () => {
    const isPaused = connection.mode === "paused";
    disconnect();
    setMode(isPaused ? "connecting" : "paused");
    if (isPaused) connect();
  });
  on("token-form", "submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem(TOKEN_KEY, byId("token-input").value);
    event.target.reset();
    byId("forget-token").hidden = false;
    setMode("connecting");
    connect();
  });
  on("forget-token", "click", () => {
    sessionStorage.removeItem(TOKEN_KEY);
    location.reload();
  });
  addEventListener("popstate", () => {
    const before = view;
    view = readUrl();
    applyView(before);
  });
  document.addEventListener("visibilitychange", () => {   // a hidden page costs the server nothing
    if (["paused", "token"].includes(connection.mode)) return;
    if (document.hidden) disconnect();
    else connect();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", createChart);
  new ResizeObserver(() => {
    const width = byId("chart").clientWidth;
    if (!width || !chart.plot || chart.plot.width === width) return;
    chart.plot.setSize({ width, height: chart.plot.height });
    showSelection();
  }).observe(byId("chart"));
  const observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) panels[target.id.replace("panel-", "")].isSeen = isIntersecting;
    tick();
  }, { rootMargin: "100px" });
  for (const panel of Object.values(panels)) observer.observe(panel.element);
}

setText("zone", Intl.DateTimeFormat().resolvedOptions().timeZone ?? "local time");
byId("forget-token").hidden = !sessionStorage.getItem(TOKEN_KEY);
createPanels();
listen();
applyView(null);
setInterval(tick, SECOND / 2);
connect();
