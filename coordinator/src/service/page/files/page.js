// The page: asks the coordinator for some rows of one table, and shows them and their changes.

import { draw } from "/chart.js";
import { TABLES, count, printable, summaryCards } from "/words.js";

const ROWS = 50;
const AGAIN_AFTER_MS = 2000;
const SILENT_MS = 45000;
const AGES_EVERY_MS = 10000;
const PAST_EVERY_MS = 30000;
const USAGE_EVERY_MS = 60000;

const STRANGER = "You see the cluster in numbers. Run accord page where you use it to see its tables.";
const REFUSED = "The coordinator does not answer, or you have this page or accord top open four times: close one of them.";

const at = (id) => document.getElementById(id);

// The view that the address names, behind its #.
function viewOf(hash) {
  const values = new URLSearchParams(hash.replace(/^#/, ""));
  const from = Number.parseInt(values.get("from") ?? "0", 10);
  return {
    table: Object.hasOwn(TABLES, values.get("table")) ? values.get("table") : "devices",
    order: ["name", "use", "memory"].includes(values.get("order")) ? values.get("order") : "name",
    user: values.get("user") ?? "",
    from: Number.isSafeInteger(from) && from > 0 ? from : 0,
  };
}

function hashOf(view) {
  const values = new URLSearchParams({ table: view.table });
  if (view.order !== "name") values.set("order", view.order);
  if (view.user) values.set("user", view.user);
  if (view.from) values.set("from", view.from);
  return `#${values}`;
}

let visitor = null;
let view = viewOf(location.hash);
let stream = null;
let again = null;
let failures = 0;
let heard = Date.now();
let rows = [];
let total = 0;
// The coordinator's clock, less this machine's.
let clock = 0;

function show(changes) {
  const hash = hashOf({ ...view, ...changes });
  if (hash !== location.hash) location.hash = hash;
}

function say(words, isLost) {
  if (at("status").textContent !== words) at("status").textContent = words;
  at("status").classList.toggle("lost", isLost);
}

function note(words) {
  setText(at("note"), words);
  at("note").hidden = words === "";
}

function setText(place, words) {
  if (place.textContent !== words) place.textContent = words;
}

function drawSummary(summary) {
  const cards = summaryCards(summary).map(([title, large, words]) => {
    const card = document.createElement("div");
    const entries = [["dt", title, ""], ["dd", large, "large"], ["dd", words, ""]];
    for (const [name, entry, kind] of entries) {
      const part = document.createElement(name);
      part.textContent = entry;
      part.className = kind;
      card.append(part);
    }
    return card;
  });
  at("summary").replaceChildren(...cards);
}

function drawHead() {
  const table = TABLES[view.table];
  const cells = table.columns.map((column) => {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.setAttribute("role", "columnheader");
    cell.textContent = column.title;
    if (column.isNumber) cell.className = "number";
    return cell;
  });
  const row = document.createElement("tr");
  row.setAttribute("role", "row");
  row.append(...cells);
  at("head").replaceChildren(row);
  at("body").replaceChildren();
  const tabs = Object.entries(TABLES).map(([name, tab]) => {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.textContent = tab.title;
    link.href = hashOf({ ...view, table: name, from: 0 });
    if (name === view.table) link.setAttribute("aria-current", "page");
    item.append(link);
    return item;
  });
  // The focus stays on the link that was followed.
  const focused = [...at("tabs").querySelectorAll("a")].indexOf(document.activeElement);
  at("tabs").replaceChildren(...tabs);
  if (focused >= 0) at("tabs").querySelectorAll("a")[focused].focus();
  at("filter").hidden = !table.orders;
  setText(at("order").options[0], view.table === "jobs" ? "as in the queue" : "by name");
  at("order").value = view.order;
  at("user").value = view.user;
}

function rowElement(columns) {
  const row = document.createElement("tr");
  row.setAttribute("role", "row");
  for (const column of columns) {
    const cell = document.createElement("td");
    cell.setAttribute("role", "cell");
    cell.dataset.column = column.title;
    cell.className = column.isNumber ? "number" : "";
    row.append(cell);
  }
  return row;
}

function drawRows() {
  const table = TABLES[view.table];
  const body = at("body");
  const now = Date.now() + clock;
  while (body.rows.length > rows.length) body.lastElementChild.remove();
  while (body.rows.length < rows.length) body.append(rowElement(table.columns));
  rows.forEach((row, place) => {
    if (!row) return;
    const element = body.rows[place];
    const kind = table.kind(row);
    if (element.className !== kind) element.className = kind;
    table.cells(row, now).forEach((cell, column) => {
      const shown = element.cells[column];
      setText(shown, cell.text);
      if (cell.part !== undefined) {
        shown.classList.add("part");
        shown.style.backgroundSize = `${(100 * Math.min(1, cell.part)).toFixed(0)}% 4px`;
      }
    });
  });
  const first = rows.length ? view.from + 1 : 0;
  const last = view.from + rows.length;
  setText(at("caption"), view.user && table.orders ? `${table.title} of user ${printable(view.user)}` : table.title);
  at("caption").classList.toggle("unseen", !view.user || !table.orders);
  setText(at("range"), `${count(first)} to ${count(last)} of ${count(total)}`);
  at("rows").setAttribute("aria-rowcount", total + 1);
  at("pages").hidden = total <= ROWS;
  at("rows").hidden = total === 0;
  at("empty").hidden = total !== 0;
  setText(at("empty"), table.empty);
  for (const id of ["first", "previous"]) at(id).setAttribute("aria-disabled", view.from === 0);
  for (const id of ["next", "last"]) at(id).setAttribute("aria-disabled", last >= total);
}

function live() {
  heard = Date.now();
  failures = 0;
  say("Live", false);
  note(visitor.name ? "" : STRANGER);
}

// Takes the rows of an event that have changed.
function take(data) {
  clock = data.unix_ms - Date.now();
  live();
  if (data.summary) drawSummary(data.summary);
  if (!visitor.name || view.table === "usage") return;
  total = data.total;
  if (data.from !== view.from && data.total > 0) {
    // The table has become shorter: these are its last rows.
    view.from = data.from;
  }
  rows.length = data.rows;
  for (const change of data.changed) rows[change.at] = change.row;
  drawRows();
}

async function takeUsage() {
  const table = view.table;
  const answer = await ask(view.from ? `/usage?from=${view.from}` : "/usage");
  if (!answer || table !== view.table) return;
  rows = answer.rows.slice(0, ROWS);
  total = answer.next || answer.rows.length > ROWS ? view.from + rows.length + 1 : view.from + rows.length;
  drawRows();
}

// Returns an answer in JSON, or nothing, and says why there is none.
async function ask(path) {
  try {
    const answer = await fetch(path, { cache: "no-store" });
    if (answer.ok) return await answer.json();
    note((await answer.text()).trim());
    if (answer.status === 403) leave();
  } catch {
    say("No connection", true);
  }
  return null;
}

// The coordinator does not know this browser any more.
function leave() {
  stream?.close();
  stream = null;
  clearTimeout(again);
  say("Signed out", true);
}

function connect() {
  stream?.close();
  clearTimeout(again);
  if (document.hidden) {
    stream = null;
    return;
  }
  const { table, order, user, from } = view;
  const query = table === "usage" ? { rows: 1 } : { table, order, user, from, rows: ROWS };
  stream = new EventSource(`/events?${new URLSearchParams(query)}`);
  heard = Date.now();
  const own = stream;
  own.onmessage = (event) => {
    if (own === stream) take(JSON.parse(event.data));
  };
  own.addEventListener("alive", live);
  own.onerror = () => {
    if (own === stream) retry();
  };
}

function retry() {
  stream?.close();
  failures += 1;
  say("No connection: trying again", true);
  if (failures > 2) note(REFUSED);
  clearTimeout(again);
  again = setTimeout(async () => {
    // After a restart the coordinator knows no browsers.
    if (await ask("/visitor")) connect();
    else if (stream) retry();
  }, AGAIN_AFTER_MS);
}

function follow() {
  view = viewOf(location.hash);
  rows = [];
  drawHead();
  connect();
  if (view.table === "usage") takeUsage();
}

async function drawPast() {
  if (document.hidden || !stream) return;
  const past = await ask("/past");
  if (past) draw(at("past"), past);
}

async function begin() {
  visitor = await ask("/visitor");
  if (!visitor) {
    if (at("note").hidden) setTimeout(begin, AGAIN_AFTER_MS);
    return;
  }
  const rank = visitor.is_admin && visitor.user ? ", administrator" : "";
  setText(at("visitor"), visitor.name ? printable(visitor.name) + rank : "");
  at("tables").hidden = !visitor.name;
  follow();
  drawPast();
}

at("filter").addEventListener("submit", (event) => {
  event.preventDefault();
  show({ order: at("order").value, user: at("user").value.trim(), from: 0 });
});
at("order").addEventListener("change", () => show({ order: at("order").value, from: 0 }));
const PAGES = {
  first: () => 0,
  previous: () => Math.max(0, view.from - ROWS),
  next: () => view.from + ROWS,
  last: () => Math.floor((total - 1) / ROWS) * ROWS,
};
for (const [id, from] of Object.entries(PAGES)) {
  at(id).addEventListener("click", () => {
    if (at(id).getAttribute("aria-disabled") !== "true") show({ from: from() });
  });
}
at("skip").addEventListener("click", (event) => {
  // The address names the view, and keeps to it.
  event.preventDefault();
  at("rows").focus();
});
window.addEventListener("hashchange", follow);
document.addEventListener("visibilitychange", () => {
  if (visitor && (stream || !document.hidden)) connect();
});
setInterval(() => {
  if (stream && Date.now() - heard > SILENT_MS) retry();
  else if (rows.length) drawRows();
}, AGES_EVERY_MS);
setInterval(drawPast, PAST_EVERY_MS);
setInterval(() => {
  if (view.table === "usage" && stream && !document.hidden) takeUsage();
}, USAGE_EVERY_MS);
begin();
