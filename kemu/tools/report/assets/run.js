// The page of a run: its first screen, its pictures, and one window of time for all of them.

const WORDS = [
  ["without service", "A partition of a group whose records nobody processes: from the last record before an interruption to the first one after it. It includes callbacks of the application."],
  ["of service lost", "The share of a group's partitions without service, added up over time: 10 s at 50 % are 5 s of the whole service."],
  ["leaderless", "A partition that no running broker leads, from its first leader on. Nobody can read or write it."],
  ["under-replicated", "The ISR of a partition is smaller than its replica set. Replicas that a reassignment adds do not count yet."],
  ["under min ISR", "The ISR is smaller than min.insync.replicas: producers with acks=all are refused."],
  ["waiting records", "Records that the log has and the group has not processed, from the group's first position on."],
  ["joining, syncing", "A member has sent JoinGroup and waits for the others; then it waits for its assignment."],
  ["reconciling", "A member of the consumer protocol has a new assignment: it commits, gives up and takes partitions, and acknowledges. It keeps its other partitions."],
  ["epoch", "The number of an assignment in the consumer protocol. Each change of members or topics adds one; each member reaches the epoch at its own time."],
  ["rebalance", "From the moment a group prepares for one until the group is Stable or Empty again. It may take several join phases, or several targets of the consumer protocol."],
  ["stopped", "Time of a rebalance in which the whole group had no service."],
  ["two owners", "Two members believed at once that they owned the partition. Records may be processed twice."],
  ["learner", "A copy of a Streams task that restores its state before the task moves to it."],
  ["delay", "Time from the append of a record until the application reports it as processed, each record once."],
];
const KEYS = [
  ["drag", "zoom to a span"], ["click", "hold the details of a mark"], ["double click", "zoom in on the mark"],
  ["Ctrl + wheel", "zoom"], ["Shift + wheel", "move"], ["+ −", "zoom"], ["← →", "move"], ["0", "whole run"],
  ["n p", "next, previous violation or rebalance"], ["i", "skip idle time"], ["/", "filter"], ["Esc", "let go of the details"],
];
const MOST_LINES = 250;
const MOST_CARDS = 60;

class Run {
  constructor({ head, about, frames }) {
    Object.assign(this, { head, about, F: frames, filter: "" });
    this.state = { api: "control", error: "any", host: "all" };
    this.downWaits = groupedRows(this.F.down_waits, (row) => this.F.down_waits.down[row]);
    this.axis = new Axis(about.virtual_us, this.idleSpans());
    this.sections = this.pictures();
    this.stops = this.places();
  }

  // Spans without any change that a picture shows. Messages and records do not count: they never rest.
  idleSpans() {
    const F = this.F;
    const busy = [];
    const put = (from, until) => busy.push([from, until]);
    for (const frame of [F.down, F.leaderless, F.under_replicated, F.under_min_isr, F.task_stops]) {
      for (let row = 0; row < frame.n; row++) put(frame.from_us[row], frame.until_us[row]);
    }
    for (const frame of [F.faults, F.hosts, F.members, F.groups, F.ownership, F.leaders, F.controllers, F.tasks, F.ranges, F.reassignments]) {
      for (let row = 0; row < frame.n; row++) {
        put(frame.from_us[row], frame.from_us[row]);
        put(frame.until_us[row], frame.until_us[row]);
      }
    }
    for (let row = 0; row < F.steps.n; row++) put(F.steps.started_us[row], Math.max(F.steps.started_us[row], F.steps.committed_us[row]));
    for (let row = 0; row < F.rebalances.n; row++) put(F.rebalances.started_us[row], Math.max(F.rebalances.started_us[row], F.rebalances.ended_us[row]));
    for (const each of this.about.violations) put(each.at_us, each.at_us);
    busy.sort((a, b) => a[0] - b[0]);
    const end = this.about.virtual_us;
    const least = end * 0.04;
    const edge = end * 0.004;
    const found = [];
    let last = 0;
    for (const [from, until] of [...busy, [end, end]]) {
      if (from - last > least) found.push([last + edge, from - edge]);
      last = Math.max(last, until);
    }
    return found;
  }

  // The pictures in the order of the run's own system.
  pictures() {
    const F = this.F;
    const own = [];
    if (F.tasks.n) own.push(new Tasks(this));
    if (F.steps.n || F.reassignments.n) own.push(new Reassignments(this));
    if (F.ranges.n) own.push(new Ranges(this));
    const leaders = F.leaders.n ? [new Leaders(this)] : [];
    const groups = [];
    if (F.members.n) groups.push(new Members(this));
    if (F.ownership.n) groups.push(new Partitions(this));
    const outage = F.leaderless.n + F.under_min_isr.n > 0 && F.hosts.tables.host && F.hosts.tables.host.some((host) => host[0] === "b");
    const rest = outage && !own.length ? [...leaders, ...groups] : [...groups, ...leaders];
    if (F.lag.n) rest.push(new Lag(this));
    if (F.messages && F.messages.n) rest.push(new Messages(this));
    return [new Events(this), ...own, ...rest];
  }

  // Times to jump to, for the keys n and p.
  places() {
    const violations = this.about.violations.map((each) => [each.at_us, each.at_us]);
    if (violations.length) return violations;
    const { started_us: from, ended_us: until, n } = this.F.rebalances;
    return Array.from({ length: n }, (_, row) => [from[row], until[row] < 0 ? this.axis.end : until[row]]);
  }

  // What a partition without service waited for, the longest first.
  waitsOf(down) {
    const F = this.F.down_waits;
    return (this.downWaits.get(down) || []).map((row) => {
      const actor = F.say("actor", row);
      return `  ${span(F.spent_us[row])} for ${F.say("cause", row)}${actor ? `: ${actor}` : ""}`;
    });
  }

  ownersOf(partition) {
    const F = this.F.ownership;
    const owners = new Set();
    for (let row = 0; row < F.n; row++) if (F.say("partition", row) === partition) owners.add(F.say("owner", row));
    return [...owners];
  }

  // What a group waited for between two times: [cause, actor, us], the longest first.
  waits(group, from, until) {
    const F = this.F.group_waits;
    const spent = new Map();
    for (let row = 0; row < F.n; row++) {
      if (F.say("group", row) !== group || ["stable", "well"].includes(F.say("cause", row))) continue;
      const us = Math.min(F.until_us[row], until) - Math.max(F.from_us[row], from);
      const key = `${F.say("cause", row)}\n${F.say("actor", row)}`;
      if (us > 0) spent.set(key, (spent.get(key) || 0) + us);
    }
    return [...spent].sort((a, b) => b[1] - a[1]).map(([key, us]) => [...key.split("\n"), us]);
  }

  // The word for the number of an assignment: a group of the consumer protocol has epochs.
  epochWord(group, from, until) {
    const F = this.F.groups;
    const words = { Assigning: "epoch", Reconciling: "epoch", PreparingRebalance: "generation", CompletingRebalance: "generation" };
    let said = "generation";
    for (let row = 0; row < F.n && F.from_us[row] <= until; row++) {
      if (F.say("group", row) === group) said = words[F.say("state", row)] || said;
    }
    return said;
  }

  rebalance(row) {
    const F = this.F.rebalances;
    const open = F.ended_us[row] < 0;
    const until = open ? this.axis.end : F.ended_us[row];
    const waits = this.waits(F.say("group", row), F.started_us[row], until);
    const word = this.epochWord(F.say("group", row), F.started_us[row], until);
    return {
      from: F.started_us[row], until, group: F.say("group", row),
      head: `${word} ${F.generation[row]}, ${clock(F.started_us[row], 1)}, ${open ? "not ended" : span(until - F.started_us[row])}`,
      why: this.about.reasons[row],
      counts: `${plural(F.members[row], "member")}, ${plural(F.rounds[row], word === "epoch" ? "target" : "join phase")}, ${plural(F.moved[row], "partition")} moved, whole group stopped ${span(F.stop_the_world_us[row])}`,
      waits: waits.slice(0, 4).map(([cause, actor, us]) => `${span(us)} for ${cause}${actor ? `: ${actor}` : ""}`),
    };
  }

  rebalanceAt(axis, x) {
    const F = this.F.rebalances;
    for (let row = F.n - 1; row >= 0; row--) {
      const told = this.rebalance(row);
      if (axis.x(told.from) - 3 <= x && axis.x(told.until) + 3 >= x) {
        return { lines: [`rebalance of ${told.group}: ${told.head}`, `because: ${told.why}`, told.counts, ...told.waits], from: told.from, until: told.until };
      }
    }
    return null;
  }
}

// --- the first screen ----------------------------------------------------------------------------------------------------

function verdict({ about, head }) {
  const said = head.reload_s ? "running" : about.did_not_work ? "did not work" : about.verdict;
  const mood = said === "holds" ? "good" : said === "running" && about.verdict === "holds" ? "open" : "bad";
  return el("span", { id: "verdict", class: `pill ${mood}` }, said);
}

function firstScreen(run, page) {
  const { about, head } = run;
  const facts = [about.profile, `seed ${about.seed}`, `${span(about.virtual_us)} virtual`, `${count(about.steps)} steps`, `${count(about.messages)} messages`];
  return el(
    "header",
    {},
    el("h1", {}, verdict(run), " ", about.scenario, " ", el("small", {}, facts.join(", "))),
    about.summary && el("p", { class: "dim" }, about.summary),
    about.labels && el("details", {}, el("summary", {}, "Labels of the members"), el("table", {}, about.labels.map(([host, text]) => el("tr", {}, el("th", {}, host), el("td", {}, text))))),
    head.reload_s ? el("p", { class: "amber" }, `The run continues. This page reloads itself every ${head.reload_s} s, but not while it holds the details of a mark.`)
      : about.torn && el("p", { class: "amber" }, `The trace ends early: ${about.torn}`),
    !head.reload_s && about.did_not_work && el("p", { class: "red" }, about.did_not_work),
    about.broke && el("pre", { class: "red" }, about.broke),
    el("div", { id: "tiles" }, about.tiles.map(([big, small, at]) =>
      el(at < 0 ? "div" : "button", { class: "tile", type: at < 0 ? null : "button", onclick: at < 0 ? () => {} : () => page.around(at) }, el("b", {}, big), el("span", {}, small)))),
    el("div", { id: "still" }, about.still.slice(0, 3).map(([text, since]) =>
      el("button", { class: "amber line", type: "button", onclick: () => page.visit(since - 2e6, about.virtual_us) }, `${head.reload_s ? "Now" : "Still at the end"}: ${text}`))),
    about.still.length > 3 && el("p", { class: "amber" }, `and ${about.still.length - 3} more; the events have all`),
    commandLine(head.command),
  );
}

function violations(run, page) {
  const all = run.about.violations;
  if (!all.length) return null;
  return el("section", { id: "violations" }, el("h2", {}, "Violations"), all.map((each, index) =>
    el("article", { class: each.expected ? "card" : "card wrong" },
      el("button", { type: "button", class: "jump", id: `violation-${index}`, onclick: () => page.toViolation(each) }, clock(each.at_us, 3)),
      ` step ${count(each.step)}: `, el("b", {}, `${each.checker} (${each.expected ? "expected, " : ""}${each.kind})`), `: ${each.text}`,
      each.kafkas_own && el("p", { class: "dim" }, `as in Kafka: ${each.kafkas_own}`),
      each.around.length ? el("details", { open: index === 0, ontoggle: (event) => toHere(event.target) }, el("summary", {}, "the steps around it"), el("pre", { class: "steps" }, each.around.map((line) =>
        el("span", { class: line.startsWith(">") ? "here" : "" }, line.slice(1) + "\n")))) : null)));
}

// Scroll a transcript to the step that it is about.
function toHere(details) {
  const [box, here] = [details.querySelector("pre"), details.querySelector(".here")];
  if (here) box.scrollTop = here.offsetTop - box.offsetTop - box.clientHeight / 3;
}

function rebalanceCards(run, page) {
  const n = run.F.rebalances.n;
  if (!n) return null;
  const rows = [...Array(n).keys()];
  const box = el("div", { class: "cards" });
  const length = (row) => (run.F.rebalances.ended_us[row] < 0 ? Infinity : run.F.rebalances.ended_us[row] - run.F.rebalances.started_us[row]);
  const fill = (shown) => box.replaceChildren(...shown.map((row) => {
    const told = run.rebalance(row);
    return el("button", { class: "card", type: "button", onclick: () => page.visit(told.from - (told.until - told.from) * 0.2 - 1e5, told.until + (told.until - told.from) * 0.4 + 1e5) },
      el("b", {}, told.head), el("span", {}, `${told.group}: ${told.why}`), el("span", { class: "dim" }, told.counts), told.waits.map((line) => el("span", {}, line)));
  }));
  const longest = rows.length > MOST_CARDS ? [...rows].sort((a, b) => length(b) - length(a)).slice(0, MOST_CARDS).sort((a, b) => a - b) : rows;
  fill(longest);
  const more = rows.length > MOST_CARDS && el("button", { type: "button", onclick: (event) => (fill(rows), event.target.remove()) }, `show all ${rows.length}`);
  const note = rows.length > MOST_CARDS ? `the ${MOST_CARDS} longest of ${rows.length}` : `${rows.length}: who asked, and where the time went`;
  return el("section", { id: "rebalances" }, el("h2", {}, "Rebalances ", el("small", {}, note)), box, more);
}

function story(run, page) {
  const F = run.F.story;
  const list = el("ol", { class: "story" });
  const fill = (most) => {
    const rows = [];
    for (let row = 0; row < F.n; row++) {
      if (!run.filter || F.say("text", row).toLowerCase().includes(run.filter)) rows.push(row);
    }
    list.replaceChildren(...rows.slice(0, most).map((row) =>
      el("li", { class: F.say("kind", row) }, el("button", { type: "button", class: "jump", onclick: () => page.around(F.at_us[row]) }, clock(F.at_us[row], 3)), " " + F.say("text", row))));
    if (rows.length > most) list.append(el("li", {}, el("button", { type: "button", onclick: () => fill(Infinity) }, `show ${rows.length - most} more`)));
  };
  page.filled.push(() => fill(MOST_LINES));
  fill(MOST_LINES);
  return el("section", { id: "story" }, el("h2", {}, "What happened"), list);
}

function tables(run) {
  const { about } = run;
  const rows = (pairs) => el("table", {}, pairs.map(([name, value]) => el("tr", {}, el("th", {}, name), el("td", {}, value))));
  const part = (id, title, content) => content && el("section", { id }, el("h2", {}, title), content);
  const list = (texts) => texts.length && el("ul", {}, texts.map((text) => el("li", {}, text)));
  return [
    part("faults", "Faults", about.faults.length && list(about.faults.map(([index, text, fired]) => `${index}  ${text}: ${fired ? `fired ${fired === 1 ? "once" : `${fired} times`}` : run.head.reload_s ? "not fired yet" : "NEVER FIRED"}`))),
    part("losses", "Expected losses", list(about.losses.map(([at, text]) => `${clock(at, 3)}  ${text}`))),
    part("unmended", "Not recovered, for Kafka's own reasons", list(about.unmended)),
    part("unchecked", "Not checked of real clients", list(about.unchecked ?? [])),
    el("details", { id: "figures" }, el("summary", {}, "All figures that are not zero"), rows(about.figures.map(([meaning, value]) => [meaning, value]))),
    el("details", { id: "legend" }, el("summary", {}, "Words and keys"), rows(WORDS), rows(KEYS),
      el("p", { class: "dim" }, `Digest of the run: ${about.trace_digest || "none"}. Digest of this page's data: ${run.head.digest}.`)),
  ];
}

// --- the page --------------------------------------------------------------------------------------------------------------

class Page {
  constructor(run) {
    Object.assign(this, { run, axis: run.axis, filled: [], drawMs: 0, pinned: null, past: [] });
    this.detail = el("div", { id: "detail", role: "status", "aria-live": "polite", hidden: true });
    this.pictures = run.sections.map((section) => this.picture(section));
    const root = document.getElementById("page");
    document.title = `${verdict(run).textContent}: ${run.about.scenario}, seed ${run.about.seed}`;
    root.append(
      firstScreen(run, this),
      ...[violations(run, this)].filter(Boolean),
      this.toolbar(),
      ...this.pictures.map((picture) => picture.box),
      ...[rebalanceCards(run, this), story(run, this), ...tables(run)].filter(Boolean),
    );
    document.body.append(this.detail);
    this.restore();
    this.listen();
    this.layout();
    if (history.state && history.state.scrolled) scrollTo(0, history.state.scrolled);
    if (run.head.reload_s) this.reloads(run.head.reload_s * 1000);
    root.setAttribute("aria-busy", "false");
  }

  // The run continues: load the newer file at the same place, except under a reader's hands.
  reloads(ms) {
    const reload = () => {
      if (this.pinned || this.dragged || document.activeElement === this.search) return;
      history.replaceState({ scrolled: scrollY }, "");
      location.reload();
    };
    setInterval(reload, ms);
  }

  toolbar() {
    this.span = el("output", { id: "window" });
    this.search = el("input", { id: "filter", type: "search", placeholder: "filter: c3, orders-1, …", "aria-label": "show only rows with this name", oninput: () => this.setFilter(this.search.value) });
    this.skip = el("input", { id: "idle", type: "checkbox", onchange: () => this.setIdle(this.skip.checked) });
    const button = (id, text, label, act) => el("button", { id, type: "button", "aria-label": label, onclick: act }, text);
    return el("nav", { class: "tools", id: "bar" },
      button("whole", "whole run", "show the whole run", () => this.whole()),
      button("back", "back", "the window before", () => this.back()),
      button("in", "+", "zoom in", () => this.zoom(0.5)), button("out", "−", "zoom out", () => this.zoom(2)),
      button("left", "←", "earlier", () => this.move(-0.3)), button("right", "→", "later", () => this.move(0.3)),
      this.span, this.search, el("label", {}, this.skip, " skip idle time"), el("small", { class: "dim" }, "drag to zoom, click for details"));
  }

  picture(section) {
    const canvas = el("canvas", { role: "img", tabindex: 0, "aria-label": section.title || "events of the run" });
    const note = el("small", { class: "note" });
    const legend = section.legend.map(([colour, text, hatched]) => {
      const mark = el("i", { class: hatched ? "hatched" : "" });
      mark.style.setProperty("--mark", `var(--${colour})`);
      return el("span", { class: "key" }, mark, text);
    });
    const controls = section.controls ? el("div", { class: "tools" }, section.controls(() => this.changed())) : "";
    const box = el("section", { id: section.id, class: "picture" }, section.title ? el("h2", {}, section.title, " ", note, " ", legend) : "", controls, canvas);
    const picture = { section, canvas, note, box, seen: true, height: 0 };
    this.point(picture);
    return picture;
  }

  // --- drawing -------------------------------------------------------------------------------------------------------------

  layout() {
    readPalette();
    this.draw();
  }

  draw() {
    const began = performance.now();
    this.axis.ready(this.pictures[0].box.clientWidth - 2);
    this.span.textContent = `${clock(this.axis.from, this.fine())} – ${clock(this.axis.until, this.fine())}`;
    for (const picture of this.pictures) {
      if (picture.section.choose && this.isNear(picture)) picture.section.choose(this.axis);
      picture.note.textContent = picture.section.note;
      this.size(picture);
    }
    for (const picture of this.pictures) {
      picture.stale = true;
      if (this.isNear(picture)) this.paint(picture);
    }
    this.drawMs = performance.now() - began;
  }

  fine() {
    const wide = this.axis.until - this.axis.from;
    return wide > 2e7 ? 1 : wide > 2e5 ? 3 : 6;
  }

  isNear(picture) {
    const box = picture.canvas.getBoundingClientRect();
    return this.printing || (box.bottom > -300 && box.top < innerHeight + 300);
  }

  size(picture) {
    const height = Math.ceil(picture.section.height);
    if (picture.height !== height) {
      picture.height = height;
      picture.canvas.style.height = `${height}px`;
    }
  }

  paint(picture) {
    const { canvas, section } = picture;
    const wide = GUTTER + this.axis.width;
    let scale = Math.min(devicePixelRatio || 1, 2);
    if (wide * picture.height * scale * scale > 12e6) scale = Math.sqrt(12e6 / (wide * picture.height));
    if (canvas.width !== Math.round(wide * scale) || canvas.height !== Math.round(picture.height * scale)) {
      canvas.width = Math.round(wide * scale);
      canvas.height = Math.round(picture.height * scale);
    }
    const ink = canvas.getContext("2d");
    ink.setTransform(scale, 0, 0, scale, 0, 0);
    ink.fillStyle = P.card;
    ink.fillRect(0, 0, wide, picture.height);
    ink.font = "11px system-ui, sans-serif";
    const ticks = this.axis.ticks();
    ink.fillStyle = P.grid;
    ink.fillRect(GUTTER - 1, 0, 1, picture.height);
    for (const [us] of ticks) ink.fillRect(this.axis.x(us), 0, 1, picture.height);
    section.draw(ink, this.axis);
    ink.globalAlpha = 1;
    this.lines(ink, picture, ticks);
    picture.stale = false;
  }

  // Times, skipped spans, and the places of violations, above everything else.
  lines(ink, picture, ticks) {
    if (picture.section.id === "events") {
      const labels = new Labels(ink, this.axis, 13);
      for (const [us, text] of ticks) labels.put(this.axis.x(us) + 3, text, P.dim);
    }
    if (this.axis.skips) {
      for (const [from, until] of this.axis.idle) {
        const [x0, x1] = [this.axis.x(from), this.axis.x(until)];
        if (x1 < GUTTER || x0 > GUTTER + this.axis.width) continue;
        ink.globalAlpha = 0.55;
        ink.fillStyle = hatch(ink, P.dim, "", 5, 1);
        ink.fillRect(Math.max(x0, GUTTER), 0, Math.max(3, x1 - Math.max(x0, GUTTER)), picture.height);
        ink.globalAlpha = 1;
      }
    }
    ink.fillStyle = P.red;
    for (const each of this.run.about.violations) {
      const x = this.axis.x(each.at_us);
      if (x >= GUTTER && x <= GUTTER + this.axis.width) ink.fillRect(x - 0.5, 0, 1.5, picture.height);
    }
    if (this.dragged && Math.abs(this.dragged[1] - this.dragged[0]) > 3) {
      ink.fillStyle = P.bar;
      ink.globalAlpha = 0.18;
      ink.fillRect(Math.min(...this.dragged), 0, Math.abs(this.dragged[1] - this.dragged[0]), picture.height);
      ink.globalAlpha = 1;
    }
  }

  changed() {
    this.keep();
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.draw());
  }

  // --- the window ------------------------------------------------------------------------------------------------------------

  show(from, until) {
    this.past.push([this.axis.from, this.axis.until]);
    this.axis.show(from, until);
    this.changed();
  }

  back() {
    const before = this.past.pop();
    if (before) this.axis.show(...before);
    this.changed();
  }

  whole() {
    this.show(0, this.axis.end);
  }

  around(us, wide = Math.max(this.axis.end / 40, 1e6)) {
    this.visit(us - wide / 2, us + wide / 2);
  }

  // Show a span, and bring the pictures into view.
  visit(from, until) {
    this.show(from, until);
    this.pictures[0].box.scrollIntoView({ block: "start" });
  }

  zoom(factor, us = (this.axis.from + this.axis.until) / 2) {
    this.axis.show(us - (us - this.axis.from) * factor, us + (this.axis.until - us) * factor);
    this.changed();
  }

  move(share) {
    const by = (this.axis.until - this.axis.from) * share;
    this.axis.show(this.axis.from + by, this.axis.until + by);
    this.changed();
  }

  toViolation(each) {
    this.around(each.at_us, Math.max(this.axis.end / 60, 5e5));
    this.hold({ lines: [`${each.checker} (${each.kind}) at ${clock(each.at_us, 6)}, step ${count(each.step)}`, each.text] });
  }

  next(way) {
    const middle = (this.axis.from + this.axis.until) / 2;
    const stops = way > 0 ? this.run.stops : [...this.run.stops].reverse();
    const isWhole = this.axis.until - this.axis.from >= this.axis.end * 0.98;
    const stop = stops.find(([from, until]) => isWhole || ((from + until) / 2 - middle) * way > 1000);
    if (!stop) return;
    const wide = Math.max((stop[1] - stop[0]) * 2, 1e6);
    this.show((stop[0] + stop[1]) / 2 - wide / 2, (stop[0] + stop[1]) / 2 + wide / 2);
  }

  setFilter(text) {
    this.run.filter = text.trim().toLowerCase();
    for (const picture of this.pictures) {
      const { rows, blocks, charts, series } = picture.section;
      const all = rows || blocks || charts || series;
      picture.box.hidden = Boolean(all && picture.section.shown.length === 0);
    }
    for (const fill of this.filled) fill();
    this.changed();
  }

  setIdle(skips) {
    this.axis.skips = this.skip.checked = skips;
    this.axis.bend();
    this.changed();
  }

  // --- the address -------------------------------------------------------------------------------------------------------------

  keep() {
    const parts = new URLSearchParams();
    if (this.axis.from > 0 || this.axis.until < this.axis.end) {
      parts.set("t", `${(this.axis.from / 1e6).toFixed(6)}-${(this.axis.until / 1e6).toFixed(6)}`);
    }
    if (this.axis.skips) parts.set("idle", "1");
    if (this.run.filter) parts.set("filter", this.run.filter);
    for (const [key, plain] of [["api", "control"], ["error", "any"], ["host", "all"]]) {
      if (this.run.state[key] !== plain) parts.set(key, this.run.state[key]);
    }
    const text = parts.toString();
    if (text !== location.hash.slice(1)) history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
  }

  restore() {
    const parts = new URLSearchParams(location.hash.slice(1));
    const [from, until] = (parts.get("t") || "").split("-").map((each) => parseFloat(each) * 1e6);
    if (until > from) this.axis.show(from, until);
    else this.axis.show(0, this.axis.end);
    this.axis.skips = this.skip.checked = parts.get("idle") === "1";
    this.axis.bend();
    for (const key of ["api", "error", "host"]) {
      const select = document.getElementById(`messages-${key}`);
      const value = parts.get(key);
      if (select && value && [...select.options].some((each) => each.value === value)) this.run.state[key] = select.value = value;
    }
    this.search.value = parts.get("filter") || "";
    if (this.search.value) this.setFilter(this.search.value);
  }

  // --- hands -----------------------------------------------------------------------------------------------------------------

  point(picture) {
    const { canvas, section } = picture;
    const place = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.addEventListener("pointerdown", (event) => {
      const [x, y] = place(event);
      if (event.button) return;
      canvas.setPointerCapture(event.pointerId);
      this.dragged = [Math.max(x, GUTTER), Math.max(x, GUTTER)];
      this.start = [x, y];
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = place(event);
      if (this.dragged && this.start) {
        this.dragged[1] = Math.min(Math.max(x, GUTTER), GUTTER + this.axis.width);
        cancelAnimationFrame(this.frame);
        this.frame = requestAnimationFrame(() => this.repaint());
      } else if (!this.pinned) {
        this.tell(section.hit(this.axis, x, y));
      }
    });
    canvas.addEventListener("pointerup", (event) => {
      const [x, y] = place(event);
      const dragged = this.dragged;
      this.dragged = this.start = null;
      if (dragged && Math.abs(dragged[1] - dragged[0]) > 5) {
        const times = dragged.map((each) => this.axis.time(each)).sort((a, b) => a - b);
        this.show(...times);
      } else if (section.click && section.click(this.axis, x, y)) {
        this.changed();
      } else {
        this.hold(section.hit(this.axis, x, y));
      }
    });
    canvas.addEventListener("pointercancel", () => (this.dragged = this.start = null));
    canvas.addEventListener("pointerleave", () => this.pinned || this.tell(null));
    canvas.addEventListener("dblclick", (event) => {
      const [x, y] = place(event);
      const found = section.hit(this.axis, x, y);
      if (found && found.from !== undefined) {
        const wide = Math.max(found.until - found.from, 1000);
        this.show(found.from - wide * 0.4, found.until + wide * 0.4);
      } else if (x >= GUTTER) this.zoom(0.4, this.axis.time(x));
    });
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return;
      event.preventDefault();
      if (event.shiftKey) this.move(Math.sign(event.deltaY || event.deltaX) * 0.15);
      else this.zoom(event.deltaY > 0 ? 1.35 : 0.74, this.axis.time(Math.max(place(event)[0], GUTTER)));
    }, { passive: false });
  }

  repaint() {
    for (const picture of this.pictures) if (this.isNear(picture)) this.paint(picture);
  }

  tell(found) {
    this.detail.hidden = !found;
    if (!found) return;
    const lines = found.lines.filter(Boolean).map((line) => el("div", {}, line));
    const buttons = [];
    if (this.pinned) {
      if (found.from !== undefined) {
        const wide = Math.max(found.until - found.from, 1000);
        buttons.push(el("button", { type: "button", onclick: () => this.show(found.from - wide * 0.4, found.until + wide * 0.4) }, "zoom in on it"));
      }
      if (found.name) buttons.push(el("button", { type: "button", onclick: () => ((this.search.value = found.name), this.setFilter(found.name)) }, `only ${found.name}`));
      buttons.push(el("button", { type: "button", onclick: () => this.hold(null) }, "close"));
    }
    this.detail.replaceChildren(el("div", {}, lines), el("div", { class: "tools" }, buttons));
  }

  hold(found) {
    this.pinned = found;
    this.tell(found);
  }

  listen() {
    const again = () => this.layout();
    addEventListener("resize", again);
    addEventListener("scroll", () => {
      cancelAnimationFrame(this.scrolled);
      this.scrolled = requestAnimationFrame(() => {
        if (this.pictures.some((picture) => picture.stale && this.isNear(picture))) this.draw();
      });
    });
    addEventListener("hashchange", () => (this.restore(), this.draw()));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
    const print = (printing) => {
      this.printing = printing;
      document.documentElement.classList.toggle("printing", printing);
      this.layout();
    };
    addEventListener("beforeprint", () => print(true));
    addEventListener("afterprint", () => print(false));
    const keys = {
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), ArrowLeft: () => this.move(-0.2), ArrowRight: () => this.move(0.2),
      0: () => this.whole(), n: () => this.next(1), p: () => this.next(-1), i: () => this.setIdle(!this.axis.skips),
      "/": () => this.search.focus(), Escape: () => this.hold(null),
    };
    addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
        if (event.key === "Escape") event.target.blur();
        return;
      }
      const act = keys[event.key];
      if (act) {
        event.preventDefault();
        act();
      }
    });
  }
}

start((data) => {
  const run = new Run(data);
  return { run, page: new Page(run) };
});
