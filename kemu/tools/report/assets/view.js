// The view: one window of time for all pictures, the palette, and small helpers for text and elements.

const GUTTER = 134;
const CSS = getComputedStyle(document.documentElement);

function el(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== false && value != null) node.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat()) if (child != null && child !== false && child !== "") node.append(child);
  return node;
}

function clock(us, fine) {
  const sign = us < 0 ? "-" : "";
  us = Math.abs(Math.round(us));
  const minutes = Math.floor(us / 6e7);
  const seconds = Math.floor((us % 6e7) / 1e6);
  let text = `${sign}${String(minutes).padStart(2, "0")}:${String(seconds).padStart(2, "0")}`;
  if (fine) text += "." + String(us % 1e6).padStart(6, "0").slice(0, fine);
  return text;
}

function span(us) {
  if (us < 1e3) return `${Math.round(us)} µs`;
  if (us < 1e6) return `${us < 1e4 ? (us / 1e3).toFixed(1) : Math.round(us / 1e3)} ms`;
  if (us < 12e7) return `${(us / 1e6).toFixed(1)} s`;
  return `${Math.floor(us / 6e7)} min ${Math.floor((us % 6e7) / 1e6)} s`;
}

function copied(text, button) {
  const done = () => {
    button.textContent = "copied";
    setTimeout(() => (button.textContent = "copy"), 1500);
  };
  const select = () => {
    getSelection().selectAllChildren(document.getElementById("command"));
    if (document.execCommand("copy")) done();
  };
  if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, select);
  else select();
}

// The command that repeats what the page shows, with a button that copies it.
function commandLine(command) {
  const copy = el("button", { id: "copy", type: "button", onclick: () => copied(command, copy) }, "copy");
  return el("div", { class: "tools" }, el("code", { id: "command" }, command), copy);
}

const count = (n) => n.toLocaleString("en");
const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;
const hostOf = (actor) => actor.split("/")[0];

// Names in their natural order: c2 before c10, internal topics last.
const COLLATOR = new Intl.Collator("en", { numeric: true });

function naturally(a, b) {
  return a.startsWith("__") - b.startsWith("__") || COLLATOR.compare(a, b);
}

// --- the palette -----------------------------------------------------------------------------------------------------

let P = {};

function readPalette() {
  P = {};
  for (const name of [
    "ink", "dim", "paper", "card", "grid", "stable", "joining", "syncing", "paused", "down", "none", "owned", "home", "away",
    "two", "accent", "bar", "amber", "red", "learner", "standby", "restoring", "main", "ok",
  ]) P[name] = CSS.getPropertyValue(`--${name}`).trim();
  P.brokers = Array.from({ length: 8 }, (_, each) => CSS.getPropertyValue(`--broker${each}`).trim());
  HATCHES.clear();
}

const HATCHES = new Map();

// A pattern of slanted lines in one colour over another; pictures stay legible without colours.
function hatch(context, line, ground = "", step = 6, thick = 2) {
  const key = `${line} ${ground} ${step} ${thick}`;
  if (!HATCHES.has(key)) {
    const tile = document.createElement("canvas");
    const scale = window.devicePixelRatio || 1;
    tile.width = tile.height = step * scale;
    const ink = tile.getContext("2d");
    ink.scale(scale, scale);
    if (ground) {
      ink.fillStyle = ground;
      ink.fillRect(0, 0, step, step);
    }
    ink.strokeStyle = line;
    ink.lineWidth = thick;
    ink.beginPath();
    for (const shift of [-step, 0, step]) {
      ink.moveTo(shift, step);
      ink.lineTo(shift + step, 0);
    }
    ink.stroke();
    const pattern = context.createPattern(tile, "repeat");
    pattern.setTransform(new DOMMatrix().scale(1 / scale));
    HATCHES.set(key, pattern);
  }
  return HATCHES.get(key);
}

// --- time ------------------------------------------------------------------------------------------------------------

// The time axis. `bends` are the ends of idle spans: with `skips`, an idle span is drawn as narrow as SLIT of the run.
const SLIT = 0.012;

class Axis {
  constructor(end, idle) {
    this.end = Math.max(end, 1);
    this.idle = idle;
    this.skips = false;
    this.from = 0;
    this.until = this.end;
    this.width = 1000;
    this.bend();
  }

  // The pieces of the run with their slopes: [start, end, place of the start, slope].
  bend() {
    this.pieces = [];
    let at = 0;
    let place = 0;
    const put = (until, slope) => {
      if (until > at) {
        this.pieces.push([at, until, place, slope]);
        place += (until - at) * slope;
        at = until;
      }
    };
    if (this.skips) {
      const slit = this.end * SLIT;
      for (const [from, until] of this.idle) {
        put(from, 1);
        put(until, slit / (until - from));
      }
    }
    put(this.end, 1);
  }

  place(us) {
    if (this.pieces.length === 1) return us;
    let low = 0;
    let high = this.pieces.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.pieces[middle][0] <= us) low = middle;
      else high = middle - 1;
    }
    const piece = this.pieces[low];
    return piece[2] + (us - piece[0]) * piece[3];
  }

  // Set up for drawing: x(us) is the position in pixels.
  ready(width) {
    this.width = Math.max(width - GUTTER, 50);
    const first = this.place(this.from);
    const scale = this.width / (this.place(this.until) - first || 1);
    if (this.pieces.length === 1) this.x = (us) => GUTTER + (us - first) * scale;
    else this.x = (us) => GUTTER + (this.place(us) - first) * scale;
    this.perPixel = (this.until - this.from) / this.width;
  }

  time(x) {
    const first = this.place(this.from);
    const place = first + ((x - GUTTER) / this.width) * (this.place(this.until) - first);
    for (const [start, end, begin, slope] of this.pieces) {
      if (place <= begin + (end - start) * slope || end === this.end) return start + (place - begin) / slope;
    }
    return this.end;
  }

  show(from, until) {
    const least = 200;
    if (until - from < least) {
      const middle = (from + until) / 2;
      from = middle - least / 2;
      until = middle + least / 2;
    }
    const wide = Math.min(until - from, this.end);
    this.from = Math.min(Math.max(0, from), this.end - wide);
    this.until = this.from + wide;
  }

  // Times with labels, about 115 pixels apart.
  ticks() {
    const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500].flatMap((n) => [n, n * 1e3]).sort((a, b) => a - b);
    const all = [...steps, 1e6, 2e6, 5e6, 1e7, 2e7, 3e7, 6e7, 12e7, 3e8, 6e8, 12e8, 36e8];
    const wanted = this.perPixel * 115;
    const step = all.find((each) => each >= wanted) || 72e8;
    const fine = step >= 1e6 ? 0 : step >= 1e3 ? 3 : 6;
    const found = [];
    for (let us = Math.ceil(this.from / step) * step; us <= this.until; us += step) found.push([us, clock(us, fine)]);
    return found;
  }
}

// Index of the first value that is not below `value`, in an ascending array.
function firstAt(values, value, n = values.length) {
  let low = 0;
  let high = n;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
