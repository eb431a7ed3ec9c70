// Tables and plots beside the graph.
function sortable(columns, rows, open) {
  const body = make("tbody"), headings = columns.map(column => make("th", { scope: "col", "aria-sort": "none" }, make("button", { type: "button" }, column.title)));
  let order = rows.slice(), drawn = 0, filter = "";
  const more = () => {
    const some = order.slice(drawn, drawn + 300);
    drawn += some.length;
    body.append(...some.map(row => make("tr", { tabindex: "0", on: { click: () => open(row), keydown: event => event.key === "Enter" && open(row) } }, columns.map(column => {
      const said = column.of(row);
      return make("td", { class: typeof said === "number" ? "number" : "" }, number(said));
    }))));
  };
  const redraw = () => {
    body.replaceChildren();
    drawn = 0;
    order = rows.filter(row => !filter || columns.some(column => String(column.of(row) ?? "").toLowerCase().includes(filter)));
    if (redraw.by) {
      const { of } = redraw.by, sign = redraw.sign;
      order.sort((a, b) => {
        const x = of(a), y = of(b), isX = x !== null && x !== undefined && x !== "", isY = y !== null && y !== undefined && y !== "";
        if (!isX || !isY) return isY - isX;
        return sign * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y)));
      });
    }
    more();
  };
  headings.forEach((heading, index) => heading.firstChild.addEventListener("click", () => {
    redraw.sign = redraw.by === columns[index] ? -redraw.sign : 1;
    redraw.by = columns[index];
    headings.forEach(other => other.setAttribute("aria-sort", "none"));
    heading.setAttribute("aria-sort", redraw.sign > 0 ? "ascending" : "descending");
    redraw();
  }));
  const table = make("table", { class: "plain sortable" }, make("thead", {}, make("tr", {}, headings)), body);
  const pane = make("div", { class: "rows", on: { scroll: () => pane.scrollTop + pane.clientHeight > pane.scrollHeight - 400 && drawn < order.length && more() } }, table);
  pane.filter = text => {
    filter = text.toLowerCase();
    redraw();
  };
  redraw();
  return pane;
}

function nodeTable(view, told) {
  const { model } = view, bytes = node => node.inputs.reduce((sum, value) => sum + (value !== null && model.values[value].kind === "constant" ? model.values[value].bytes || 0 : 0), 0);
  const rows = [...model.nodes.keys()].filter(index => !model.constants.has(index)).map(index => {
    const node = model.nodes[index], first = node.outputs.find(value => value !== null);
    return { index, node, first: first === undefined ? {} : model.values[first], error: model.errorOf(index) };
  });
  const columns = [
    { title: "#", of: row => row.index },
    { title: "operator", of: row => row.node.op },
    { title: "name", of: row => model.label(row.index) },
    { title: "scope", of: row => model.scopePath(row.node.scope) },
    { title: "type", of: row => row.first.type },
    { title: "shape", of: row => (row.first.shape ? shapeOf(row.first) : "") },
    { title: "MACs", of: row => row.node.macs },
    { title: "activations (bytes)", of: row => row.node.live_bytes },
    { title: "weights (bytes)", of: row => bytes(row.node) || null },
  ];
  if (model.errors.size) columns.push({ title: "SNR dB", of: row => row.error?.snr_db ?? (row.error?.passed ? "equal" : null) }, { title: "max |a−b|", of: row => row.error?.max_abs });
  if (told.report.times && !model.side) columns.push({ title: "µs", of: row => told.report.times[row.index] });
  const dispatch = new Map((told.report.dispatch || []).map(each => [each[model.side ? "other" : "node"], each]));
  if (dispatch.size) columns.push({ title: "computed", of: row => dispatch.get(row.index)?.place }, { title: "reason", of: row => dispatch.get(row.index)?.reason });
  return sortable(columns, rows, row => told.open(view, "n" + row.index));
}

// The error along the network: signal to noise by value, in the order of computation.
function errorPlot(report, told) {
  const errors = report.errors || [], wide = Math.max(620, Math.min(errors.length * 6, 4000)), high = 300, edge = 46;
  if (!errors.length) return make("p", {}, (report.notes || ["No values were compared."]).join(" "));
  const at = error => (error.snr_db === null ? (error.passed ? 130 : -10) : Math.max(-10, Math.min(130, error.snr_db)));
  const x = index => edge + ((wide - edge - 20) * (index + 0.5)) / errors.length, y = decibels => 14 + ((high - 50) * (130 - decibels)) / 140;
  const parts = [];
  for (const level of [0, 20, 40, 60, 80, 100, 120]) {
    parts.push(draw("line", { class: "rule", x1: edge, x2: wide - 16, y1: y(level), y2: y(level) }), draw("text", { class: "axis", x: edge - 6, y: y(level) + 4, "text-anchor": "end" }, `${level}`));
  }
  parts.push(draw("text", { class: "axis", x: edge, y: high - 6 }, "values in the order of computation; the signal-to-noise ratio in dB, up is better, ∞ on top"));
  parts.push(draw("path", { class: "line", d: "M" + errors.map((error, index) => `${x(index).toFixed(1)} ${y(at(error)).toFixed(1)}`).join("L") }));
  const bin = new Map();
  errors.forEach((error, index) => {
    const name = `dot snr${grade(error)}`, cx = x(index), cy = y(at(error));
    if (errors.length <= 1500) {
      const dot = draw("circle", { class: name, cx, cy, r: 4 }, draw("title", {}, `${error.name}\n${error.snr_db === null ? (error.passed ? "equal" : error.reason || "differs") : error.snr_db.toFixed(2) + " dB"}`));
      dot.addEventListener("click", () => told.reveal(error));
      parts.push(dot);
    } else bin.set(name, (bin.get(name) || "") + `M${(cx - 2).toFixed(1)} ${(cy - 2).toFixed(1)}h4v4h-4z`);
  });
  for (const [name, d] of bin) parts.push(draw("path", { class: name, d }));
  const first = report.first ? errors[report.first[0]] : null;
  if (first) {
    const cx = x(report.first[0]);
    parts.push(draw("line", { class: "first", x1: cx, x2: cx, y1: 8, y2: high - 24 }), draw("text", { class: "axis strong", x: Math.min(cx + 6, wide - 220), y: 12 }, `first: ${shortened(first.name)}`));
  }
  const plot = draw("svg", { class: "plot", viewBox: `0 0 ${wide} ${high}`, width: wide, height: high, role: "img", "aria-label": "error along the network" }, ...parts);
  plot.addEventListener("click", event => {
    if (event.target.tagName === "circle") return;
    const frame = plot.getBoundingClientRect();
    const index = Math.round(((event.clientX - frame.left - edge) / (wide - edge - 20)) * errors.length - 0.5);
    if (errors[index]) told.reveal(errors[index]);
  });
  const sentence = first ? make("p", {}, "The first value that differs is ", make("button", { class: "link", type: "button", on: { click: () => told.reveal(first) } }, first.name), `: ${first.snr_db === null ? first.reason || "no number" : first.snr_db.toFixed(2) + " dB"}.`) : make("p", {}, "No value differs beyond tolerance.");
  const columns = [
    { title: "#", of: row => errors.indexOf(row) },
    { title: "value", of: row => row.name },
    { title: "in the second", of: row => row.other },
    { title: "result", of: row => (row.passed ? "equal" : row.reason || "differs") },
    { title: "SNR dB", of: row => row.snr_db },
    { title: "max |a−b|", of: row => row.max_abs },
    { title: "mean |a−b|", of: row => row.mean_abs },
    { title: "cosine", of: row => row.cosine },
  ];
  return [sentence, (report.notes || []).map(note => make("p", {}, note)), make("div", { class: "wide" }, plot), sortable(columns, errors, row => told.reveal(row))];
}

function quantizationPanel(report, told) {
  const found = report.quantization, parts = [];
  const facts = [["SNR", found.snr_db === undefined ? null : `${found.snr_db} dB${found.snr_range_db ? ` (on other samples ${found.snr_range_db[0]} to ${found.snr_range_db[1]})` : ""}`], ["same first choice", found.agreement === undefined || found.agreement === null ? null : `${(100 * found.agreement).toFixed(1)} %`], ["samples", found.samples], ["goal", found.goal_met === undefined || found.goal_met === null ? null : found.goal_met ? "met" : "not met"]];
  for (const [name, one] of Object.entries(found.latency?.runtimes || {})) facts.push([`time on ${name}`, `${one.source_ms} ms before, ${one.target_ms} ms after (${one.speed_up}×)`]);
  parts.push(pairsTable(facts));
  if (found.front?.length) parts.push(make("h2", {}, "Pareto front: signal-to-noise ratio over time"), frontPlot(found));
  if (found.layers?.length) {
    const between = ends => (ends ? `${number(ends[0])} … ${number(ends[1])}` : "");
    const clipped = row => (row.input_range && row.input_seen ? Math.max(0, 1 - (row.input_range[1] - row.input_range[0]) / Math.max(row.input_seen[1] - row.input_seen[0], 1e-30)) : null);
    const columns = [
      { title: "layer", of: row => row.name },
      { title: "operator", of: row => row.operator },
      { title: "on", of: row => (row.quantized ? "integers" : "floats") },
      { title: "own dB", of: row => row.own_db },
      { title: "accumulated dB", of: row => row.accumulated_db },
      { title: "range of input", of: row => between(row.input_range) },
      { title: "range in samples", of: row => between(row.input_seen) },
      { title: "clipped share", of: clipped },
      { title: "rounding", of: row => row.means },
      { title: "reason", of: row => row.reasons.join("; ") },
    ];
    parts.push(make("h2", {}, "layers"), sortable(columns, found.layers, row => told.named(row.name)));
  }
  const of = (numbers, pick) => (Array.isArray(numbers) ? pick(...numbers) : typeof numbers === "number" ? numbers : null);
  const bits = type => Number((type || "").replace(/\D/g, "")) || null;
  const columns = [
    { title: "value", of: row => row.value },
    { title: "type", of: row => row.type },
    { title: "bits", of: row => bits(row.type) },
    { title: "scales", of: row => (Array.isArray(row.scale) ? row.scale.length : 1) },
    { title: "least scale", of: row => of(row.scale, Math.min) },
    { title: "largest scale", of: row => of(row.scale, Math.max) },
    { title: "zero point", of: row => (Array.isArray(row.zero_point) ? "per channel" : row.zero_point) },
    { title: "axis", of: row => row.axis },
    { title: "block", of: row => row.block_size },
  ];
  parts.push(make("h2", {}, "scales"), sortable(columns, found.grids, row => told.value(row)));
  const real = (report.dispatch || []).filter(each => each.place === "floating");
  if (real.length) parts.push(make("h2", {}, "nodes in floating point"), sortable([{ title: "node", of: row => row.name }, { title: "operator", of: row => row.operator }, { title: "reason", of: row => row.reason }], real, row => told.decided(row)));
  return parts;
}

function frontPlot(found) {
  const points = found.front.filter(each => each.latency !== null && each.latency !== undefined);
  if (!points.length) return null;
  const ends = numbers => [Math.min(...numbers), Math.max(...numbers)];
  const [left, right] = ends(points.map(each => each.latency)), [low, high] = ends(points.map(each => each.snr_db));
  const x = latency => 60 + (380 * (latency - left)) / (right - left || 1), y = decibels => 180 - (150 * (decibels - low)) / (high - low || 1);
  const parts = points.flatMap(each => [
    draw("circle", { class: each.point === found.chosen?.point ? "dot chosen" : "dot", cx: x(each.latency), cy: y(each.snr_db), r: 5 }, draw("title", {}, `point ${each.point}: ${each.snr_db.toFixed(2)} dB, ${each.latency.toFixed(3)}×, ${number(each.bytes)} bytes`)),
    draw("text", { class: "axis", x: x(each.latency) + 8, y: y(each.snr_db) + 4 }, `${each.point}: ${each.snr_db.toFixed(1)} dB`),
  ]);
  parts.push(draw("text", { class: "axis", x: 60, y: 212 }, `time relative to the source: ${left.toFixed(2)}× to ${right.toFixed(2)}×; right is slower, up is more accurate`));
  return draw("svg", { class: "plot", viewBox: "0 0 560 220", width: 560, height: 220, role: "img", "aria-label": "Pareto front" }, draw("path", { class: "line", d: "M" + [...points].sort((a, b) => a.latency - b.latency).map(each => `${x(each.latency)} ${y(each.snr_db)}`).join("L") }), ...parts);
}

function findingsPanel(report, told) {
  const parts = (report.notes || []).map(note => make("p", {}, note));
  if (report.proof) {
    parts.push(make("h2", {}, "proof"), make("p", {}, report.proof.sentence));
    parts.push(sortable([{ title: "side", of: row => row.side }, { title: "runtime", of: row => row.runtime }, { title: "version", of: row => row.version }, { title: "native", of: row => (row.is_own ? "yes" : "no") }, { title: "ran", of: row => (row.ran ? "yes" : "no") }, { title: "reason", of: row => row.reason }], report.proof.witnesses, () => {}));
  }
  if (report.diagnostics.length) {
    const place = row => (row.file ? row.file + (row.line ? `:${row.line}:${row.column}` : "") : "");
    parts.push(make("h2", {}, "findings"), sortable([{ title: "severity", of: row => row.severity }, { title: "code", of: row => row.code }, { title: "finding", of: row => row.message }, { title: "place", of: place }, { title: "remedy", of: row => row.help }], report.diagnostics, () => {}));
  }
  if (report.decisions?.length) parts.push(make("h2", {}, "decisions of passes"), sortable([{ title: "pass", of: row => row.by }, { title: "done", of: row => (row.done ? "applied" : "not applied") }, { title: "node", of: row => row.name }, { title: "what", of: row => row.text }], report.decisions, row => told.decided(row)));
  return parts.length ? parts : make("p", {}, "Nothing was found.");
}
