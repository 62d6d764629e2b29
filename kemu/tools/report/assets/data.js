// The data of a page: inflate the bytes, and turn them back into columns.

async function inflated() {
  const packed = atob(document.getElementById("data").textContent);
  const bytes = new Uint8Array(packed.length);
  for (let at = 0; at < packed.length; at++) bytes[at] = packed.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// One column: equal bytes of all values lie side by side, lowest byte first. mode 0: values, 1: differences to the
// value before, 2: differences to the first column.
function column(bytes, at, rows, width, mode, first) {
  const wide = width === 8 || mode > 0;
  const out = wide ? new Float64Array(rows) : new Int32Array(rows);
  const shift = 32 - 8 * Math.min(width, 4);
  let sum = 0;
  for (let row = 0; row < rows; row++) {
    let value = 0;
    for (let byte = Math.min(width, 4) - 1; byte >= 0; byte--) value = (value << 8) | bytes[at + byte * rows + row];
    if (width === 8) {
      let high = 0;
      for (let byte = 7; byte >= 4; byte--) high = (high << 8) | bytes[at + byte * rows + row];
      value = high * 4294967296 + (value >>> 0);
    } else if (shift) {
      value = (value << shift) >> shift;
    }
    if (mode === 1) value = sum += value;
    else if (mode === 2) value += first[row];
    out[row] = value;
  }
  return out;
}

// A frame: `n` rows, a typed array for each column. Texts are numbers with a table: say(name, row).
class Frame {
  constructor(n) {
    this.n = n;
    this.tables = {};
  }

  say(name, row) {
    return this.tables[name] ? this.tables[name][this[name][row]] : "";
  }

  // A list that holds, for each text of a column, the result of a function.
  mapped(name, make) {
    return (this.tables[name] || []).map(make);
  }
}

async function loaded() {
  const head = JSON.parse(document.getElementById("head").textContent);
  const bytes = await inflated();
  const about = JSON.parse(new TextDecoder().decode(bytes.subarray(0, head.texts)));
  const frames = {};
  let at = head.texts;
  for (const [name, told] of Object.entries(about.frames)) {
    const frame = (frames[name] = new Frame(told.rows));
    let first = null;
    for (const [field, [width, mode, table]] of Object.entries(told.columns)) {
      frame[field] = column(bytes, at, told.rows, width, mode, first);
      if (table) frame.tables[field] = table;
      first = first || frame[field];
      at += width * told.rows;
    }
  }
  return { head, about, frames };
}

// Read the data, and show the page that a function makes of it.
function start(make) {
  loaded().then(
    (data) => {
      window.report = { ...make(data), readyMs: performance.now() };
    },
    (error) => {
      document.getElementById("page").append(el("p", { class: "red" }, `This report cannot be shown: ${error.message}. It needs a browser from 2023 or later.`));
      throw error;
    },
  );
}
