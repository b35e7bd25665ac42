// Columns of the tables, and rows in words. All words are text: the page never parses them.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

// Signs that are not seen, or that turn the direction of text.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

export function printable(text) {
  return String(text ?? "").replace(UNSEEN, "\ufffd");
}

export function count(number) {
  return Number(number).toLocaleString("en");
}

function inUnit(value) {
  return value < 99.95 && value > 0 ? value.toFixed(1) : value.toFixed(0);
}

function unitOf(bytes) {
  let unit = 0;
  while (unit + 1 < UNITS.length && bytes >= 1024 ** (unit + 1)) unit += 1;
  return unit;
}

export function bytes(number) {
  const unit = unitOf(number);
  return `${unit ? inUnit(number / 1024 ** unit) : number} ${UNITS[unit]}`;
}

// Memory in use of all: "71.0 of 139 GiB", "2.0 MiB of 139 GiB".
function memory(used, all) {
  const unit = unitOf(all);
  const part = used / 1024 ** unit;
  const shown = used > 0 && part < 0.05 ? bytes(used) : inUnit(part);
  return `${shown} of ${inUnit(all / 1024 ** unit)} ${UNITS[unit]}`;
}

export function age(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds / 60) % 60} min`;
  return `${Math.floor(seconds / 86400)} days`;
}

function percent(value) {
  return value === null ? "unknown" : `${value} %`;
}

function others(number, what) {
  return number === 1 ? `1 other ${what}` : `${count(number)} other ${what}s`;
}

// A cell: its text, and the part of it that is in use, from 0 to 1.
function cell(text, part) {
  return { text: printable(text), part };
}

function use(value) {
  return cell(percent(value), value === null ? 0 : value / 100);
}

function memoryCell(used, all) {
  return cell(memory(used, all), all ? used / all : 0);
}

const number = (title) => ({ title, isNumber: true });
const text = (title) => ({ title, isNumber: false });

function nodeCells(row, now) {
  const why = row.heard_unix_ms === null ? row.reason : `heard ${age(now - row.heard_unix_ms)} ago`;
  const busy = row.unknown > 0 && row.busy === 0 ? "unknown" : count(row.busy);
  return [
    cell(row.name),
    cell(row.state),
    cell(count(row.devices)),
    cell(busy, row.devices ? row.busy / row.devices : 0),
    cell(count(row.held)),
    cell(count(row.idle)),
    memoryCell(row.memory_used, row.memory),
    cell(count(row.sessions)),
    cell(why ?? ""),
  ];
}

function deviceState(row, now) {
  const state = row.condition === "quarantined" ? "in quarantine" : row.condition;
  const since = row.quarantined_since_unix_ms;
  const lasts = since === null ? "" : ` for ${age(now - since)}${row.quarantine_charged ? ", charged" : ""}`;
  const idle = row.idle_since_unix_ms === null ? "" : `, idle ${age(now - row.idle_since_unix_ms)}`;
  return `${state}${lasts}${row.reason === null ? "" : `: ${row.reason}`}${idle}`;
}

function deviceCells(row, now) {
  const who = [...row.users, ...row.programs];
  if (row.other_users > 0) who.push(others(row.other_users, "user"));
  // Programs outside of Accord.
  if (row.used_by_others) who.push("others");
  return [
    cell(row.node),
    cell(row.ordinal),
    cell(row.name),
    cell(deviceState(row, now)),
    row.condition === "lost" ? cell("") : use(row.busy_percent),
    memoryCell(row.memory_used, row.memory),
    cell(row.jobs.join(", ")),
    cell(who.join(", ")),
  ];
}

function jobDevices(devices) {
  return devices.map((on) => `${on.node}/${on.ordinals.join(",")}`).join(" ");
}

function jobCells(row, now) {
  const waits = row.why !== null;
  const idle = row.idle_since_unix_ms === null ? "" : `idle ${age(now - row.idle_since_unix_ms)}, `;
  return [
    cell(row.job),
    cell(row.user),
    cell(row.account),
    cell(row.program),
    cell(row.request),
    cell(row.state),
    cell(age(now - (row.started_unix_ms ?? row.asked_unix_ms))),
    waits ? cell("") : use(row.busy_percent),
    cell(waits ? row.why : idle + jobDevices(row.devices)),
  ];
}

function userCells(row) {
  return [
    cell(row.user === null ? `(${others(row.users, "user")})` : row.user),
    cell(count(row.running)),
    cell(count(row.waiting)),
    cell(count(row.sessions)),
    cell(count(row.devices)),
    row.devices ? use(row.busy_percent) : cell(""),
    cell(count(row.idle)),
    cell(bytes(row.memory_used)),
  ];
}

function hours(ms) {
  return (ms / 3600000).toLocaleString("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
}

function usageCells(row) {
  const known = row.device_ms - row.unknown_ms;
  const busy = known > 0 ? Math.min(1, row.busy_ms / known) : null;
  return [
    cell(row.account),
    cell(hours(row.device_ms)),
    busy === null ? cell("unknown") : cell(`${Math.round(100 * busy)} %`, busy),
    cell(count(row.jobs)),
  ];
}

export const TABLES = {
  devices: {
    title: "Devices",
    empty: "There are no such devices.",
    orders: true,
    columns: [text("Node"), number("Device"), text("Name"), text("State"), number("Use"), number("Memory"), number("Jobs"), text("Users, programs")],
    cells: deviceCells,
    kind: (row) => (["drained", "quarantined", "lost"].includes(row.condition) ? "out" : row.idle_since_unix_ms === null ? "" : "idle"),
  },
  nodes: {
    title: "Nodes",
    empty: "There are no such nodes.",
    orders: true,
    columns: [text("Node"), text("State"), number("Devices"), number("Busy"), number("Held"), number("Idle"), number("Memory"), number("Sessions"), text("Why")],
    cells: nodeCells,
    kind: (row) => (row.state === "up" ? "" : "out"),
  },
  jobs: {
    title: "Jobs and queue",
    empty: "No job runs or waits.",
    orders: true,
    columns: [number("Job"), text("User"), text("Account"), text("Program"), text("Request"), text("State"), number("Since"), number("Use"), text("Devices, or why it waits")],
    cells: jobCells,
    kind: (row) => (row.idle_since_unix_ms === null ? "" : "idle"),
  },
  users: {
    title: "Users",
    empty: "No user has a job or session.",
    orders: true,
    columns: [text("User"), number("Running"), number("Waiting"), number("Sessions"), number("Devices"), number("Use"), number("Idle"), number("Memory")],
    cells: userCells,
    kind: () => "",
  },
  usage: {
    title: "Use by account",
    empty: "Nothing has been used yet.",
    orders: false,
    columns: [text("Account"), number("Device-hours"), number("Busy"), number("Jobs")],
    cells: usageCells,
    kind: () => "",
  },
};

// The cluster in numbers: a title, a large number, and words about it.
export function summaryCards(summary) {
  const nodes = summary.nodes_up + summary.nodes_draining + summary.nodes_away;
  const parts = (list) => list.filter(([many]) => many > 0).map(([many, what]) => `${count(many)} ${what}`).join(", ");
  return [
    ["Nodes", count(nodes), parts([[summary.nodes_up, "up"], [summary.nodes_draining, "draining"], [summary.nodes_away, "away"]])],
    ["Busy devices", `${count(summary.devices_busy)} of ${count(summary.devices)}`, parts([[summary.devices_idle, "held and idle"], [summary.devices_unknown, "unknown"], [summary.devices_out, "out of use"]])],
    ["Running jobs", count(summary.jobs_running + summary.others_running), summary.others_running ? `${count(summary.jobs_running)} of them shown` : ""],
    ["Waiting jobs", count(summary.jobs_waiting + summary.others_waiting), summary.paused ? "all starts are paused" : summary.others_waiting ? `${count(summary.jobs_waiting)} of them shown` : ""],
    ["Sessions", count(summary.sessions), ""],
  ];
}
