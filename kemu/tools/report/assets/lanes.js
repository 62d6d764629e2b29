// The pictures of a run. A picture has a title, a legend, a height, draw(ink, axis) and hit(axis, x, y).

// State of a member: its colour, and its name. The states after FAILED are those of the consumer protocol.
const STATES = {
  STABLE: ["stable", "stable"],
  PREPARING_REBALANCE: ["joining", "joining"],
  COMPLETING_REBALANCE: ["syncing", "syncing"],
  UNJOINED: ["none", "not in the group"],
  CLOSED: ["none", "closed"],
  FAILED: ["red", "failed for good"],
  UNSUBSCRIBED: ["none", "not in the group"],
  JOINING: ["joining", "joining"],
  RECONCILING: ["syncing", "reconciling"],
  ACKNOWLEDGING: ["syncing", "acknowledging its assignment"],
  PREPARE_LEAVING: ["syncing", "giving up its partitions to leave"],
  LEAVING: ["syncing", "leaving"],
  FENCED: ["red", "fenced"],
  STALE: ["none", "left: the application does not poll"],
  FATAL: ["red", "failed for good"],
};
const OF_CONSUMER_PROTOCOL = ["JOINING", "RECONCILING", "ACKNOWLEDGING", "PREPARE_LEAVING", "LEAVING", "FENCED", "STALE"];
const MOST_PARTITIONS = 1000;

function groupedRows(frame, key) {
  const found = new Map();
  for (let row = 0; row < frame.n; row++) {
    const name = key(row);
    if (!found.has(name)) found.set(name, []);
    found.get(name).push(row);
  }
  return found;
}

// Rows of a frame that cover a time, three pixels wide.
function covering(frame, rows, axis, x) {
  const from = axis.time(x - 3);
  const until = axis.time(x + 3);
  const middle = axis.time(x);
  const near = rows.filter((row) => frame.from_us[row] <= until && frame.until_us[row] >= from);
  return near.sort((a, b) => distance(frame, a, middle) - distance(frame, b, middle));
}

const distance = (frame, row, us) => Math.max(0, frame.from_us[row] - us, us - frame.until_us[row]);
const between = (frame, row) =>
  `${clock(frame.from_us[row], 3)} to ${clock(frame.until_us[row], 3)}, ${span(frame.until_us[row] - frame.from_us[row])}`;

// The height of a row, and every how many rows have a label.
function rowHeight(n, most = 24) {
  return n <= 14 ? most : n <= 40 ? 15 : n <= 120 ? 9 : n <= 300 ? 6 : 4;
}

// A picture with rows that are equally high.
class Rows {
  constructor(run, id, title, legend) {
    Object.assign(this, { run, id, title, legend, note: "", rows: [] });
  }

  // Rows that pass the filter of names. A row's `names` are its own and those of its hosts or groups.
  get shown() {
    const wanted = this.run.filter;
    return wanted ? this.rows.filter((row) => row.names.some((name) => name.toLowerCase().includes(wanted))) : this.rows;
  }

  get height() {
    return Math.max(1, this.shown.length) * this.step + 4;
  }

  get step() {
    return rowHeight(this.shown.length, this.tall || 24);
  }

  draw(ink, axis) {
    const step = this.step;
    const every = Math.ceil(12 / step);
    this.shown.forEach((row, index) => {
      const y = 2 + index * step;
      if (index % every === 0) {
        ink.fillStyle = P.ink;
        ink.fillText(fitted(ink, row.label, GUTTER - 14), 6, y + Math.min(step, 24) / 2 + 4);
      }
      this.drawRow(ink, axis, row, y, step - (step > 6 ? 2 : step > 4 ? 1 : 0));
    });
  }

  rowAt(y) {
    return this.shown[Math.floor((y - 2) / this.step)];
  }

  hit(axis, x, y) {
    const row = this.rowAt(y);
    return row && x >= GUTTER ? this.hitRow(axis, row, x) : null;
  }
}

// --- what happened -------------------------------------------------------------------------------------------------------

class Events {
  constructor(run) {
    const F = run.F;
    Object.assign(this, { run, id: "events", title: "", legend: [], note: "" });
    this.lines = [];
    const faults = [...Array(F.faults.n).keys()];
    const real = faults.filter((row) => !F.faults.operation[row]);
    const operations = faults.filter((row) => F.faults.operation[row]);
    if (real.length) this.line("faults", 30, (ink, axis, y) => this.faults(ink, axis, y, real, 4), F.faults, real);
    if (operations.length) {
      this.line("operations", 22, (ink, axis, y) => this.faults(ink, axis, y, operations, 3), F.faults, operations);
    }
    if (F.rebalances.n) this.line("rebalances", 20, (ink, axis, y) => this.rebalances(ink, axis, y));
    if (F.hosts.n) this.line("down, paused", 20, (ink, axis, y) => this.hosts(ink, axis, y), F.hosts);
    if (F.controllers.n) this.line("controller", 20, (ink, axis, y) => this.controllers(ink, axis, y), F.controllers);
    const served = Object.values(run.about.groups).reduce((sum, n) => sum + n, 0);
    if (F.down.n) this.strip("without service", Steps.ofSpans(F.down.from_us, F.down.until_us), "red", served, "%");
    for (const [name, frame, colour] of [
      ["leaderless", F.leaderless, "red"],
      ["under-replicated", F.under_replicated, "amber"],
      ["under min ISR", F.under_min_isr, "red"],
    ]) {
      if (frame.n) this.strip(name, Steps.ofSpans(frame.from_us, frame.until_us), colour, 0, "partitions");
    }
    if (F.task_stops.n) {
      this.strip("tasks stopped", Steps.ofSpans(F.task_stops.from_us, F.task_stops.until_us), "red", 0, "tasks");
    }
    if (F.waiting.n) this.strip("waiting records", new Steps(F.waiting.at_us, F.waiting.records), "bar", 0, "records");
  }

  line(name, height, draw, frame, rows) {
    this.lines.push({ name, height, draw, frame, rows: rows || (frame ? [...Array(frame.n).keys()] : []) });
  }

  strip(name, steps, colour, of, unit) {
    if (!steps.most) return;
    const top = of && unit === "%" ? of : steps.most;
    const sub = unit === "%" ? `top: 100 % of ${count(of)}` : `top: ${plural(steps.most, unit.slice(0, -1))}`;
    const draw = (ink, axis, y) => {
      drawStrip(ink, axis, steps, y + 3, 38, top, P[colour]);
      ink.fillStyle = P.dim;
      ink.fillText(sub, 6, y + 29);
    };
    this.lines.push({ name, sub, height: 45, draw, steps, unit, rows: [] });
  }

  get height() {
    return 22 + this.lines.reduce((sum, line) => sum + line.height, 0);
  }

  draw(ink, axis) {
    let y = 20;
    for (const line of this.lines) {
      line.dropped = 0;
      ink.fillStyle = P.grid;
      ink.fillRect(GUTTER, y + line.height - 1, axis.width, 1);
      line.draw(ink, axis, y);
      ink.fillStyle = P.ink;
      ink.fillText(line.name + (line.dropped ? ` (+${line.dropped})` : ""), 6, y + 14);
      y += line.height;
    }
  }

  faults(ink, axis, y, rows, thick) {
    const F = this.run.F.faults;
    const line = this.lines.find((each) => each.rows === rows);
    const labels = new Labels(ink, axis, y + 8 + 2 * thick + 8);
    for (const row of rows) {
      const lasts = F.until_us[row] > F.from_us[row];
      bar(ink, axis, F.from_us[row], F.until_us[row], y + 4, lasts ? thick : thick + 2, P.amber, 3);
      labels.put(axis.x(F.from_us[row]), F.say("text", row), P.ink);
    }
    if (line) line.dropped = labels.dropped;
  }

  rebalances(ink, axis, y) {
    const F = this.run.F.rebalances;
    for (let row = 0; row < F.n; row++) {
      const until = F.ended_us[row] < 0 ? axis.end : F.ended_us[row];
      bar(ink, axis, F.started_us[row], until, y + 4, 12, P.bar, 1);
    }
  }

  hosts(ink, axis, y) {
    const F = this.run.F.hosts;
    const labels = new Labels(ink, axis, y + 14);
    for (let row = 0; row < F.n; row++) {
      const isPaused = F.say("state", row) === "paused";
      const fill = isPaused ? hatch(ink, P.paused, P.card) : P.dim;
      bar(ink, axis, F.from_us[row], F.until_us[row], y + 4, 12, fill, 1);
      ink.fillStyle = P.card;
      ink.fillRect(axis.x(F.until_us[row]) - 0.5, y + 4, 0.5, 12);
      const room = axis.x(F.until_us[row]) - axis.x(F.from_us[row]);
      const host = F.say("host", row);
      if (isPaused && room > 30) {
        ink.fillStyle = P.card;
        ink.fillRect(Math.max(axis.x(F.from_us[row]), GUTTER) + 1, y + 5, ink.measureText(host).width + 5, 10);
      }
      labels.put(axis.x(F.from_us[row]) + 3, host, isPaused ? P.ink : P.paper, room);
    }
  }

  controllers(ink, axis, y) {
    const F = this.run.F.controllers;
    const labels = new Labels(ink, axis, y + 14);
    for (let row = 0; row < F.n; row++) {
      const broker = F.say("broker", row);
      bar(ink, axis, F.from_us[row], F.until_us[row], y + 4, 12, brokerColour(broker), 1);
      const room = axis.x(F.until_us[row]) - axis.x(F.from_us[row]);
      labels.put(axis.x(F.from_us[row]) + 3, `${broker}, epoch ${F.epoch[row]}`, P.paper, room);
    }
  }

  hit(axis, x, y) {
    let top = 20;
    const line = this.lines.find((each) => (top += each.height) > y);
    if (!line || x < GUTTER) return null;
    const us = axis.time(x);
    if (line.steps) {
      const n = line.steps.at(us);
      return { lines: [`${line.name}: ${count(n)}${line.unit === "%" ? " partitions" : " " + line.unit} at ${clock(us, 3)}`] };
    }
    if (line.name === "rebalances") return this.run.rebalanceAt(axis, x);
    const found = covering(line.frame, line.rows, axis, x).slice(0, 4);
    if (!found.length) return null;
    const F = line.frame;
    const told = (row) =>
      F === this.run.F.hosts
        ? `${F.say("host", row)} ${F.say("state", row)} ${F.say("how", row)}`.trim()
        : F === this.run.F.controllers
          ? `controller ${F.say("broker", row)}, epoch ${F.epoch[row]}`
          : `fault ${F.index[row]}: ${F.say("text", row)}`;
    return { lines: found.map((row) => `${told(row)} (${between(F, row)})`), from: F.from_us[found[0]], until: F.until_us[found[0]] };
  }
}

function brokerColour(broker) {
  const number = typeof broker === "number" ? broker : parseInt(String(broker).replace(/\D/g, ""), 10) || 0;
  return P.brokers[number % P.brokers.length];
}

// --- members -------------------------------------------------------------------------------------------------------------

class Members extends Rows {
  constructor(run) {
    const F = run.F.members;
    const states = F.tables.state || [];
    const classic = states.includes("PREPARING_REBALANCE");
    const modern = states.some((state) => OF_CONSUMER_PROTOCOL.includes(state));
    const joining = [classic && "JoinGroup sent", modern && "epoch 0 sent"].filter(Boolean).join(", or ");
    const syncing = [classic && "syncing: waits for the assignment", modern && "reconciling: takes a new assignment"];
    super(run, "members", "Members", [
      ["stable", "stable"], ["joining", `joining: ${joining}`], ["syncing", syncing.filter(Boolean).join("; ")],
      ["paused", "host paused", true], ["red", modern ? "host down, or fenced" : "host down"], ["none", "not in the group"],
      ["owned", "line: partitions owned"],
    ]);
    const several = (F.tables.group || []).length > 1;
    const owned = groupedRows(run.F.ownership, (row) => run.F.ownership.say("owner", row));
    const hosts = groupedRows(run.F.hosts, (row) => run.F.hosts.say("host", row));
    this.mostOwned = 0;
    for (const [key, rows] of groupedRows(F, (row) => `${F.say("group", row)} ${F.say("member", row)}`)) {
      const [group, member] = key.split(" ");
      const own = (owned.get(member) || []).filter((row) => run.F.ownership.say("group", row) === group);
      const steps = Steps.ofSpans(own.map((row) => run.F.ownership.from_us[row]), own.map((row) => run.F.ownership.until_us[row]));
      this.mostOwned = Math.max(this.mostOwned, steps.most);
      const label = several ? `${member} ${group}` : member;
      this.rows.push({ label, names: [member, group], rows, steps, down: hosts.get(hostOf(member)) || [], member });
    }
    this.rows.sort((a, b) => naturally(a.label, b.label));
    this.legend.find(([colour]) => colour === "owned")[1] += ` (top: ${this.mostOwned})`;
  }

  drawRow(ink, axis, row, y, height) {
    const F = this.run.F.members;
    for (const each of row.rows) {
      if (F.until_us[each] < axis.from || F.from_us[each] > axis.until) continue;
      const colour = P[(STATES[F.say("state", each)] || ["none"])[0]];
      bar(ink, axis, F.from_us[each], F.until_us[each], y, height, colour);
    }
    const H = this.run.F.hosts;
    for (const each of row.down) {
      if (H.say("state", each) === "paused") {
        bar(ink, axis, H.from_us[each], H.until_us[each], y, height, hatch(ink, P.paused, P.card));
      } else {
        bar(ink, axis, H.from_us[each], H.until_us[each], y, height, P.card);
        bar(ink, axis, H.from_us[each], H.until_us[each], y + height / 2 - 1, 2, P.red);
      }
    }
    if (height > 8) this.drawOwned(ink, axis, row, y, height);
  }

  drawOwned(ink, axis, row, y, height) {
    const labels = height >= 18 ? new Labels(ink, axis, y + height / 2 + 4) : null;
    const { times, values } = row.steps;
    const start = Math.max(0, row.steps.index(axis.from));
    for (let at = start; at < times.length && times[at] <= axis.until; at++) {
      const until = at + 1 < times.length ? times[at + 1] : axis.end;
      const level = y + height - 2 - (values[at] / (this.mostOwned || 1)) * (height - 4);
      bar(ink, axis, times[at], until, level, 1.5, P.owned, 0.5);
      if (labels && values[at]) labels.put(axis.x(times[at]) + 2, String(values[at]), P.owned, axis.x(until) - axis.x(times[at]));
    }
  }

  hitRow(axis, row, x) {
    const F = this.run.F.members;
    const us = axis.time(x);
    const down = covering(this.run.F.hosts, row.down, axis, x)[0];
    const owns = `owns ${plural(row.steps.at(us), "partition")} at ${clock(us, 3)}`;
    if (down !== undefined) {
      const H = this.run.F.hosts;
      return { lines: [`${row.member}: host ${H.say("state", down)} ${H.say("how", down)} (${between(H, down)})`, owns], from: H.from_us[down], until: H.until_us[down], name: hostOf(row.member) };
    }
    const found = covering(F, row.rows, axis, x)[0];
    if (found === undefined) return null;
    const said = (STATES[F.say("state", found)] || ["", F.say("state", found)])[1];
    const why = F.say("why", found);
    const epoch = this.run.epochWord(F.say("group", found), F.from_us[found], F.until_us[found]);
    return {
      lines: [`${row.member} ${said}, ${epoch} ${F.generation[found]} (${between(F, found)})`, why && `because: ${why}`, owns],
      from: F.from_us[found], until: F.until_us[found], name: hostOf(row.member),
    };
  }
}

// --- partitions ----------------------------------------------------------------------------------------------------------

class Partitions extends Rows {
  constructor(run) {
    super(run, "partitions", "Partitions", [
      ["home", "its first owner"], ["away", "another owner"], ["paused", "owner paused", true], ["red", "above: without service"],
      ["two", "two owners", true], ["card", "gap: no owner"],
    ]);
    this.tall = 19;
    const F = run.F.ownership;
    const several = (F.tables.group || []).length > 1;
    const down = groupedRows(run.F.down, (row) => `${run.F.down.say("group", row)} ${run.F.down.say("partition", row)}`);
    const hosts = groupedRows(run.F.hosts, (row) => run.F.hosts.say("host", row));
    const pausesOf = new Map();
    for (const owner of F.tables.owner || []) {
      const paused = (hosts.get(hostOf(owner)) || []).filter((row) => run.F.hosts.say("state", row) === "paused");
      pausesOf.set(owner, paused.map((row) => [run.F.hosts.from_us[row], run.F.hosts.until_us[row]]));
    }
    this.pausesOf = pausesOf;
    let stayed = 0;
    const byPartition = groupedRows(F, (row) => `${F.say("group", row)} ${F.say("partition", row)}`);
    for (const [key, rows] of byPartition) {
      const [group, partition] = key.split(" ");
      const owners = new Set(rows.map((row) => F.owner[row]));
      if (byPartition.size > MOST_PARTITIONS && owners.size < 2) {
        stayed += 1;
        continue;
      }
      const names = [partition, group, ...[...owners].map((code) => F.tables.owner[code])];
      const label = several ? `${group}/${partition}` : partition;
      this.rows.push({ label, names, rows, down: down.get(key) || [], home: F.owner[rows[0]], twice: overlaps(F, rows), partition });
    }
    this.rows.sort((a, b) => naturally(a.label, b.label));
    if (stayed) this.note = `${plural(stayed, "partition")} that never changed owner not drawn`;
    if (this.rows.length > MOST_PARTITIONS) {
      const kept = [...this.rows].sort((a, b) => b.rows.length - a.rows.length).slice(0, MOST_PARTITIONS);
      this.note += `; of those that moved, the ${count(MOST_PARTITIONS)} that moved most`;
      this.rows = kept.sort((a, b) => naturally(a.label, b.label));
    }
  }

  drawRow(ink, axis, row, y, height) {
    const F = this.run.F.ownership;
    for (const each of row.rows) {
      const [from, until] = [F.from_us[each], F.until_us[each]];
      if (until < axis.from || from > axis.until) continue;
      bar(ink, axis, from, until, y, height, F.owner[each] === row.home ? P.home : P.away);
      for (const [begin, end] of this.pausesOf.get(F.say("owner", each)) || []) {
        if (begin < until && end > from) {
          bar(ink, axis, Math.max(begin, from), Math.min(end, until), y, height, hatch(ink, P.paused));
        }
      }
    }
    const D = this.run.F.down;
    for (const each of row.down) {
      if (D.until_us[each] < axis.from || D.from_us[each] > axis.until) continue;
      bar(ink, axis, D.from_us[each], D.until_us[each], y, Math.max(1.5, height / 2), P.red);
    }
    for (const [from, until] of row.twice) bar(ink, axis, from, until, y, height, hatch(ink, P.ink, P.two), 1.5);
  }

  hitRow(axis, row, x) {
    const F = this.run.F.ownership;
    const owned = covering(F, row.rows, axis, x);
    const us = axis.time(x);
    const lines = owned.slice(0, 3).map((each) => {
      const ended = F.say("ended", each);
      return `${row.partition} owned by ${F.say("owner", each)}, ${this.run.epochWord(F.say("group", each), F.from_us[each], F.from_us[each])} ${F.generation[each]} (${between(F, each)})${ended ? `; then ${ended}` : ""}`;
    });
    if (!owned.length) lines.push(`${row.partition} has no owner at ${clock(us, 3)}`);
    const D = this.run.F.down;
    const down = covering(D, row.down, axis, x)[0];
    if (down !== undefined) {
      lines.push(`without service (${between(D, down)}): ${D.say("cause", down)}, last served by ${D.say("member", down)}`);
      lines.push(...this.run.waitsOf(down));
    }
    const first = down !== undefined ? [D.from_us[down], D.until_us[down]] : owned.length ? [F.from_us[owned[0]], F.until_us[owned[0]]] : [];
    return { lines, from: first[0], until: first[1], name: row.partition };
  }
}

// The spans in which two different members owned a partition.
function overlaps(F, rows) {
  const found = [];
  let open = [];
  for (const row of rows) {
    open = open.filter((each) => F.until_us[each] > F.from_us[row]);
    for (const each of open) {
      if (F.owner[each] !== F.owner[row]) found.push([F.from_us[row], Math.min(F.until_us[each], F.until_us[row])]);
    }
    open.push(row);
  }
  return found;
}

// --- leaders ---------------------------------------------------------------------------------------------------------------

class Leaders extends Rows {
  constructor(run) {
    const F = run.F.leaders;
    const leaders = [...new Set(F.leader)].filter((each) => each >= 0).sort((a, b) => a - b);
    super(run, "leaders", "Leaders and ISRs", [
      ...leaders.slice(0, 10).map((each) => [`broker${each % 8}`, `b${each} leads`]),
      ["red", "leaderless", true], ["amber", "line: ISR smaller than the replicas"],
    ]);
    this.tall = 21;
    const spans = (frame) => groupedRows(frame, (row) => frame.say("partition", row));
    const [leaderless, short, under] = [run.F.leaderless, run.F.under_replicated, run.F.under_min_isr].map(spans);
    let stayed = 0;
    const all = groupedRows(F, (row) => F.say("partition", row));
    for (const [partition, rows] of all) {
      const touched = leaderless.has(partition) || short.has(partition) || new Set(rows.map((row) => F.leader[row])).size > 1;
      if (!touched && (partition.startsWith("__") || all.size > 60)) {
        stayed += 1;
        continue;
      }
      this.rows.push({
        label: partition, names: [partition], rows, partition,
        leaderless: leaderless.get(partition) || [], short: short.get(partition) || [], under: under.get(partition) || [],
      });
    }
    this.rows.sort((a, b) => naturally(a.label, b.label));
    this.note = "height: share of the replicas in the ISR" + (stayed ? `; ${plural(stayed, "partition")} that kept leader and ISR not drawn` : "");
  }

  drawRow(ink, axis, row, y, height) {
    const F = this.run.F.leaders;
    const labels = height >= 12 ? new Labels(ink, axis, y + height / 2 + 5) : null;
    for (const each of row.rows) {
      const [from, until] = [F.from_us[each], F.until_us[each]];
      if (until < axis.from || from > axis.until) continue;
      const isr = F.say("isr", each);
      const share = Math.min(1, isr.split(",").length / (F.say("replicas", each).split(",").length || 1));
      const high = height * share;
      if (F.leader[each] < 0) {
        bar(ink, axis, from, until, y, height, hatch(ink, P.red, P.card));
        continue;
      }
      bar(ink, axis, from, until, y + height - high, high, brokerColour(F.leader[each]));
      if (labels) {
        const x0 = Math.max(axis.x(from), GUTTER);
        labels.put(x0 + 4, `b${F.leader[each]} · ${isr} · epoch ${F.epoch[each]}`, P.paper, axis.x(until) - x0);
      }
    }
    for (const [frame, rows, colour, thick] of [
      [this.run.F.under_replicated, row.short, P.amber, 2.5],
      [this.run.F.under_min_isr, row.under, P.red, 2.5],
    ]) {
      for (const each of rows) bar(ink, axis, frame.from_us[each], frame.until_us[each], y, Math.min(thick, height / 2), colour);
    }
    const L = this.run.F.leaderless;
    for (const each of row.leaderless) {
      bar(ink, axis, L.from_us[each], L.until_us[each], y, height, hatch(ink, P.red, P.card), 1.2);
    }
  }

  hitRow(axis, row, x) {
    const F = this.run.F.leaders;
    const found = covering(F, row.rows, axis, x)[0];
    const lines = [];
    for (const [words, frame, rows] of [
      ["leaderless", this.run.F.leaderless, row.leaderless],
      ["under-replicated", this.run.F.under_replicated, row.short],
      ["under min.insync.replicas", this.run.F.under_min_isr, row.under],
    ]) {
      for (const each of covering(frame, rows, axis, x).slice(0, 1)) lines.push(`${words} (${between(frame, each)})`);
    }
    if (found === undefined) return lines.length ? { lines } : null;
    const leader = F.leader[found] < 0 ? "no leader" : `b${F.leader[found]} leads`;
    lines.unshift(`${row.partition}: ${leader}, epoch ${F.epoch[found]}, ISR ${F.say("isr", found)} of ${F.say("replicas", found)} (${between(F, found)})`);
    return { lines, from: F.from_us[found], until: F.until_us[found], name: row.partition };
  }
}
