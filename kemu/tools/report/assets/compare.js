// The page of a comparison or a campaign: cells that ran the same seeds, their figures, and the runs that failed.

const LABEL = 128;
const ROW = 22;
const MOST_FAILURES = 100;
const TASK_PARTS = {
  task_detect: "until the group prepared for a rebalance", task_barrier: "until the new owner's assignment",
  task_restore: "until the task ran", task_pause: "tasks that returned to their owner",
};
const MEASURES = [
  ["median", "The middle value over the seeds. The interval below it contains the true median with 95 % confidence, for any distribution. Six seeds are the fewest that give one."],
  ["better, worse", "The exact 95 % interval of the median difference to the first row, paired by seed, excludes 0. Green: better than the first row, and not told apart from the best row."],
  ["always", "Every seed gave this value."],
  ["share of seeds", "The part of the seeds with this value or a smaller one. The true curve of all seeds lies inside the band with 95 % confidence (Dvoretzky, Kiefer, Wolfowitz)."],
  ["difference", "The value of a seed minus the value of the first row with the same seed. Dots are seeds; the thick bar is the interval of the median."],
];

// --- numbers -------------------------------------------------------------------------------------------------------------

const wordsOf = (figure) => figure.name.replaceAll("_", " ");
const shown = (figure, value) => (figure.scale > 1 ? (value / figure.scale).toFixed(figure.digits) : count(Math.round(value * 100) / 100));
const signed = (figure, value) => (value > 0 ? "+" : "") + shown(figure, value);
const withUnit = (figure, text) => (figure.unit ? `${text} ${figure.unit}` : text);
const dashOf = (index) => [[], [6, 3], [2, 3], [9, 3, 2, 3]][Math.floor(index / 8) % 4 || index % 4];
const colourOf = (index) => P.brokers[index % 8];

function middle(sorted) {
  const half = sorted.length / 2;
  return (sorted[Math.ceil(half) - 1] + sorted[Math.floor(half)]) / 2;
}

const COMPACT = new Intl.NumberFormat("en", { notation: "compact" });

// Round numbers between two values, about `wanted` of them.
function roundTicks(low, high, wanted) {
  const rough = (high - low) / wanted || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough * 0.999);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const text = (value) => (step < 1000 ? value.toFixed(digits) : COMPACT.format(value));
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at++) found.push([at * step + 0, text(at * step + 0)]);
  return found;
}

class Cells {
  constructor({ head, about, frames }) {
    Object.assign(this, { head, about, F: frames });
    about.figures.forEach((figure, index) => Object.assign(figure, { index }));
    this.figure = Object.fromEntries(about.figures.map((figure) => [figure.name, figure]));
    about.cells.forEach((cell, index) => Object.assign(cell, { index, runsBySeed: new Map(), failed: cell.runs - (cell.verdicts.holds || 0) }));
    this.values = about.figures.map(() => about.cells.map(() => new Map()));
    const { figure, cell, seed, value, n } = frames.values;
    for (let row = 0; row < n; row++) this.values[figure[row]][cell[row]].set(seed[row], value[row]);
    this.causes = new Map();
    for (let row = 0; row < frames.causes.n; row++) {
      const cause = frames.causes.say("cause", row);
      if (!this.causes.has(cause)) this.causes.set(cause, new Map());
      this.causes.get(cause).set(frames.causes.cell[row], frames.causes.us[row]);
    }
  }

  cellsOf(scenario) {
    return this.about.cells.filter((cell) => cell.scenario === scenario);
  }

  sorted(figure, cell) {
    return [...this.values[figure.index][cell.index].values()].sort((a, b) => a - b);
  }

  // [seed, difference to the base], in the order of the seeds.
  differences(figure, base, cell) {
    const before = this.values[figure.index][base.index];
    return [...this.values[figure.index][cell.index]].filter(([seed]) => before.has(seed)).map(([seed, value]) => [seed, value - before.get(seed)]);
  }

  varies(figure, cells) {
    return cells.some((cell) => {
      const values = this.sorted(figure, cell);
      return values.length > 1 && values[0] !== values[values.length - 1];
    });
  }
}

// --- charts --------------------------------------------------------------------------------------------------------------

class Chart {
  constructor(page, title, unit, height, draw, meaning = "") {
    Object.assign(this, { page, height, draw, hits: [] });
    this.canvas = el("canvas", { role: "img", "aria-label": `${title} ${unit}`, height });
    this.canvas.style.height = `${height}px`;
    this.box = el("figure", { class: "chart" }, el("figcaption", { title: meaning }, el("b", {}, title), " ", el("span", { class: "dim" }, unit)), this.canvas);
    this.canvas.addEventListener("pointermove", (event) => page.pinned || page.tell(this.hit(event)));
    this.canvas.addEventListener("pointerleave", () => page.pinned || page.tell(null));
    this.canvas.addEventListener("click", (event) => page.hold(this.hit(event)));
  }

  hit(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let best = null;
    for (const each of this.hits) {
      const far = Math.max(each.x - x, x - each.x - (each.wide || 0), 0) + Math.abs(each.y - y) * (each.wide === undefined ? 1 : 0.5);
      if (far < 14 && (!best || far < best.far)) best = { ...each, far };
    }
    return best && best.lines;
  }

  paint() {
    const wide = this.canvas.clientWidth;
    if (!wide) return;
    const scale = Math.min(devicePixelRatio || 1, 2);
    this.canvas.width = Math.round(wide * scale);
    this.canvas.height = Math.round(this.height * scale);
    const ink = this.canvas.getContext("2d");
    ink.setTransform(scale, 0, 0, scale, 0, 0);
    ink.font = "11px system-ui, sans-serif";
    this.hits = [];
    this.draw(ink, wide, this.height, this.hits);
  }
}

// A horizontal scale with grid lines and numbers below. `low` and `high`: kept numbers.
function scaleOf(ink, figure, low, high, left, wide, height) {
  if (high <= low) high = low + (figure.scale > 1 ? figure.scale : 1);
  const x = (value) => left + ((value - low) / (high - low)) * (wide - left - 14);
  let free = -Infinity;
  for (const [at, text] of roundTicks(low / figure.scale, high / figure.scale, Math.max(2, (wide - left) / 62))) {
    const place = x(at * figure.scale);
    ink.fillStyle = at === 0 ? P.dim : P.grid;
    ink.fillRect(place, 0, 1, height - 16);
    const half = ink.measureText(text).width / 2;
    const start = Math.min(place - half, wide - 2 * half - 2);
    if (start < free) continue;
    ink.fillStyle = P.dim;
    ink.fillText(text, start, height - 4);
    free = start + 2 * half + 6;
  }
  return x;
}

// A label that begins with "…" keeps its end, which has the value of a setting.
function rowLabel(ink, text, y, colour = P.ink) {
  ink.fillStyle = colour;
  while (text.startsWith("…") && ink.measureText(text).width > LABEL - 10) text = `…${text.slice(2)}`;
  ink.fillText(fitted(ink, text, LABEL - 10), 6, y);
}

// Median, interval and the highest value of each cell, from zero.
function drawMedians(page, figure, cells) {
  return (ink, wide, height, hits) => {
    const known = cells.filter((cell) => cell.figures[figure.name]);
    const tops = known.flatMap((cell) => cell.figures[figure.name].slice(0, 5).filter((each) => each !== null));
    const x = scaleOf(ink, figure, Math.min(0, ...tops), Math.max(...tops, 0), LABEL, wide, height);
    cells.forEach((cell, row) => {
      const y = row * ROW + 14;
      rowLabel(ink, cell.short, y + 4);
      if (!cell.figures[figure.name]) return;
      const [median, low, high, p95, max] = cell.figures[figure.name];
      if (low !== null) {
        ink.fillStyle = P.away;
        ink.fillRect(x(low), y - 4, Math.max(1.5, x(high) - x(low)), 8);
      }
      ink.fillStyle = P.dim;
      ink.fillRect(x(p95 === null ? max : p95) - 0.5, y - 5, 1.5, 10);
      ink.fillStyle = P.ink;
      ink.beginPath();
      ink.arc(x(median), y, 3.6, 0, 7);
      ink.fill();
      const inUnit = (value) => withUnit(figure, shown(figure, value));
      hits.push({ x: x(Math.min(low === null ? median : low, median)), wide: x(p95 === null ? max : p95) - x(median), y, lines: [
        `${cell.name}: ${wordsOf(figure)}`, `median ${inUnit(median)}` + (low === null ? "" : `, 95 % interval ${shown(figure, low)} to ${inUnit(high)}`),
        p95 === null ? `largest ${inUnit(max)}` : `95th percentile ${inUnit(p95)}, largest ${inUnit(max)}`] });
    });
  };
}

// The share of seeds up to each value, with its confidence band.
function drawShares(page, figure, cells) {
  const left = 36;
  return (ink, wide, height, hits) => {
    const all = cells.map((cell) => page.cells.sorted(figure, cell));
    const known = all.flat();
    const [low, high] = [Math.min(...known), Math.max(...known)];
    const room = (high - low) * 0.04;
    const x = scaleOf(ink, figure, low - room, high + room, left, wide, height);
    const y = (share) => 6 + (1 - share) * (height - 28);
    for (const share of [0, 0.5, 1]) {
      ink.fillStyle = P.grid;
      ink.fillRect(left, y(share), wide - left - 14, 1);
      ink.fillStyle = P.dim;
      ink.fillText(`${share * 100} %`, 2, y(share) + 4);
    }
    const steps = (values, lift, from = low - room, until = high + room) => {
      const points = [[x(from), y(Math.min(1, Math.max(0, lift)))]];
      values.forEach((value, index) => {
        points.push([x(value), points[points.length - 1][1]]);
        points.push([x(value), y(Math.min(1, Math.max(0, (index + 1) / values.length + lift)))]);
      });
      points.push([x(until), points[points.length - 1][1]]);
      return points;
    };
    cells.forEach((cell, index) => {
      const values = all[index];
      if (!values.length) return;
      const faint = page.state.cell !== null && page.state.cell !== cell.index;
      const colour = colourOf(index);
      if (values.length > 1 && values[0] !== values[values.length - 1] && !faint) {
        const band = Math.sqrt(Math.log(40) / 2 / values.length);
        ink.globalAlpha = page.state.cell === cell.index ? 0.25 : 0.09;
        ink.fillStyle = colour;
        ink.beginPath();
        const ends = [values[0], values[values.length - 1]];
        for (const [at, up] of [...steps(values, band, ...ends), ...steps(values, -band, ...ends).reverse()]) ink.lineTo(at, up);
        ink.fill();
      }
      ink.globalAlpha = faint ? 0.2 : 1;
      ink.strokeStyle = colour;
      ink.lineWidth = 1.7;
      ink.setLineDash(dashOf(index));
      ink.beginPath();
      for (const [at, up] of steps(values, 0)) ink.lineTo(at, up);
      ink.stroke();
      ink.setLineDash([]);
      ink.globalAlpha = 1;
      values.forEach((value, at) => hits.push({ x: x(value), y: y((at + 1) / values.length), lines: [
        cell.name, `${Math.round(((at + 1) / values.length) * 100)} % of ${plural(values.length, "seed")}: at most ${withUnit(figure, shown(figure, value))}`] }));
    });
  };
}

// The difference of each seed to the first cell.
function drawDifferences(page, figure, base, cells) {
  return (ink, wide, height, hits) => {
    const all = cells.map((cell) => page.cells.differences(figure, base, cell));
    const known = all.flatMap((pairs) => pairs.map(([, by]) => by));
    const x = scaleOf(ink, figure, Math.min(0, ...known), Math.max(0, ...known), LABEL, wide, height);
    cells.forEach((cell, row) => {
      const y = row * ROW * 1.5 + 18;
      const says = cell.figures[figure.name] ? cell.figures[figure.name][5] : "";
      rowLabel(ink, cell.short, y - 2);
      rowLabel(ink, says === "no difference shown" ? "not told apart" : says, y + 11, says === "better" ? P.ok : says === "worse" ? P.red : P.dim);
      const pairs = all[row];
      if (!pairs.length) return;
      pairs.forEach(([seed, by], at) => {
        const place = [x(by), y + ((at * 7) % 11) - 5];
        ink.globalAlpha = pairs.length > 100 ? 0.3 : 0.55;
        ink.fillStyle = P.bar;
        ink.beginPath();
        ink.arc(...place, 2.6, 0, 7);
        ink.fill();
        hits.push({ x: place[0], y: place[1], lines: [`${cell.name}, seed ${seed}: ${wordsOf(figure)} ${withUnit(figure, signed(figure, by))} against ${base.name}`] });
      });
      ink.globalAlpha = 1;
      const [low, high] = cell.figures[figure.name].slice(7);
      if (low !== null) {
        ink.fillStyle = P.ink;
        ink.fillRect(x(low), y - 1.5, Math.max(2, x(high) - x(low)), 3);
      }
      const sorted = pairs.map(([, by]) => by).sort((a, b) => a - b);
      ink.fillStyle = P.ink;
      ink.fillRect(x(middle(sorted)) - 1, y - 7, 2, 14);
    });
  };
}

// One bar of parts for each cell; `parts`: [text, numbers by cell].
function drawStack(page, cells, parts, unit, left) {
  return (ink, wide, height, hits) => {
    const totals = cells.map((cell) => parts.reduce((sum, [, of]) => sum + of(cell), 0));
    const digits = Math.max(...totals) < 1e6 ? 3 : 1;
    const figure = { scale: 1e6, digits, unit };
    const x = scaleOf(ink, figure, 0, Math.max(...totals), left, wide - 50, height);
    cells.forEach((cell, row) => {
      const y = row * ROW + 4;
      rowLabel(ink, cell.short, y + 12);
      let from = 0;
      parts.forEach(([text, of], index) => {
        const us = of(cell);
        if (!us) return;
        const [x0, x1] = [x(from), x(from + us)];
        ink.fillStyle = index < 8 ? colourOf(index) : hatch(ink, P.paper, colourOf(index), 5, 1.5);
        ink.fillRect(x0, y, Math.max(x1 - x0 - 0.7, 0.5), ROW - 6);
        const label = (us / 1e6).toFixed(digits);
        if (x1 - x0 > ink.measureText(label).width + 6) {
          ink.fillStyle = P.paper;
          ink.fillText(label, x0 + 3, y + 12);
        }
        hits.push({ x: x0, wide: x1 - x0, y: y + ROW / 2 - 3, lines: [cell.name, `${withUnit(figure, shown(figure, us))} a run: ${text}`] });
        from += us;
      });
      ink.fillStyle = P.ink;
      if (totals[row]) ink.fillText((totals[row] / 1e6).toFixed(digits), x(from) + 4, y + 12);
    });
  };
}

// --- the page ------------------------------------------------------------------------------------------------------------

class ComparePage {
  constructor(cells) {
    Object.assign(this, { cells, state: { scenario: 0, figures: null, cell: null }, charts: [], pinned: null });
    this.detail = el("div", { id: "detail", role: "status", "aria-live": "polite", hidden: true });
    this.body = el("div", { id: "cells" });
    const root = document.getElementById("page");
    root.append(this.first(), ...[this.choice(), this.body, this.failures(), this.legend()].filter(Boolean));
    document.body.append(this.detail);
    this.restore();
    this.fill();
    this.listen();
    root.setAttribute("aria-busy", "false");
  }

  first() {
    const { about, head } = this.cells;
    const runs = about.cells.reduce((sum, cell) => sum + cell.runs, 0);
    const failed = about.cells.reduce((sum, cell) => sum + cell.failed, 0);
    document.title = `${about.kind}: ${about.title}`;
    const facts = [plural(about.cells.length, about.kind === "compare" ? "variant" : "cell"), plural(runs, "run"), about.note].filter(Boolean);
    return el("header", {},
      el("h1", {}, el("span", { id: "verdict", class: failed ? "pill bad" : "pill good" }, failed ? `${count(failed)} of ${count(runs)} failed` : "all hold"),
        ` ${about.kind}: ${about.title} `, el("small", {}, facts.join(", "))),
      about.summary && el("p", { class: "dim" }, about.summary),
      commandLine(head.command));
  }

  // Scenarios of a campaign.
  choice() {
    const { scenarios } = this.cells.about;
    if (scenarios.length < 2) return null;
    this.buttons = scenarios.map((scenario, index) => {
      const cells = this.cells.cellsOf(index);
      const failed = cells.reduce((sum, cell) => sum + cell.failed, 0);
      return el("button", { type: "button", class: "scenario", onclick: () => this.choose(index) }, el("b", {}, scenario.name),
        el("span", { class: failed ? "red" : "dim" }, failed ? `${count(failed)} of ${count(cells.reduce((sum, cell) => sum + cell.runs, 0))} failed` : `${plural(cells.length, "cell")}, all hold`));
    });
    return el("nav", { id: "scenarios", class: "tools" }, this.buttons);
  }

  choose(index) {
    Object.assign(this.state, { scenario: index, figures: null, cell: null });
    this.keep();
    this.fill();
  }

  fill() {
    readPalette();
    const { about } = this.cells;
    const scenario = about.scenarios[this.state.scenario];
    const cells = this.cells.cellsOf(this.state.scenario);
    const known = about.figures.filter((figure) => cells.some((cell) => cell.figures[figure.name] && this.cells.sorted(figure, cell).some((value) => value)));
    const main = known.filter((figure) => scenario.shown.includes(figure.name));
    const others = known.filter((figure) => !scenario.shown.includes(figure.name));
    const chosen = this.state.figures ? known.filter((figure) => this.state.figures.includes(figure.name)) : main;
    this.chosen = chosen.map((figure) => figure.name);
    this.charts = [];
    if (this.buttons) this.buttons.forEach((button, index) => button.setAttribute("aria-pressed", index === this.state.scenario));
    const open = Boolean(document.querySelector("#others[open]"));
    this.body.replaceChildren(...[
      this.table("table", cells, main, scenario),
      scenario.equal ? el("p", { id: "equal", class: "dim" }, "With every seed, all rows have the same figures.") : null,
      others.length ? el("details", { id: "others", open }, el("summary", {}, `${plural(others.length, "other figure")}; click a figure's name to draw it or to leave it out`), this.blocks(others, cells, scenario)) : null,
      this.troubles(cells),
      this.section("medians", "Medians", "dot: median, bar: its 95 % interval, tick: 95th percentile, or the largest value of fewer than 59 seeds",
        chosen.map((figure) => this.chart(figure, cells.length * ROW + 26, drawMedians(this, figure, cells)))),
      this.shares(chosen, cells),
      this.paired(chosen, cells),
      this.stacks(cells),
    ].filter(Boolean));
    this.paint();
  }

  blocks(figures, cells, scenario) {
    const parts = [];
    for (let at = 0; at < figures.length; at += 8) parts.push(this.table(`others-${at / 8}`, cells, figures.slice(at, at + 8), scenario));
    return el("div", {}, parts);
  }

  table(id, cells, figures, scenario) {
    const head = figures.map((figure) => el("th", { scope: "col", title: figure.meaning },
      el("button", { type: "button", class: "figure", "aria-pressed": String(this.chosen.includes(figure.name)), onclick: () => this.toggle(figure.name) }, wordsOf(figure)), el("br"), figure.unit || "count"));
    const line = (cell) => {
      const verdicts = Object.entries(cell.verdicts).map(([verdict, n]) => (n === cell.runs && verdict === "holds" ? "all hold" : `${n} ${verdict}`));
      return el("tr", {}, el("th", { scope: "row", title: cell.name }, el("b", {}, cell.name.split(/(?<=[+=])/).flatMap((part) => [part, el("wbr")])), el("br"),
        el("small", { class: cell.failed ? "red" : "dim" }, `${plural(cell.runs, "run")}, ${verdicts.join(", ")}`)), figures.map((figure) => this.value(figure, cell, scenario)));
    };
    return el("div", { class: "wide" }, el("table", { class: "cells", id },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, this.cells.about.kind === "compare" ? "variant" : "cell"), head)), el("tbody", {}, cells.map(line))));
  }

  value(figure, cell, scenario) {
    const found = cell.figures[figure.name];
    if (!found) return el("td", { class: "dim" }, "–");
    const [median, low, high, , , says] = found;
    const values = this.cells.sorted(figure, cell);
    const range = values[0] === values[values.length - 1] ? "always" : low === null ? "" : `${shown(figure, low)} … ${shown(figure, high)}`;
    const best = (scenario.best[figure.name] || []).includes(cell.name);
    const word = ["better", "worse", "more", "less"].includes(says) ? says : "";
    return el("td", { class: best ? "best" : says === "worse" ? "worse" : "" }, el("b", {}, shown(figure, median)), el("br"), el("small", {}, [range, word].filter(Boolean).join(", ")));
  }

  toggle(name) {
    const now = this.chosen;
    this.state.figures = now.includes(name) ? now.filter((each) => each !== name) : [...now, name];
    this.keep();
    this.fill();
  }

  // Cells without figures, and lines of the plan that never took effect.
  troubles(cells) {
    const lines = cells.flatMap((cell) => [
      cell.did_not_work && `${cell.name} did not work ${cell.did_not_work}`,
      ...cell.never_fired.map((text) => `${cell.name}: a fault never fired in any run: ${text}`),
    ]).filter(Boolean);
    return lines.length ? el("div", { id: "troubles" }, lines.map((line) => el("p", { class: "amber" }, line))) : null;
  }

  chart(figure, height, draw) {
    const chart = new Chart(this, wordsOf(figure), figure.unit, height, draw, figure.meaning);
    this.charts.push(chart);
    return chart.box;
  }

  section(id, title, note, boxes, legend = null) {
    return boxes.length ? el("section", { id }, el("h2", {}, title, " ", el("small", {}, note)), legend, el("div", { class: "charts" }, boxes)) : null;
  }

  shares(figures, cells) {
    const varying = figures.filter((figure) => this.cells.varies(figure, cells));
    const key = el("div", { class: "keys" }, cells.map((cell, index) => {
      const line = el("canvas", { width: 52, height: 12, "aria-hidden": "true" });
      const ink = line.getContext("2d");
      Object.assign(ink, { strokeStyle: colourOf(index), lineWidth: 4 });
      ink.setLineDash(dashOf(index).map((each) => each * 2));
      ink.beginPath();
      ink.moveTo(0, 6);
      ink.lineTo(52, 6);
      ink.stroke();
      const pressed = this.state.cell === cell.index;
      return el("button", { type: "button", "aria-pressed": String(pressed), title: cell.name, onclick: () => ((this.state.cell = pressed ? null : cell.index), this.fill()) }, line, ` ${cell.short}`);
    }));
    return this.section("shares", "Share of seeds with at most this value", "bands: 95 % confidence; figures that no seed changes are left out",
      varying.map((figure) => this.chart(figure, 190, drawShares(this, figure, cells))), key);
  }

  paired(figures, cells) {
    const base = cells.find((cell) => Object.keys(cell.figures).length);
    const others = cells.filter((cell) => cell !== base && Object.keys(cell.figures).length);
    if (!base || !others.length) return null;
    const some = figures.filter((figure) => others.some((cell) => this.cells.differences(figure, base, cell).some(([, by]) => by)));
    return this.section("differences", "Difference of each seed", `to ${base.name} with the same seed; a line and a bar: the median and its 95 % interval`,
      some.map((figure) => this.chart(figure, others.length * ROW * 1.5 + 26, drawDifferences(this, figure, base, others))));
  }

  stacks(cells) {
    const { about, causes, values, figure } = this.cells;
    const mean = (map, cell) => (map.get(cell.index) || 0) / Math.max(cell.runs, 1);
    const total = (of) => cells.reduce((sum, cell) => sum + of(cell), 0);
    const parts = [...causes].map(([name, map]) => [`for ${about.causes[name] || name}`, (cell) => mean(map, cell)]);
    const tasks = Object.entries(TASK_PARTS).filter(([name]) => figure[name]).map(([name, text]) => [text, (cell) => {
      const all = [...values[figure[name].index][cell.index].values()];
      return all.reduce((sum, value) => sum + value, 0) / Math.max(all.length, 1);
    }]);
    const made = [["downtime", "Where partitions waited", "mean of a run, in seconds summed over partitions", parts], ["tasks", "Where tasks waited", "mean of a run, in seconds summed over tasks", tasks]];
    const boxes = made.flatMap(([id, title, note, all]) => {
      const some = all.filter(([, of]) => total(of) > 0).sort((a, b) => total(b[1]) - total(a[1]));
      if (!some.length) return [];
      const chart = new Chart(this, "", "", cells.length * ROW + 24, drawStack(this, cells, some, "s", LABEL), title);
      this.charts.push(chart);
      const key = el("div", { class: "keys" }, some.map(([text], index) => {
        const mark = el("i", { class: index < 8 ? "" : "hatched" });
        mark.style.setProperty("--mark", `var(--broker${index % 8})`);
        return el("span", { class: "key" }, mark, text);
      }));
      return [el("section", { id: `causes-${id}` }, el("h2", {}, title, " ", el("small", {}, note)), key, chart.box)];
    });
    return boxes.length ? el("div", { id: "causes" }, boxes) : null;
  }

  failures() {
    const F = this.cells.F.failing;
    if (!F.n) return null;
    const body = el("tbody");
    const row = (at) => {
      const command = F.say("command", at);
      const copy = el("button", { type: "button", onclick: () => copied(command, copy) }, "copy");
      const page = F.say("page", at);
      return el("tr", {}, el("td", {}, this.cells.about.cells[F.cell[at]].name), el("td", {}, `seed ${F.seed[at]}`), el("td", { class: "red" }, F.say("verdict", at)),
        el("td", {}, F.say("reason", at)), el("td", {}, page && el("a", { href: page }, "pictures"), page && " ", el("code", {}, command), " ", copy));
    };
    const rows = Array.from({ length: F.n }, (_, at) => at);
    const fill = (most) => body.replaceChildren(...rows.slice(0, most).map(row));
    fill(MOST_FAILURES);
    const more = F.n > MOST_FAILURES && el("button", { type: "button", onclick: () => (fill(F.n), more.remove()) }, `show all ${count(F.n)}`);
    return el("section", { id: "failures" }, el("h2", {}, "Failed runs ", el("small", {}, "a command repeats a run; with --report FILE it draws the run")), el("div", { class: "wide" }, el("table", { class: "failures" }, body)), more || "");
  }

  legend() {
    const { about, head } = this.cells;
    const rows = (pairs) => el("table", {}, pairs.map(([name, text]) => el("tr", {}, el("th", {}, name), el("td", {}, text))));
    return el("details", { id: "legend" }, el("summary", {}, "Words and figures"), rows(MEASURES),
      rows(about.figures.map((figure) => [`${wordsOf(figure)}${figure.unit ? ` (${figure.unit})` : ""}`, `${figure.meaning}. ${figure.how}`.trim()])), el("p", { class: "dim" }, `Digest of this page's data: ${head.digest}.`));
  }

  paint() {
    for (const chart of this.charts) chart.paint();
  }

  tell(lines) {
    this.detail.hidden = !lines;
    if (lines) this.detail.replaceChildren(...lines.map((line) => el("div", {}, line)));
  }

  hold(lines) {
    this.pinned = lines;
    this.tell(lines);
  }

  keep() {
    const parts = new URLSearchParams();
    if (this.state.scenario) parts.set("scenario", this.cells.about.scenarios[this.state.scenario].name);
    if (this.state.figures) parts.set("figures", this.state.figures.join(","));
    const text = parts.toString();
    history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
  }

  restore() {
    const parts = new URLSearchParams(location.hash.slice(1));
    this.state.scenario = Math.max(0, this.cells.about.scenarios.findIndex((each) => each.name === parts.get("scenario")));
    this.state.figures = parts.get("figures") === null ? null : parts.get("figures").split(",");
  }

  listen() {
    const again = () => this.fill();
    addEventListener("resize", () => this.paint());
    addEventListener("hashchange", () => (this.restore(), this.fill()));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
    for (const [event, printing] of [["beforeprint", true], ["afterprint", false]]) {
      addEventListener(event, () => (document.documentElement.classList.toggle("printing", printing), this.fill()));
    }
    addEventListener("keydown", (event) => event.key === "Escape" && this.hold(null));
  }
}

start((data) => ({ page: new ComparePage(new Cells(data)) }));
