// Marks on a canvas that several pictures share: strips, bars, labels.

// A number over time, with its integral: the mean and the maximum of any span cost two searches.
class Steps {
  constructor(times, values) {
    this.times = times;
    this.values = values;
    this.most = 0;
    this.sums = new Float64Array(times.length);
    for (let at = 0; at < times.length; at++) {
      this.most = Math.max(this.most, values[at]);
      if (at) this.sums[at] = this.sums[at - 1] + values[at - 1] * (times[at] - times[at - 1]);
    }
  }

  // The number of spans at each time.
  static ofSpans(from, until, n = from.length) {
    const changes = new Map();
    for (let row = 0; row < n; row++) {
      changes.set(from[row], (changes.get(from[row]) || 0) + 1);
      changes.set(until[row], (changes.get(until[row]) || 0) - 1);
    }
    const times = [...changes.keys()].sort((a, b) => a - b);
    let now = 0;
    return new Steps(times, times.map((us) => (now += changes.get(us))));
  }

  index(us) {
    return firstAt(this.times, us + 0.5) - 1;
  }

  at(us) {
    const index = this.index(us);
    return index < 0 ? 0 : this.values[index];
  }

  // The integral until a time.
  until(us) {
    const index = this.index(us);
    return index < 0 ? 0 : this.sums[index] + this.values[index] * (us - this.times[index]);
  }
}

// The mean of each pixel solid, its maximum faint. `top`: the number at full height.
function drawStrip(ink, axis, steps, y, height, top, colour) {
  const last = GUTTER + axis.width;
  let index = Math.max(0, steps.index(axis.from));
  let before = steps.until(axis.from);
  let from = axis.from;
  for (let x = GUTTER; x < last; x++) {
    const until = Math.min(axis.time(x + 1), axis.end);
    if (until <= from) continue;
    let most = steps.at(from);
    while (index < steps.times.length && steps.times[index] < until) {
      if (steps.times[index] >= from) most = Math.max(most, steps.values[index]);
      index++;
    }
    index = Math.max(0, index - 1);
    const sum = steps.until(until);
    const mean = (sum - before) / (until - from);
    if (most > 0) {
      ink.fillStyle = colour;
      const high = Math.max(1, (most / top) * height);
      const full = (mean / top) * height;
      ink.globalAlpha = 0.4;
      ink.fillRect(x, y + height - high, 1, high);
      ink.globalAlpha = 1;
      if (full > 0) ink.fillRect(x, y + height - full, 1, full);
    }
    before = sum;
    from = until;
  }
}

// A bar from one time to another; at least half a pixel wide, so that short states stay visible.
function bar(ink, axis, from, until, y, height, fill, least = 0.7) {
  const x0 = Math.max(axis.x(from), GUTTER);
  const x1 = Math.min(axis.x(until), GUTTER + axis.width);
  if (x1 < GUTTER || x0 > GUTTER + axis.width) return;
  ink.fillStyle = fill;
  ink.fillRect(x0, y, Math.max(x1 - x0, least), height);
}

// Labels of one row, placed from left to right. A label that would cover another is dropped, and counted.
class Labels {
  constructor(ink, axis, y) {
    this.ink = ink;
    this.axis = axis;
    this.y = y;
    this.free = GUTTER;
    this.dropped = 0;
  }

  // `room`: pixels that the label may use, Infinity for a label outside of its bar.
  put(x, text, colour, room = Infinity) {
    const width = this.ink.measureText(text).width;
    const last = GUTTER + this.axis.width;
    const at = Math.max(x, GUTTER + 2);
    if (x > last || at < this.free || width + 4 > room - (at - x) || (at + width > last && at > last - 20)) {
      this.dropped += x <= last && x + Math.min(room, 1e6) >= GUTTER ? 1 : 0;
      return false;
    }
    this.ink.fillStyle = colour;
    this.ink.fillText(text, at, this.y);
    this.free = at + width + 8;
    return true;
  }
}

function fitted(ink, text, width) {
  if (ink.measureText(text).width <= width) return text;
  while (text.length > 1 && ink.measureText(text + "…").width > width) text = text.slice(0, -1);
  return text + "…";
}
