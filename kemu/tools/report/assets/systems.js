// The pictures of single systems: Streams tasks, reassignments, KIP-333's ranges, lag, and messages.

class Tasks extends Rows {
  constructor(run) {
    super(run, "tasks", "Streams tasks", [
      ["stable", "active, running"], ["restoring", "active, restoring", true], ["learner", "learner, filled: restored share", true],
      ["standby", "standby", true], ["red", "above: no instance processes the task"],
    ]);
    const F = run.F.tasks;
    const several = (F.tables.application || []).length > 1;
    const stops = groupedRows(run.F.task_stops, (row) => run.F.task_stops.say("task", row));
    const R = run.F.restored;
    const restored = groupedRows(R, (row) => `${R.say("application", row)} ${R.say("task", row)} ${R.say("instance", row)} ${R.say("thread", row)}`);
    const places = groupedRows(F, (row) => ["application", "task", "instance", "thread"].map((name) => F.say(name, row)).join(" "));
    const copies = new Map();
    for (const key of places.keys()) {
      const task = key.split(" ").slice(0, 2).join(" ");
      copies.set(task, (copies.get(task) || 0) + 1);
    }
    let stayed = 0;
    for (const [key, rows] of places) {
      const [application, task, instance, thread] = key.split(" ");
      const own = `${application} ${task}`;
      if (copies.get(own) === 1 && places.size > 40 && !stops.has(`${application}/${task}`)) {
        stayed += 1;
        continue;
      }
      const where = thread ? `${instance}/${thread}` : instance;
      const label = `${several ? application + " " : ""}${task}  on ${where}`;
      const down = stops.get(`${application}/${task}`) || [];
      const mine = down.filter((row) => [run.F.task_stops.say("instance", row)].includes(instance));
      this.rows.push({ label, names: [task, where, application], rows, restored: restored.get(key) || [], stops: mine, task });
    }
    this.rows.sort((a, b) => naturally(a.label, b.label));
    if (stayed) this.note = `${plural(stayed, "task")} stayed where they were: not drawn`;
  }

  fill(ink, row) {
    const F = this.run.F.tasks;
    const [role, state] = [F.say("role", row), F.say("state", row)];
    if (role === "active") return state === "RUNNING" ? P.stable : hatch(ink, P.restoring, P.card);
    return role === "standby" ? hatch(ink, P.standby, P.card) : hatch(ink, P.learner, P.card);
  }

  drawRow(ink, axis, row, y, height) {
    const F = this.run.F.tasks;
    const labels = height > 12 ? new Labels(ink, axis, y + height / 2 + 4) : null;
    let before = "";
    for (const each of row.rows) {
      const [from, until] = [F.from_us[each], F.until_us[each]];
      if (until < axis.from || from > axis.until) continue;
      bar(ink, axis, from, until, y, height, this.fill(ink, each), 1);
      const role = F.say("role", each);
      if (role !== "active") this.progress(ink, axis, row, from, until, y, height, role === "standby" ? P.standby : P.learner);
      const words = role === "active" && F.say("state", each) !== "RUNNING" ? "restoring" : role;
      if (labels && words !== before) {
        const x = Math.max(axis.x(from), GUTTER);
        if (role === "active") labels.put(x + 5, words, P.ink, axis.x(until) - x);
        else this.work(ink, axis, labels, row, each, x);
      }
      before = words;
    }
    const S = this.run.F.task_stops;
    for (const each of row.stops) bar(ink, axis, S.from_us[each], S.until_us[each], y, Math.max(2, height / 3), P.red, 1.2);
  }

  // "learns 2,036 records in 21.0 s" before the bar, or inside where there is no room before it.
  work(ink, axis, labels, row, each, x) {
    const [F, R] = [this.run.F.tasks, this.run.F.restored];
    const mine = row.restored.filter((read) => R.at_us[read] >= F.from_us[each] && R.at_us[read] <= F.until_us[each]);
    const records = mine.reduce((sum, read) => sum + R.last[read] - R.first[read], 0);
    const role = F.say("role", each);
    const text = records
      ? `${role === "standby" ? "standby read" : "learns"} ${plural(records, "record")} in ${span(F.until_us[each] - F.from_us[each])}`
      : role;
    const wide = ink.measureText(text).width;
    if (x - wide - 8 > labels.free) labels.put(x - wide - 6, text, P.ink);
    else labels.put(x + 5, text, P.ink, axis.x(F.until_us[each]) - x);
  }

  progress(ink, axis, row, from, until, y, height, colour) {
    const R = this.run.F.restored;
    const mine = row.restored.filter((read) => R.at_us[read] >= from && R.at_us[read] <= until);
    if (mine.length < 2) return;
    ink.save();
    ink.beginPath();
    ink.rect(GUTTER, y, axis.width, height);
    ink.clip();
    ink.globalAlpha = 0.75;
    ink.fillStyle = colour;
    ink.beginPath();
    ink.moveTo(axis.x(R.at_us[mine[0]]), y + height);
    for (const read of mine) ink.lineTo(axis.x(R.at_us[read]), y + height * (1 - Math.min(1, R.last[read] / (R.end[read] || 1))));
    const last = mine[mine.length - 1];
    ink.lineTo(axis.x(until), y + height * (1 - Math.min(1, R.last[last] / (R.end[last] || 1))));
    ink.lineTo(axis.x(until), y + height);
    ink.fill();
    ink.restore();
  }

  hitRow(axis, row, x) {
    const [F, S] = [this.run.F.tasks, this.run.F.task_stops];
    const lines = [];
    const stop = covering(S, row.stops, axis, x)[0];
    if (stop !== undefined) {
      const parts = ["detect", "barrier", "restore", "pause"].filter((name) => S[`${name}_us`][stop]);
      const spent = parts.map((name) => `${name} ${span(S[`${name}_us`][stop])}`).join(", ");
      lines.push(`task ${row.task} stopped (${between(S, stop)}): ${S.say("cause", stop)}; ${spent}; next on ${S.say("taken_by", stop) || "no instance"}`);
    }
    const found = covering(F, row.rows, axis, x)[0];
    if (found === undefined && stop === undefined) return null;
    if (found !== undefined) {
      lines.unshift(`${row.label}: ${F.say("role", found)}, ${F.say("state", found)}, state up to offset ${F.position[found]} (${between(F, found)})`);
    }
    const [frame, at] = stop !== undefined ? [S, stop] : [F, found];
    return { lines, from: frame.from_us[at], until: frame.until_us[at], name: row.task };
  }
}

// --- reassignments -----------------------------------------------------------------------------------------------------

class Reassignments {
  constructor(run) {
    Object.assign(this, { run, id: "reassignments", title: "Reassignments", note: "" });
    this.legend = [["learner", "a step, from its start to its commit"], ["bar", "tick: ISR proposed"], ["red", "tick: refused"], ["amber", "records received"]];
    const [F, S] = [run.F.reassignments, run.F.steps];
    const steps = groupedRows(S, (row) => S.say("partition", row));
    const moves = groupedRows(F, (row) => F.say("partition", row));
    const proposals = groupedRows(run.F.proposals, (row) => run.F.proposals.say("partition", row));
    const waits = groupedRows(run.F.reassignment_waits, (row) => run.F.reassignment_waits.say("partition", row));
    const names = [...new Set([...moves.keys(), ...steps.keys()])].sort(naturally);
    this.blocks = names.map((name) => ({
      name, steps: steps.get(name) || [], moves: moves.get(name) || [], proposals: proposals.get(name) || [], waits: waits.get(name) || [],
    }));
    this.opened = new Set(names.length > 12 ? [] : names);
    this.brokers = [...groupedRows(run.F.received, (row) => run.F.received.say("broker", row))].sort((a, b) => naturally(a[0], b[0]));
    this.top = Math.max(0, ...Array.from(run.F.received.bytes || []));
    if (names.length > 12) this.note = "colour: number of the step; click a row to open it";
  }

  get shown() {
    const wanted = this.run.filter;
    return wanted ? this.blocks.filter((block) => block.name.toLowerCase().includes(wanted)) : this.blocks;
  }

  heightOf(block) {
    return this.opened.has(block.name) ? Math.max(34, block.steps.length * 18 + 12) : 15;
  }

  get height() {
    return 6 + this.shown.reduce((sum, block) => sum + this.heightOf(block), 0) + (this.top ? this.brokers.length * 24 + 6 : 0);
  }

  draw(ink, axis) {
    let y = 4;
    for (const block of this.shown) {
      if (this.opened.has(block.name)) this.block(ink, axis, block, y);
      else this.folded(ink, axis, block, y);
      y += this.heightOf(block);
      ink.fillStyle = P.grid;
      ink.fillRect(0, y - 3, GUTTER + axis.width, 1);
    }
    if (this.top) this.received(ink, axis, y);
  }

  ends(row) {
    const S = this.run.F.steps;
    return [S.started_us[row], S.committed_us[row] < 0 ? this.run.axis.end : S.committed_us[row]];
  }

  folded(ink, axis, block, y) {
    ink.fillStyle = P.ink;
    ink.fillText(fitted(ink, block.name, GUTTER - 14), 6, y + 10);
    for (const row of block.steps) {
      const [from, until] = this.ends(row);
      bar(ink, axis, from, until, y, 11, P.brokers[(this.run.F.steps.number[row] - 1) % 8], 1);
    }
  }

  block(ink, axis, block, y) {
    const [F, S, Q] = [this.run.F.reassignments, this.run.F.steps, this.run.F.proposals];
    ink.fillStyle = P.ink;
    ink.fillText(fitted(ink, block.name, GUTTER - 14), 6, y + 12);
    const move = block.moves[block.moves.length - 1];
    if (move !== undefined) {
      ink.fillStyle = P.dim;
      const said = `${F.say("replicas", block.moves[0])} → ${F.say("target", move)}`;
      ink.fillText(fitted(ink, said, GUTTER - 8), 6, y + 26);
    }
    block.steps.forEach((row, index) => {
      const [from, until] = this.ends(row);
      const top = y + index * 18;
      bar(ink, axis, from, until, top, 15, P.learner, 2);
      const text = this.said(row);
      const wide = ink.measureText(text).width;
      const x1 = axis.x(until);
      ink.fillStyle = P.ink;
      if (x1 + wide + 12 < GUTTER + axis.width && x1 >= GUTTER) ink.fillText(text, x1 + 6, top + 12);
      else if (axis.x(from) - wide - 8 > GUTTER) ink.fillText(text, axis.x(from) - wide - 6, top + 12);
      else if (x1 - Math.max(axis.x(from), GUTTER) > wide) ink.fillText(text, Math.max(axis.x(from), GUTTER) + 6, top + 12);
    });
    const under = y + Math.max(28, block.steps.length * 18);
    for (const row of block.proposals) {
      const refused = Q.say("what", row) !== "proposed";
      bar(ink, axis, Q.at_us[row], Q.at_us[row], under, 5, refused ? P.red : P.bar, 2);
    }
  }

  said(row) {
    const S = this.run.F.steps;
    const signed = (name, sign) => S.say(name, row).split(",").filter(Boolean).map((each) => `${sign}b${each}`);
    const changes = [...signed("adding", "+"), ...signed("removing", "−")].join(" ");
    const [from, until] = this.ends(row);
    const took = S.committed_us[row] < 0 ? "not committed" : span(until - from);
    return `${S.number[row]}  ${changes}  → [${S.say("replicas", row)}]  ${took}`;
  }

  received(ink, axis, y) {
    const F = this.run.F.received;
    for (const [broker, rows] of this.brokers) {
      ink.fillStyle = P.ink;
      ink.fillText(`${broker} receives`, 6, y + 14);
      for (const row of rows) {
        const high = Math.max(1, (F.bytes[row] / this.top) * 20);
        bar(ink, axis, F.second[row] * 1e6, (F.second[row] + 1) * 1e6, y + 20 - high, high, P.amber);
      }
      y += 24;
    }
    ink.fillStyle = P.dim;
    ink.fillText(`top: ${(this.top / 1e6).toFixed(2)} MB/s`, 6, y + 2);
  }

  blockAt(y) {
    let top = 4;
    return this.shown.find((block) => (top += this.heightOf(block)) > y);
  }

  click(axis, x, y) {
    const block = this.blockAt(y);
    if (!block || this.blocks.length <= 12 || x >= GUTTER) return false;
    if (!this.opened.delete(block.name)) this.opened.add(block.name);
    return true;
  }

  hit(axis, x, y) {
    const block = this.blockAt(y);
    if (!block || x < GUTTER) return null;
    const us = axis.time(x);
    const [S, Q, W] = [this.run.F.steps, this.run.F.proposals, this.run.F.reassignment_waits];
    const near = block.steps.filter((row) => this.ends(row)[0] <= axis.time(x + 3) && this.ends(row)[1] >= axis.time(x - 3));
    const lines = near.map((row) => `${block.name}, step ${this.said(row)}; ${count(S.moved_records[row])} records copied`);
    for (const row of covering(W, block.waits, axis, x).slice(0, 2)) lines.push(`waits: ${W.say("why", row)} (${between(W, row)})`);
    const refused = block.proposals.filter((row) => Q.say("what", row) !== "proposed" && Math.abs(axis.x(Q.at_us[row]) - x) < 4);
    if (refused.length) lines.push(`${plural(refused.length, "ISR change")} refused near ${clock(us, 3)}: ${Q.say("why", refused[0])}`);
    if (!lines.length) return null;
    const [from, until] = near.length ? this.ends(near[0]) : [us - 5e5, us + 5e5];
    return { lines, from, until, name: block.name };
  }
}

// --- KIP-333 -----------------------------------------------------------------------------------------------------------

class Ranges {
  constructor(run) {
    Object.assign(this, { run, id: "ranges", title: "Ranges (KIP-333)", note: "" });
    this.legend = [["ink", "log end"], ["main", "main consumer"], ["learner", "second consumer; hatched: its range, open", true], ["red", "wash: host down"]];
    const [F, W, E] = [run.F.ranges, run.F.range_work, run.F.log_ends];
    const ranges = groupedRows(F, (row) => F.say("partition", row));
    const work = groupedRows(W, (row) => W.say("partition", row));
    const ends = groupedRows(E, (row) => E.say("partition", row));
    this.charts = [...ranges.keys()].sort(naturally).slice(0, 12).map((name) => {
      const mine = ends.get(name) || [];
      const top = Math.max(1, ...mine.map((row) => E.end[row]), ...ranges.get(name).map((row) => F.end[row]));
      const workers = new Set((work.get(name) || []).map((row) => W.say("group", row)));
      return { name, ranges: ranges.get(name), work: work.get(name) || [], ends: mine, top, workers };
    });
    if (ranges.size > 12) this.note = `the first 12 of ${ranges.size} partitions with ranges`;
  }

  get shown() {
    const wanted = this.run.filter;
    return wanted ? this.charts.filter((chart) => chart.name.toLowerCase().includes(wanted)) : this.charts;
  }

  get tall() {
    return this.charts.length > 2 ? 170 : 300;
  }

  get height() {
    return Math.max(1, this.shown.length) * (this.tall + 8);
  }

  draw(ink, axis) {
    this.shown.forEach((chart, index) => this.chart(ink, axis, chart, index * (this.tall + 8) + 14));
  }

  chart(ink, axis, chart, y) {
    const [F, W, E, H] = [this.run.F.ranges, this.run.F.range_work, this.run.F.log_ends, this.run.F.hosts];
    const tall = this.tall - 22;
    const level = (offset) => y + tall - (offset / chart.top) * tall;
    ink.fillStyle = P.ink;
    ink.fillText(fitted(ink, chart.name, GUTTER - 14), 6, y + 10);
    ink.fillStyle = P.dim;
    ink.fillText(`offset ${count(chart.top)}`, 6, y + 24);
    ink.fillText("0", 6, y + tall);
    const owners = new Set(this.run.ownersOf(chart.name).map(hostOf));
    ink.save();
    ink.beginPath();
    ink.rect(GUTTER, y - 14, axis.width, tall + 30);
    ink.clip();
    const washes = new Labels(ink, axis, y + tall + 12);
    for (let row = 0; row < H.n; row++) {
      if (!owners.has(H.say("host", row))) continue;
      ink.globalAlpha = 0.18;
      bar(ink, axis, H.from_us[row], H.until_us[row], y, tall, P.red);
      ink.globalAlpha = 1;
      washes.put(axis.x(H.from_us[row]), `${H.say("host", row)} ${H.say("state", row)}`, P.red);
    }
    const labels = [];
    for (const row of chart.ranges) {
      const top = level(F.end[row]);
      const high = level(F.start[row]) - top;
      bar(ink, axis, F.from_us[row], F.until_us[row], top, high, hatch(ink, P.learner, "", 5, 1.2), 3);
      labels.push([axis.x(F.from_us[row]), top - 4, `[${F.start[row]}, ${F.end[row]})`]);
    }
    ink.lineWidth = 1.5;
    ink.strokeStyle = P.ink;
    ink.beginPath();
    let last = 0;
    for (const row of chart.ends) {
      ink.lineTo(axis.x(E.at_us[row]), level(last));
      ink.lineTo(axis.x(E.at_us[row]), level(E.end[row]));
      last = E.end[row];
    }
    ink.lineTo(axis.x(axis.end), level(last));
    ink.stroke();
    for (const row of chart.work) {
      const who = W.say("who", row);
      ink.strokeStyle = who === "main" ? P.main : who === "second" ? P.learner : P.red;
      ink.lineWidth = who === "second" ? 3.5 : 2.5;
      ink.beginPath();
      ink.moveTo(axis.x(W.from_us[row]), level(W.first[row]));
      ink.lineTo(Math.max(axis.x(W.until_us[row]), axis.x(W.from_us[row]) + 0.7), level(W.last[row]));
      ink.stroke();
    }
    for (const [x, at, text] of labels) {
      ink.fillStyle = P.ink;
      ink.fillText(text, Math.max(x + 3, GUTTER + 3), Math.max(y - 3, at));
    }
    ink.restore();
  }

  hit(axis, x, y) {
    const chart = this.shown[Math.floor(y / (this.tall + 8))];
    if (!chart || x < GUTTER) return null;
    const [F, W] = [this.run.F.ranges, this.run.F.range_work];
    const lines = covering(F, chart.ranges, axis, x).slice(0, 3).map(
      (row) => `range [${F.start[row]}, ${F.end[row]}) of ${chart.name}, generation ${F.generation[row]}, ${F.say("member", row)}: open ${between(F, row)}`,
    );
    for (const row of covering(W, chart.work, axis, x).slice(0, 3)) {
      lines.push(`${W.say("who", row)} consumer: offsets ${W.first[row]} to ${W.last[row] - 1} (${between(W, row)})`);
    }
    return lines.length ? { lines, name: chart.name } : null;
  }
}

// --- lag ---------------------------------------------------------------------------------------------------------------

class Lag {
  constructor(run) {
    Object.assign(this, { run, id: "lag", title: "Lag", height: 150 });
    this.legend = [["ink", "waiting: not processed"], ["ink", "dashed: not committed (LAG of kafka-consumer-groups.sh)", true]];
    const [F, C] = [run.F.lag, run.F.commits];
    const nameIn = (frame) => (row) => `${frame.say("group", row)}/${frame.say("partition", row)}`;
    const commits = groupedRows(C, nameIn(C));
    this.series = [...groupedRows(F, nameIn(F))].map(([name, rows]) => {
      const steps = new Steps(rows.map((row) => F.at_us[row]), rows.map((row) => F.records[row]));
      return { name, steps, commits: commits.get(name) || [] };
    });
    this.series.sort((a, b) => b.steps.most - a.steps.most || naturally(a.name, b.name));
    this.note = `records of the ${plural(this.series.length, "partition")} where most waited; labelled: the worst three`;
  }

  get shown() {
    const wanted = this.run.filter;
    return wanted ? this.series.filter((each) => each.name.toLowerCase().includes(wanted)) : this.series;
  }

  // The end of the log less the committed offset, exact at each commit: [time, before it, after it].
  uncommitted(each) {
    const C = this.run.F.commits;
    return each.commits.map((row, place) => [C.at_us[row], C.end[row] - (place ? C.offset[each.commits[place - 1]] : 0), C.end[row] - C.offset[row]]);
  }

  draw(ink, axis) {
    const saws = this.shown.slice(0, 3).map((each) => this.uncommitted(each));
    const top = Math.max(1, ...this.shown.map((each) => each.steps.most));
    this.top = top;
    const level = (value) => 140 - (value / top) * 122;
    ink.fillStyle = P.dim;
    ink.fillText(`top: ${plural(top, "record")}`, 6, 22);
    const highest = Math.max(0, ...saws.flat().map(([, before]) => before));
    // Commits may be rare, so the records that are not committed have a scale of their own.
    const most = Math.max(top, highest);
    if (most > top) ink.fillText(`dashed, top: ${count(most)}`, 6, 36);
    const uncommitted = (value) => 140 - (value / most) * 122;
    ink.fillText("0", 6, 142);
    this.shown.forEach((each, rank) => {
      const { times, values } = each.steps;
      ink.strokeStyle = P.brokers[rank % 8];
      ink.globalAlpha = rank < 3 ? 1 : 0.4;
      ink.lineWidth = rank < 3 ? 1.6 : 1;
      ink.beginPath();
      let index = Math.max(0, each.steps.index(axis.from));
      let y = level(each.steps.at(axis.from));
      ink.moveTo(GUTTER, y);
      for (; index < times.length && times[index] <= axis.until; index++) {
        const x = Math.max(axis.x(times[index]), GUTTER);
        ink.lineTo(x, y);
        y = level(values[index]);
        ink.lineTo(x, y);
      }
      ink.lineTo(Math.min(axis.x(axis.end), GUTTER + axis.width), y);
      ink.stroke();
    });
    ink.globalAlpha = 1;
    this.shown.slice(0, 3).forEach((each, rank) => {
      ink.fillStyle = P.brokers[rank % 8];
      ink.fillText(fitted(ink, each.name, GUTTER - 14), 6, 54 + 15 * rank);
    });
    ink.save();
    ink.beginPath();
    ink.rect(GUTTER, 0, axis.width, 150);
    ink.clip();
    ink.setLineDash([3, 3]);
    ink.lineWidth = 1;
    saws.forEach((saw, rank) => {
      ink.strokeStyle = P.brokers[rank % 8];
      ink.beginPath();
      saw.forEach(([us, before, after], place) => {
        if (place) ink.lineTo(axis.x(us), uncommitted(before));
        ink[place ? "lineTo" : "moveTo"](axis.x(us), uncommitted(after));
      });
      ink.stroke();
    });
    ink.restore();
  }

  hit(axis, x, y) {
    if (x < GUTTER || !this.shown.length) return null;
    const us = axis.time(x);
    const level = (each) => 140 - (each.steps.at(us) / this.top) * 122;
    const near = [...this.shown].sort((a, b) => Math.abs(level(a) - y) - Math.abs(level(b) - y))[0];
    const lines = [`${near.name}: ${plural(near.steps.at(us), "record")} waiting at ${clock(us, 3)}; at most ${count(near.steps.most)}`];
    const C = this.run.F.commits;
    const last = near.commits[firstAt(near.commits.map((row) => C.at_us[row]), us) - 1];
    if (last !== undefined) lines.push(`committed offset ${count(C.offset[last])} since ${clock(C.at_us[last], 3)}, when the log ended at ${count(C.end[last])}`);
    return { lines, name: near.name.split("/").pop() };
  }
}

// --- messages ----------------------------------------------------------------------------------------------------------

const ROUTINE = ["Fetch", "Produce", "Heartbeat", "Metadata"];
const MOST_ARROWS = 12000;
const FEW_ARROWS = 300;

class Messages {
  constructor(run) {
    Object.assign(this, { run, id: "messages", title: "Messages", note: "" });
    this.legend = [["bar", "request"], ["main", "reply"], ["red", "error, or not arrived"], ["dim", "many: their number, by sender"]];
    const F = run.F.messages;
    this.hosts = [...new Set([...(F.tables.sender || []), ...(F.tables.to || [])].map(hostOf))].sort(naturally);
    const place = new Map(this.hosts.map((host, index) => [host, index]));
    this.senderOf = F.mapped("sender", (actor) => place.get(hostOf(actor)));
    this.toOf = F.mapped("to", (actor) => place.get(hostOf(actor)));
    this.routine = F.mapped("api", (api) => ROUTINE.includes(api));
    this.arrives = F.mapped("verdict", (verdict) => ["sent", "queued", "released"].includes(verdict));
    this.noError = (F.tables.error || []).indexOf("");
    this.longest = 0;
    for (let row = 0; row < F.n; row++) this.longest = Math.max(this.longest, F.took_us[row]);
    this.lanes = this.hosts.map((_, index) => index);
  }

  controls(redraw) {
    const F = this.run.F.messages;
    const set = (key) => (event) => {
      this.run.state[key] = event.target.value;
      redraw();
    };
    const choice = (key, label, options) =>
      el("label", {}, label + " ", el("select", { id: `messages-${key}`, onchange: set(key) }, options.map(([value, text]) => {
        const option = el("option", { value }, text);
        option.selected = this.run.state[key] === value;
        return option;
      })));
    const named = (name) => [...(F.tables[name] || [])].filter(Boolean).sort(naturally).map((text) => [text, text]);
    return [
      choice("api", "API", [["control", "without Fetch, Produce, Heartbeat, Metadata unless in error"], ["all", "all"], ...named("api")]),
      choice("error", "error", [["any", "any or none"], ["errors", "errors and lost messages"], ...named("error")]),
      choice("host", "host", [["all", "all"], ...this.hosts.map((host) => [host, host])]),
    ];
  }

  // The function that says whether a row is wanted.
  wanted() {
    const F = this.run.F.messages;
    const { api, error, host } = this.run.state;
    const byApi = (F.tables.api || []).map((name, code) => (api === "all" ? true : api === "control" ? !this.routine[code] : name === api));
    const byHost = this.hosts.map((name) => host === "all" || name === host);
    const byName = this.run.filter && this.hosts.map((name) => name.toLowerCase().includes(this.run.filter));
    const filtering = byName && byName.some(Boolean) ? byName : null;
    return (row) => {
      const wrong = F.error[row] !== this.noError || !this.arrives[F.verdict[row]];
      if (!(byApi[F.api[row]] || (api === "control" && wrong))) return false;
      if (error === "errors" ? !wrong : error !== "any" && F.say("error", row) !== error) return false;
      const [from, to] = [this.senderOf[F.sender[row]], this.toOf[F.to[row]]];
      return (byHost[from] || byHost[to]) && (!filtering || filtering[from] || filtering[to]);
    };
  }

  // The rows in view, the lanes that they use, and their number.
  choose(axis) {
    const F = this.run.F.messages;
    const first = firstAt(F.at_us, axis.from - this.longest);
    const last = firstAt(F.at_us, axis.until);
    const wanted = this.wanted();
    const used = new Set();
    this.inView = [];
    for (let row = first; row < last; row++) {
      if (F.at_us[row] + Math.max(F.took_us[row], 0) < axis.from || !wanted(row)) continue;
      this.inView.push(row);
      used.add(this.senderOf[F.sender[row]]);
      used.add(this.toOf[F.to[row]]);
    }
    // Arrows that are steeper than a pixel say nothing more than their number does.
    const took = this.inView.reduce((sum, row) => sum + Math.max(F.took_us[row], 0), 0) / (this.inView.length || 1);
    this.isDense = this.inView.length > MOST_ARROWS || (this.inView.length > FEW_ARROWS && took < axis.perPixel);
    this.lanes = [...used].sort((a, b) => a - b);
    this.laneOf = new Map(this.lanes.map((host, index) => [host, index]));
    const many = this.isDense ? "; zoom in to see arrows" : "";
    const thinned = this.run.F.traffic.n ? "; only control messages are in this file" : "";
    this.note = `${count(this.inView.length)} shown of ${count(last - first)} in view; hosts: ${this.lanes.length} of ${this.hosts.length}${many}${thinned}`;
  }

  get step() {
    return this.lanes.length <= 12 ? 30 : this.lanes.length <= 40 ? 18 : 10;
  }

  get height() {
    return Math.max(1, this.lanes.length) * this.step + 16;
  }

  draw(ink, axis) {
    const step = this.step;
    const y = (host) => 12 + this.laneOf.get(host) * step + step / 2;
    for (const host of this.lanes) {
      ink.fillStyle = P.grid;
      ink.fillRect(GUTTER, y(host), axis.width, 1);
      ink.fillStyle = P.ink;
      ink.fillText(this.hosts[host], 6, y(host) + 4);
    }
    if (this.isDense) this.density(ink, axis, y);
    else this.arrows(ink, axis, y);
  }

  density(ink, axis, y) {
    const F = this.run.F.messages;
    const wide = Math.ceil(axis.width / 2) + 1;
    const counts = new Float64Array(wide * this.lanes.length);
    const wrongs = new Float64Array(wide * this.lanes.length);
    let most = 1;
    for (const row of this.inView) {
      const x = axis.x(F.at_us[row]) - GUTTER;
      if (x < 0) continue;
      const at = this.laneOf.get(this.senderOf[F.sender[row]]) * wide + (x >> 1);
      if (++counts[at] > most) most = counts[at];
      if (F.error[row] !== this.noError || !this.arrives[F.verdict[row]]) wrongs[at]++;
    }
    const tall = this.step - 4;
    const high = (n) => Math.max(1.5, (Math.log1p(n) / Math.log1p(most)) * tall);
    for (const [numbers, colour] of [[counts, P.dim], [wrongs, P.red]]) {
      ink.fillStyle = colour;
      for (const host of this.lanes) {
        const base = this.laneOf.get(host) * wide;
        for (let x = 0; x < wide; x++) {
          if (numbers[base + x]) ink.fillRect(GUTTER + 2 * x, y(host) + tall / 2 - high(numbers[base + x]), 2, high(numbers[base + x]));
        }
      }
    }
  }

  arrows(ink, axis, y) {
    const F = this.run.F.messages;
    const few = this.inView.length <= 160;
    const heads = this.inView.length <= 1500;
    const paths = { request: new Path2D(), reply: new Path2D(), wrong: new Path2D() };
    const texts = [];
    for (const row of this.inView) {
      const lost = !this.arrives[F.verdict[row]];
      const wrong = lost || F.error[row] !== this.noError;
      const path = paths[wrong ? "wrong" : F.reply[row] ? "reply" : "request"];
      const x0 = axis.x(F.at_us[row]);
      const y0 = y(this.senderOf[F.sender[row]]);
      const y2 = y(this.toOf[F.to[row]]);
      const x1 = lost ? x0 + 6 : axis.x(F.at_us[row] + F.took_us[row]);
      const y1 = lost ? y0 + Math.sign(y2 - y0) * this.step * 0.4 : y2 === y0 ? y0 - 3 : y2;
      path.moveTo(x0, y0);
      path.lineTo(x1, y1);
      if (lost) {
        path.moveTo(x1 - 3, y1 - 3);
        path.lineTo(x1 + 3, y1 + 3);
        path.moveTo(x1 + 3, y1 - 3);
        path.lineTo(x1 - 3, y1 + 3);
      } else if (heads) {
        const angle = Math.atan2(y1 - y0, x1 - x0);
        for (const turn of [-0.4, 0.4]) {
          path.moveTo(x1, y1);
          path.lineTo(x1 - 6 * Math.cos(angle + turn), y1 - 6 * Math.sin(angle + turn));
        }
      }
      if (few || wrong) texts.push([x0, y0, y1, row, wrong]);
    }
    ink.lineWidth = heads ? 1.2 : 0.7;
    for (const [name, colour] of [["request", P.bar], ["reply", P.main], ["wrong", P.red]]) {
      ink.strokeStyle = colour;
      ink.stroke(paths[name]);
    }
    this.texts(ink, axis, texts);
  }

  texts(ink, axis, texts) {
    const free = new Map();
    const F = this.run.F.messages;
    for (const [x0, y0, y1, row, wrong] of texts.sort((a, b) => a[0] - b[0])) {
      const error = F.say("error", row);
      const lost = this.arrives[F.verdict[row]] ? "" : ` ${F.say("verdict", row)}`;
      const text = error || F.say("api", row) + (F.reply[row] ? " reply" : "") + lost;
      const key = `${y0} ${y1 > y0}`;
      if (x0 < (free.get(key) || GUTTER) || x0 > GUTTER + axis.width - 40) continue;
      ink.fillStyle = wrong ? P.red : P.ink;
      ink.fillText(text, x0 + 3, y0 + (y1 > y0 ? 12 : -4));
      free.set(key, x0 + ink.measureText(text).width + 8);
    }
  }

  hit(axis, x, y) {
    if (x < GUTTER || !this.laneOf) return null;
    const F = this.run.F.messages;
    if (this.isDense) {
      const host = this.lanes[Math.floor((y - 12) / this.step)];
      if (host === undefined) return null;
      const near = this.inView.filter((row) => this.senderOf[F.sender[row]] === host && Math.abs(axis.x(F.at_us[row]) - x) < 2);
      return near.length ? { lines: [`${plural(near.length, "message")} sent by ${this.hosts[host]} near ${clock(axis.time(x), 3)}`], name: this.hosts[host] } : null;
    }
    const level = (host) => 12 + this.laneOf.get(host) * this.step + this.step / 2;
    let best = null;
    let least = 6;
    for (const row of this.inView) {
      const [x0, x1] = [axis.x(F.at_us[row]), axis.x(F.at_us[row] + Math.max(F.took_us[row], 0))];
      if (x < x0 - 6 || x > x1 + 12) continue;
      const [y0, y1] = [level(this.senderOf[F.sender[row]]), level(this.toOf[F.to[row]])];
      const far = fromLine(x, y, x0, y0, x1, y1);
      if (far < least) [best, least] = [row, far];
    }
    if (best === null) return null;
    const took = F.took_us[best] < 0 ? F.say("verdict", best) : `arrived after ${span(F.took_us[best])}`;
    const error = F.say("error", best);
    return {
      lines: [`${F.say("api", best)}${F.reply[best] ? " reply" : ""} from ${F.say("sender", best)} to ${F.say("to", best)} at ${clock(F.at_us[best], 6)}: ${took}, ${count(F.size[best])} bytes`, error && `error ${error}`],
      from: F.at_us[best], until: F.at_us[best] + Math.max(F.took_us[best], 1000), name: hostOf(F.say("sender", best)),
    };
  }
}

function fromLine(x, y, x0, y0, x1, y1) {
  const length = (x1 - x0) ** 2 + (y1 - y0) ** 2;
  const share = length ? Math.max(0, Math.min(1, ((x - x0) * (x1 - x0) + (y - y0) * (y1 - y0)) / length)) : 0;
  return Math.hypot(x - x0 - share * (x1 - x0), y - y0 - share * (y1 - y0));
}
