// Tests the page in Chromium: `node page.test.mjs http://127.0.0.1:8080/ [WORD]`, with a server that gets calls meanwhile.
//
// It prints each check, and ends with 1 if one failed. A word selects the tests whose names contain it. Numbers on the page
// are compared with the API's answers, so none of them stands here. The tests `silent` and `lost` need a server that pauses
// and ends: they write an order such as `server: kill`, and wait for a line on standard input.
//
// scripts/servers installs Chromium and the packages. cli/tests/suite/page/browser.rs starts the server, and obeys the orders.

import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const packages = createRequire(new URL("../../../target/servers/page/", import.meta.url));
const puppeteer = packages("puppeteer-core");
const axeSource = readFileSync(packages.resolve("axe-core/axe.min.js"), "utf8");
const base = new URL(process.argv[2]);
const word = process.argv[3] ?? "";
const PATIENCE_MS = 20_000;
const GLANCE_MS = 50;
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
let [passed, failed] = [0, 0];

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const api = async (path) => (await fetch(new URL(`api/v1/${path}`, base))).json();

function check(isRight, name, detail = "") {
  isRight ? passed++ : failed++;
  console.log(`${isRight ? "ok  " : "FAIL"} ${name}${detail === "" ? "" : `: ${detail}`}`);
}

// Tries until `test` returns a true value, at most for `ms`. Returns the last value.
async function until(test, ms = PATIENCE_MS) {
  for (const end = Date.now() + ms; ; await sleep(GLANCE_MS)) {
    const value = await test();
    if (value || Date.now() > end) return value;
  }
}

// Orders what happens to the server: `pause`, `resume`, `kill` or `start`.
async function server(order) {
  console.log(`server: ${order}`);
  await answers.next();
}

// Chromium has no sandbox for root and in most containers; the page is our own. With a pipe, it ends with this process.
const executablePath = process.env.PATH.split(":").map((folder) => `${folder}/chromium`).find(existsSync);
const browser = await puppeteer.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"], pipe: true });

// Opens the page. `page.seen` has all requests, the answers by path, and the messages of the console.
async function open({ query = "", width = 1280, height = 900, isDark = false, isPhone = false, isReduced = false, prepare = () => {} } = {}) {
  const page = await browser.newPage();
  page.seen = { requests: [], bodies: {}, messages: [] };
  page.on("request", (request) => {
    // Chromium's own icon of a date input is a `data:` address.
    if (!request.url().startsWith("data:")) page.seen.requests.push(request);
  });
  page.on("response", async (response) => {
    const path = new URL(response.url()).pathname.split("/api/v1/")[1];
    if (!path || path === "events") return;
    const body = await response.json().catch(() => null);
    if (body && response.ok()) (page.seen.bodies[path] ??= []).push({ url: new URL(response.url()), body });
  });
  page.on("console", (message) => {
    if (["error", "warn"].includes(message.type())) page.seen.messages.push(`${message.text()} ${message.location().url ?? ""}`);
  });
  page.on("pageerror", (error) => page.seen.messages.push(`uncaught ${error.stack}`));
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: isDark ? "dark" : "light" },
    { name: "prefers-reduced-motion", value: isReduced ? "reduce" : "no-preference" }]);
  await page.setViewport({ width, height, isMobile: isPhone, hasTouch: isPhone });
  await prepare(page);
  await page.goto(new URL(query, base).href, { waitUntil: "domcontentloaded" });
  return page;
}

// Opens the page, and waits for its data.
async function openReady(options) {
  const page = await open(options);
  await ready(page);
  return page;
}

const ready = (page) => until(() => isShown(page, "main"));
const isShown = (page, id) => page.$eval(`#${id}`, (element) => element.checkVisibility());
const textOf = (page, id) => page.$eval(`#${id}`, (element) => element.textContent);
const valueOf = (page, id) => page.$eval(`#${id}`, (element) => element.value);
const press = (page, selector) => page.$eval(selector, (element) => element.click());
const bring = (page, id) => page.$eval(`#${id}`, (element) => element.scrollIntoView({ block: "start" }));
const query = (page) => new URL(page.url()).searchParams;
const numberOf = (text) => Number(text.replace(/[^0-9.-]/g, ""));

// Returns a table: its labels, orders, and rows with the text and the exact number of each cell.
const table = (page, id) => page.$eval(`#panel-${id}`, (panel) => {
  const heads = [...panel.querySelectorAll("thead th")];
  const labels = heads.map((cell) => cell.textContent);
  const cell = ({ textContent: text, dataset }) => ({ text, value: dataset.value == null ? null : Number(dataset.value) });
  const row = ({ cells }) => Object.fromEntries([...cells].map((each, at) => [labels[at], cell(each)]));
  return { labels, sorts: heads.map((head) => head.getAttribute("aria-sort")), rows: [...panel.querySelectorAll("tbody tr")].map(row) };
});

// Brings a table onto the screen, and waits for rows for which the condition holds. Returns them.
async function rowsOf(page, id, holds = () => true) {
  await bring(page, `panel-${id}`);
  return until(async () => {
    const { rows } = await table(page, id);
    return rows.length > 0 && rows.every(holds) && rows;
  });
}

const tests = {
  async policy() {
    const response = await fetch(base);
    const html = await response.text();
    check(!/ style=|<style| on\w+=|<script(?![^>]*src=)/.test(html), "index.html has no inline style, script or handler");
    const page = await openReady();
    for (const id of ["rules", "endpoints", "agents", "partitions"]) await rowsOf(page, id);
    const strange = page.seen.requests.filter((request) => new URL(request.url()).origin !== base.origin || request.method() !== "GET");
    check(strange.length === 0, "all requests are GET, and go to the server of the page", strange.map((request) => request.url()).join(" "));
    const messages = page.seen.messages.filter((message) => !/404.*\/regions/.test(message));
    check(messages.length === 0, "the console has no errors", messages.join(" | "));
    const endpoints = await rowsOf(page, "endpoints");
    check(endpoints.some((row) => row.Endpoint.text.includes("<img")) && (await page.$$("img")).length === 0, "markup in a name is shown as text");
    await page.close();
  },

  async state() {
    const page = await openReady();
    const isClose = (shown, right) => Math.abs(numberOf(shown) - right) <= (right >= 100 ? 0.5 : 0.06);
    for (const [id, field] of [["calls-per-s", "calls_per_s"], ["denied-per-s", "denied_per_s"], ["shadow-per-s", "shadow_denied_per_s"]]) {
      let [shown, told] = ["", []];
      const isSame = await until(async () => {
        told = [...told, (await api("status"))[field]].slice(-40);
        shown = await textOf(page, id);
        return told.some((right) => right > 0 && isClose(shown, right));
      });
      check(isSame, `${id} is the API's ${field}`, `${shown}, API ${told.at(-1)}`);
    }
    const status = await api("status");
    check((await textOf(page, "agent-count")) === String(status.agents), "the number of agents", status.agents);
    check((await isShown(page, "scope")) === (status.scope === "agent"), "one agent only is said", status.scope);
    check((await textOf(page, "health")) === "none" && status.problems.length === 0, "no problems");
    await until(() => textOf(page, "announcer"));
    const changes = await page.evaluate(async () => {
      let changes = 0;
      const observer = new MutationObserver(() => changes++);
      observer.observe(document.getElementById("announcer"), { childList: true, characterData: true, subtree: true });
      await new Promise((resolve) => setTimeout(resolve, 2500));
      return changes;
    });
    check(changes === 0, "a screen reader is not told each second", await textOf(page, "announcer"));
    await page.close();
  },

  // The points of the chart, in its table, are those of the API.
  async series() {
    const page = await openReady();
    await press(page, "#series-details summary");
    const columns = ["Time", "Admitted", "Denied", "Shadow", "Units"];
    let detail = "";
    const isSame = await until(async () => {
      const now = (await api("status")).now_ms;
      const isSettled = ([at]) => at > now - 14 * 60_000 && at < now - 10_000;
      const right = (await api("series?step=1s")).points.filter(isSettled);
      const shown = (await table(page, "series")).rows.map((row) => columns.map((label) => row[label].value)).filter(isSettled);
      detail = `${right.length} seconds`;
      return right.length > 0 && JSON.stringify(shown.reverse()) === JSON.stringify(right);
    });
    check(isSame, "the table of 15 min has the API's points", detail);
    await press(page, "[name=span][value='24h']");
    check(query(page).get("span") === "24h", "the URL has the span");
    const isMinutes = await until(async () => {
      const answer = page.seen.bodies.series.findLast(({ url }) => url.searchParams.get("step") === "1m");
      const shown = (await table(page, "series")).rows.map((row) => columns.map((label) => row[label].value)).reverse();
      return answer && shown.length > 0 && JSON.stringify(shown) === JSON.stringify(answer.body.points);
    });
    check(isMinutes, "the table of 24 h has the API's points");
    check(await page.$eval("#chart", (chart) => chart.getAttribute("aria-hidden") === "true" && chart.querySelector("canvas") != null), "the chart is drawn, and hidden from screen readers");
    await page.close();
  },

  // Each table has the rows and the numbers of an answer of the API.
  async tables() {
    const page = await openReady();
    const minute = { Admitted: (row) => row.last_minute.admitted, Denied: (row) => row.last_minute.denied };
    const caller = { Caller: (row) => row.caller, Rule: (row) => row.rule, Denied: (row) => row.denied };
    const admitted = { ...caller, Admitted: (row) => row.admitted };
    const expected = {
      denied: ["callers", admitted],
      near: ["callers", { ...caller, Used: (row) => row.used_permille, Units: (row) => row.used, Quota: (row) => row.quota }],
      calls: ["callers", { ...admitted, Shadow: (row) => row.shadow_denied, Units: (row) => row.units }],
      new: ["callers", { ...admitted, "First denied": (row) => row.first_denied_ms }],
      rules: ["rules", { Rule: (row) => row.rule, "Applies to": (row) => row.text?.calls ?? "–", Limit: (row) => row.text?.limit ?? "–", ...minute, Shadow: (row) => row.last_minute.shadow_denied }],
      exceptions: ["exceptions", { Callers: (row) => row.callers, Rule: (row) => row.rule ?? `${row.list} list`, "Time left": (row) => row.until_ms, Reason: (row) => row.reason }],
      endpoints: ["endpoints", { Endpoint: (row) => row.endpoint, Admitted: (row) => row.admitted, Denied: (row) => row.denied }],
      agents: ["agents", { Agent: (row) => row.agent, ...minute, Redis: (row) => row.store, "Generation": (row) => row.generation, Rules: (row) => (row.rules_state === "own" ? "not published" : row.rules_state) }],
      partitions: ["partitions", { Aggregator: (row) => row.aggregator, Read: (row) => row.read, Counters: (row) => row.counters }],
    };
    for (const [id, [path, columns]] of Object.entries(expected)) {
      await bring(page, `panel-${id}`);
      const inOrder = (rows) => JSON.stringify(rows.map((row) => row.map(String).join()).sort());
      let detail = "";
      const isSame = await until(async () => {
        const { rows } = await table(page, id);
        const shown = inOrder(rows.map((row) => Object.keys(columns).map((label) => row[label].value ?? row[label].text)));
        const asked = (page.seen.bodies[path] ?? []).filter(({ url }) => path !== "callers" || url.searchParams.get("sort") === id).slice(-2);
        const told = asked.map(({ body }) => inOrder(body[path].map((row) => Object.values(columns).map((value) => value(row)))));
        detail = `${rows.length} rows`;
        return rows.length > 0 && told.includes(shown);
      });
      check(isSame, `the table ${id} has the numbers of the API`, detail);
      check(await page.$eval(`#panel-${id}`, (panel) => [...panel.querySelectorAll("thead th")].every((cell) => cell.scope === "col" && cell.querySelector("button"))
        && [...panel.querySelectorAll("tbody tr")].every((row) => row.cells[0].scope === "row")), `the table ${id} has headers for screen readers`);
      const dashes = (await table(page, id)).rows.map((row) => Object.keys(row).filter((label) => row[label].text === "–"));
      const unknown = dashes.length > 0 ? dashes.reduce((some, row) => some.filter((label) => row.includes(label))) : [];
      const isEmpty = (label) => !["Denied by", "Changed"].includes(label);
      check(!unknown.some(isEmpty), `the table ${id} has no column without data`, unknown.join(", "));
    }
    const regions = await fetch(new URL("api/v1/regions", base));
    check((await isShown(page, "regions")) === regions.ok, "regions are shown only if the API has them", regions.status);
    await page.close();
  },

  async sort() {
    const page = await openReady();
    await rowsOf(page, "denied");
    const isOrdered = ({ rows }, label, sign) => rows.every((row, at) => at === 0 || sign * (rows[at - 1][label].value - row[label].value) <= 0);
    const order = async (label) => {
      await page.evaluate((label) => [...document.querySelectorAll("#panel-denied thead button")].find((button) => button.textContent === label).click(), label);
      return table(page, "denied");
    };
    let shown = await table(page, "denied");
    check(shown.sorts[2] === "descending" && isOrdered(shown, "Denied", -1), "most denied begins with the most denied");
    shown = await order("Admitted");
    check(shown.sorts[3] === "descending" && isOrdered(shown, "Admitted", -1), "a click sorts descending");
    check(query(page).get("sort.denied") === "-admitted", "the URL has the order");
    shown = await order("Admitted");
    check(shown.sorts[3] === "ascending" && isOrdered(shown, "Admitted", 1), "a second click sorts ascending");
    shown = await order("Caller");
    check(shown.sorts[0] === "ascending" && shown.sorts.filter(Boolean).length === 1, "a text begins ascending, and one header says so");
    await page.goBack();
    await page.goBack();
    check((await table(page, "denied")).sorts[3] === "descending", "back restores the order before");
    await page.reload();
    await ready(page);
    await rowsOf(page, "denied");
    check((await table(page, "denied")).sorts[3] === "descending", "a reload keeps the order");
    await page.focus("#panel-denied thead button");
    const told = page.seen.bodies.callers.length;
    await until(() => page.seen.bodies.callers.length >= told + 4);
    check(await page.evaluate(() => document.activeElement === document.querySelector("#panel-denied thead button")), "the focus stays while the table gets new data");
    await press(page, "#panel-denied > button");
    check(await until(async () => (await table(page, "denied")).rows.length > 10) && query(page).get("rows.denied") === "50", "more rows can be shown, and the URL has their number");
    await page.close();
  },

  async filters() {
    const page = await openReady();
    const rules = await until(async () => {
      const rules = await page.$$eval("#filter-rule option", (options) => options.map((option) => option.value));
      return rules.length > 1 && rules;
    });
    const told = (await api("rules")).rules.map(({ rule }) => rule);
    check(rules.slice(1).join() === told.join(), "the filter has the API's rules", told.join());
    const [rule] = (await api("callers?sort=denied")).callers.map((caller) => caller.rule);
    await page.select("#filter-rule", rule);
    check(query(page).get("rule") === rule, "the URL has the rule", rule);
    const rows = await rowsOf(page, "calls", (row) => row.Rule.text === rule);
    check(rows, "the tables show only the rule");
    check(page.seen.requests.some((request) => request.url().includes(`events?rule=${rule}`)), "the chart is asked for the rule");
    const part = rows.at(-1).Caller.text.slice(-4);
    await page.type("#filter-caller", part);
    check(await rowsOf(page, "calls", (row) => row.Caller.text.includes(part)), "the tables show only callers with the text", part);
    check(query(page).get("caller") === part, "the URL has the text");
    await page.reload();
    await ready(page);
    check(await until(async () => (await valueOf(page, "filter-rule")) === rule) && (await valueOf(page, "filter-caller")) === part, "a reload keeps the filters");
    await page.goBack();
    check(query(page).get("rule") === null && (await valueOf(page, "filter-rule")) === "", "back removes the filter");
    const [first] = await rowsOf(page, "rules");
    await press(page, "#panel-rules tbody button");
    check(query(page).get("rule") === first.Rule.text && (await page.$eval("#panel-rules tbody button", (button) => button.ariaPressed)) === "true", "a rule of the table can be pressed");
    await press(page, "#clear-filters");
    check(query(page).get("rule") === null, "a button clears the filters");
    await page.close();
  },

  // A drag over the chart selects a range of seconds, which stands in the URL and in two inputs.
  async brush() {
    const page = await openReady();
    await until(async () => numberOf(await textOf(page, "sum-admitted")) > 0 && (await page.$(".u-over")) != null);
    const box = await (await page.$(".u-over")).boundingBox();
    await page.mouse.move(box.x + 0.8 * box.width, box.y + 40);
    await page.mouse.down();
    for (const part of [0.85, 0.9, 0.95, 0.999]) await page.mouse.move(box.x + part * box.width, box.y + 50);
    await page.mouse.up();
    // The URL of the page is told some time after the event.
    await until(() => query(page).get("from"));
    const [from, to] = ["from", "to"].map((name) => Date.parse(query(page).get(name)));
    const seconds = (to - from) / 1000;
    check(seconds > 170 && seconds < 190 && Number.isInteger(seconds), "a drag over a fifth selects 3 min, and the URL has them", seconds);
    let [shown, sums] = [[], []];
    const isSame = await until(async () => {
      const points = (await api(`series?step=1s&from_ms=${from}&to_ms=${to}`)).points;
      sums = [1, 2, 3].map((field) => points.reduce((sum, point) => sum + point[field], 0));
      shown = await Promise.all(["admitted", "denied", "shadow"].map((name) => textOf(page, `sum-${name}`)));
      return sums[0] > 0 && sums.every((sum, at) => sum === numberOf(shown[at]));
    });
    check(isSame, "the sums of the range are the API's", `${shown.join(" ")}, API ${sums.join(" ")}`);
    await press(page, "#series-details summary");
    check(await until(async () => {
      const { rows } = await table(page, "series");
      return rows.length > 0 && rows.every(({ Time: { value } }) => value >= from && value < to);
    }), "the table has only the range");
    await bring(page, "panel-denied");
    const minutes = Math.ceil((Date.now() - from) / 60_000);
    check(await until(() => page.seen.requests.some((request) => Math.abs(new URL(request.url()).searchParams.get("minutes") - minutes) <= 1)), "the tables of callers begin with the range", minutes);
    check(new Date(await valueOf(page, "range-from")).getTime() === from, "the inputs have the range");
    await page.reload();
    await ready(page);
    check(await until(async () => (await textOf(page, "sum-admitted")) === shown[0]), "a reload keeps the range and its sums");
    await page.goBack();
    check(query(page).get("from") === null && (await valueOf(page, "range-from")) === "", "back clears the range");
    await page.goForward();
    check(Date.parse(query(page).get("from")) === from, "forward selects it again");
    await press(page, "#clear-range");
    check(query(page).get("from") === null, "a button clears the range");
    const local = (at) => new Date(at - new Date(at).getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
    for (const [id, value] of [["range-from", local(from)], ["range-to", local(to)]]) {
      await page.$eval(`#${id}`, (input, value) => {
        input.value = value;
        input.dispatchEvent(new Event("change", { bubbles: true }));
      }, value);
    }
    check(Date.parse(query(page).get("from")) === from && Date.parse(query(page).get("to")) === to, "the inputs select a range without a pointer");
    await page.close();
  },

  async keyboard() {
    const page = await openReady();
    await rowsOf(page, "denied");
    await page.evaluate(() => scrollTo(0, 0));
    // Each stop of the tab key, up to the first that comes again.
    const stops = [];
    for (;;) {
      await page.keyboard.press("Tab");
      const stop = await page.evaluate(() => {
        const element = document.activeElement;
        if (element === document.body || element.dataset.stop) return null;
        element.dataset.stop = "seen";
        const label = element.getAttribute("aria-label") || element.labels?.[0]?.textContent || element.textContent;
        const shown = element.matches(".switch input") ? element.nextElementSibling : element;
        return { label: label.trim().slice(0, 30), outline: getComputedStyle(shown).outlineStyle, tabIndex: element.tabIndex };
      });
      // An input of a date has a stop for each of its parts.
      if (!stop && stops.at(-1)?.label !== "From" && stops.at(-1)?.label !== "To") break;
      if (stop) stops.push(stop);
    }
    const order = ["Skip to content", "Traffic", "Pause", "Rule", "Caller contains", "From", "To", "15 min", "Data of the chart as a table", "Denied %"];
    const at = order.map((label, number) => stops.findIndex((stop, at) => stop.label === label && (number !== 3 || at > 7)));
    check(at[0] === 0 && at.every((place, number) => number === 0 || place > at[number - 1]), "stops come in the order of the page", stops.slice(0, 20).map(({ label }) => label).join(" > "));
    check(stops.length > 40 && stops.every(({ label, tabIndex }) => label && tabIndex === 0), "each stop has a name, and none jumps ahead", stops.length);
    const hidden = stops.filter(({ outline }) => outline === "none");
    check(hidden.length === 0, "each stop has a visible focus", hidden.map(({ label }) => label).join(", "));
    await page.focus(".skip");
    await page.keyboard.press("Enter");
    check(await page.evaluate(() => document.activeElement.id === "main"), "the skip link goes to the content");
    await page.focus("#panel-denied thead th:nth-child(4) button");
    await page.keyboard.press("Enter");
    check((await table(page, "denied")).sorts[3] === "descending", "Enter sorts");
    await page.focus("#pause");
    await page.keyboard.press("Space");
    const asked = page.seen.requests.length;
    await sleep(1500);
    check(page.seen.requests.length === asked && (await textOf(page, "stream-note")) === "Paused.", "Space on Pause stops all requests");
    await page.keyboard.press("Space");
    check(await until(() => page.seen.requests.length > asked), "a second one goes on");
    await page.close();
  },

  // Light, dark and 390 px: no serious finding of axe, nothing wider than the screen, numbers below each other.
  async access() {
    for (const [name, options] of [["light", { isReduced: true }], ["dark", { isDark: true }], ["390 px", { width: 390, height: 844, isPhone: true }]]) {
      const page = await openReady(options);
      await press(page, "#series-details summary");
      for (const id of ["denied", "near", "calls", "new", "rules", "exceptions", "endpoints", "agents", "partitions"]) await rowsOf(page, id);
      await page.evaluate(() => scrollTo(0, 0));
      // The policy of the page forbids added scripts, but not those of the debugger.
      await page.evaluate(axeSource);
      const found = await page.evaluate(async () => (await axe.run(document, { resultTypes: ["violations"] })).violations
        .map(({ id, impact, nodes }) => ({ id, impact, nodes: nodes.map((node) => node.target.join(" ")).slice(0, 3) })));
      const serious = found.filter(({ impact }) => ["serious", "critical"].includes(impact));
      check(serious.length === 0, `axe finds nothing serious (${name})`, JSON.stringify(found));
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      check(overflow <= 0, `the page is not wider than the screen (${name})`, `${overflow} px`);
      const wrong = await page.$$eval("td.number", (cells) => cells.filter((cell) => {
        const { textAlign, fontVariantNumeric } = getComputedStyle(cell);
        return textAlign !== "right" || fontVariantNumeric !== "tabular-nums";
      }).length);
      check(wrong === 0, `numbers have digits of one width, and end below each other (${name})`);
      const background = await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor + getComputedStyle(document.body).backgroundColor);
      const isDark = /rgb\((\d\d?), (\d\d?), (\d\d?)\)/.test(background);
      check(isDark === Boolean(options.isDark), `the background is that of the scheme (${name})`, background);
      if (options.isReduced) {
        check(await page.$$eval("*", (elements) => elements.every((element) => {
          const style = getComputedStyle(element);
          return (style.transitionDuration === "0s" || style.transitionProperty === "none") && style.animationName === "none";
        })), "nothing moves with prefers-reduced-motion");
      }
      await page.close();
    }
  },

  async cost() {
    const page = await openReady();
    const before = page.seen.requests.length;
    await sleep(3000);
    const counts = {};
    for (const request of page.seen.requests.slice(before)) {
      const url = new URL(request.url());
      const name = `${url.pathname.split("/").at(-1)} ${url.searchParams.get("sort") ?? ""}`;
      counts[name] = (counts[name] ?? 0) + 1;
    }
    check(Object.values(counts).every((times) => times <= 2), "no table is asked for more than once in 2 s", JSON.stringify(counts));
    await page.evaluate(() => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => true });
      document.dispatchEvent(new Event("visibilitychange"));
    });
    await until(async () => page.seen.requests.every((request) => request.failure() || request.response()));
    const [asked, readout] = [page.seen.requests.length, await textOf(page, "lag")];
    await sleep(1500);
    check(page.seen.requests.length === asked && (await textOf(page, "lag")) === readout, "a hidden page asks nothing");
    await page.evaluate(() => {
      delete document.hidden;
      document.dispatchEvent(new Event("visibilitychange"));
    });
    check(await until(() => page.seen.requests.length > asked + 2), "a page that is shown again goes on");
    await page.close();
  },

  // A proxy in front of the server may want a token; this one stands in the browser.
  async token() {
    const page = await open({
      prepare: async (page) => {
        await page.setRequestInterception(true);
        page.on("request", (request) => {
          const isLet = !request.url().includes("/api/v1/") || request.headers().authorization === "Bearer right";
          if (isLet) request.continue();
          else request.respond({ status: 401, contentType: "application/problem+json", body: '{"detail":"send a token"}' });
        });
      },
    });
    check(await until(() => isShown(page, "token")), "a 401 asks for a token");
    check(await page.evaluate(() => document.activeElement.id === "token-input"), "its input has the focus");
    await page.keyboard.type("wrong");
    await page.keyboard.press("Enter");
    check(await until(async () => (await textOf(page, "token-error")).startsWith("The token was refused")), "a wrong token is refused with the reason", await textOf(page, "token-error"));
    await page.keyboard.type("right");
    await page.keyboard.press("Enter");
    check(await ready(page) && (await rowsOf(page, "denied")), "a right token shows the page");
    check(page.seen.requests.every((request) => !request.url().includes("right")), "no address has the token");
    check(await page.evaluate(() => sessionStorage.length === 1 && localStorage.length === 0 && document.cookie === ""), "only sessionStorage has it");
    await press(page, "#forget-token");
    check(await until(() => isShown(page, "token").catch(() => false)), "it can be forgotten");
    await page.close();
  },

  // Other clients hold all places of the stream.
  async full() {
    const others = new AbortController();
    let status = 200;
    while (status === 200) ({ status } = await fetch(new URL("api/v1/events", base), { signal: others.signal }));
    const page = await openReady();
    check(await until(async () => (await textOf(page, "stream-note")).startsWith("Too many pages are open")), "a 503 of the stream has a note", status);
    check((await rowsOf(page, "denied")) && !(await isShown(page, "lost")), "the page asks now and then, and is not lost");
    others.abort();
    await page.close();
  },

  // The server hangs: its connections stay open.
  async silent() {
    const page = await openReady();
    await rowsOf(page, "denied");
    await server("pause");
    check(await until(() => isShown(page, "lost")), "a stream that is silent counts as lost");
    await server("resume");
    check(await until(async () => !(await isShown(page, "lost"))), "and is opened again");
    await page.close();
  },

  // The server is killed. A new one has counted nothing.
  async lost() {
    const page = await openReady();
    const { length } = await rowsOf(page, "denied");
    await server("kill");
    check(await until(() => isShown(page, "lost")), "a lost connection has a banner");
    check(await until(async () => /^Connection lost since \d\d:\d\d:\d\d, retrying\. Data is [1-9].* s old\.$/.test(await textOf(page, "lost"))), "it says since when, and the age of the data", await textOf(page, "lost"));
    check((await table(page, "denied")).rows.length === length && (await page.$eval("main", (main) => getComputedStyle(main).opacity < 0.8)), "the last data stays, greyed");
    const asked = page.seen.requests.length;
    await sleep(2500);
    check(page.seen.requests.length - asked <= 4, "it retries with pauses", page.seen.requests.length - asked);
    await server("start");
    check(await until(async () => !(await isShown(page, "lost"))), "it connects again by itself");
    check(await until(() => isShown(page, "empty")), "without a call, the page says so");
    check((await textOf(page, "empty")).includes(`curl -X POST http://127.0.0.1:8080/check -d '{"descriptors":{"api_key":"k1"}}'`), "with a command");
    check(!(await isShown(page, "callers")), "and has no tables of callers");
    await fetch(new URL("check", base), { method: "POST", body: '{"descriptors":{"api_key":"k1","endpoint":"/search"}}' });
    check(await until(async () => !(await isShown(page, "empty")) && (await rowsOf(page, "calls"))), "the first call replaces it by the tables");
    await page.close();
  },
};

for (const [name, test] of Object.entries(tests).filter(([name]) => name.includes(word))) {
  const began = Date.now();
  await test().catch((error) => check(false, `${name} ends`, error.stack));
  // A test that failed leaves its page, whose stream would disturb the others.
  for (const page of (await browser.pages()).slice(1)) await page.close();
  console.log(`# ${name}: ${((Date.now() - began) / 1000).toFixed(1)} s`);
}
await browser.close();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
