// What is known of one node, scope, input or output.
function pairsTable(rows) {
  return make("table", { class: "pairs" }, make("tbody", {}, rows.filter(row => row && row[1] !== undefined && row[1] !== null && row[1] !== "").map(([name, said]) => make("tr", {}, make("th", {}, name), make("td", {}, said)))));
}

function histogram(found) {
  const counts = found.histogram;
  if (!counts) return null;
  const most = Math.max(...counts), wide = 220 / counts.length;
  const bars = counts.map((count, index) => draw("rect", { class: "bar", x: (index * wide).toFixed(1), y: (44 - (44 * count) / most).toFixed(1), width: (wide - 1).toFixed(1), height: ((44 * count) / most).toFixed(1) }));
  const title = draw("title", {}, `${counts.length} bins from ${number(found.min)} to ${number(found.max)}`);
  return draw("svg", { class: "histogram", viewBox: "0 0 220 44", width: 220, height: 44, role: "img" }, title, ...bars);
}

function statisticsOf(found) {
  if (!found || found.min === undefined) return null;
  const parts = [`${number(found.min)} … ${number(found.max)}`, `mean ${number(found.mean)}`];
  if (found.std !== undefined) parts.push(`σ ${number(found.std)}`);
  if (found.zeros) parts.push(`${(100 * found.zeros).toFixed(1)} % zeros`);
  if (found.not_finite) parts.push(`${found.not_finite} not finite`);
  if (found.sampled) parts.push(`of ${number(found.sampled)} elements`);
  return make("div", { class: "statistics" }, histogram(found), make("div", { class: "small" }, parts.join(", ")));
}

const attributeText = said => (typeof said === "string" ? said : said && typeof said === "object" && !Array.isArray(said) ? (said.tensor ? said.tensor + (said.numbers ? " = " + said.numbers.join(", ") : "") : `graph ${said.graph}`) : JSON.stringify(said));

class Card {
  constructor(report, pane, told) {
    this.report = report;
    this.pane = pane;
    this.told = told;
  }

  show(view, key) {
    const parts = !key ? this.model(view.model) : key[0] === "n" ? this.node(view, Number(key.slice(1))) : key[0] === "s" ? this.scope(view, Number(key.slice(1))) : this.end(view, key);
    this.pane.replaceChildren(...parts.filter(Boolean));
    this.pane.scrollTop = 0;
  }

  model(model) {
    const found = model.inspection;
    const ends = (name, of) => of.map(index => [name, `${model.values[index].name}: ${model.values[index].type || "?"} ${shapeOf(model.values[index])}`]);
    const versions = Object.entries(model.versions).map(([name, version]) => `${name} ${version}`).join(", ");
    const operators = Object.entries(found.operators).map(([name, count]) => make("tr", {}, make("td", {}, name), make("td", { class: "number" }, number(count)), make("td", { class: "number" }, number(found.macs_by_operator[name]))));
    return [
      make("h2", {}, model.file || model.graphs[0].name),
      pairsTable([["format", [model.format, versions && ` (${versions})`]], ["parameters", `${number(found.parameters)} in ${size(found.bytes)}`], ["MACs", number(found.macs)], ["activations", found.activations && `${size(found.activations.peak_bytes)} at ${found.activations.node}`], ...ends("input", model.graphs[0].inputs), ...ends("output", model.graphs[0].outputs)]),
      make("table", { class: "plain" }, make("thead", {}, make("tr", {}, ...["operator", "nodes", "MACs"].map(text => make("th", {}, text)))), make("tbody", {}, operators)),
    ];
  }

  valueLine(view, index) {
    const { model } = view, value = model.values[index], maker = model.maker.get(index);
    const isLink = maker !== undefined && !model.constants.has(maker);
    const name = isLink ? make("button", { class: "link", type: "button", on: { click: () => view.reveal("n" + maker) } }, value.name) : make("span", {}, value.name);
    const facts = ` ${value.type || "?"} ${shapeOf(value)}`;
    const inner = maker !== undefined && model.constants.has(maker) ? Object.values(model.nodes[maker].attributes)[0] : value;
    const numbers = inner.numbers ? make("div", { class: "small" }, `= ${inner.numbers.join(", ")}`) : null;
    const weight = value.bytes ? make("span", { class: "small" }, ` ${size(value.bytes)}`) : null;
    return make("li", {}, name, make("span", { class: "fact" }, facts), weight, numbers, statisticsOf(value.statistics), this.grid(view, index));
  }

  grid(view, index) {
    const row = (this.report.quantization?.grids || []).find(each => each["ab"[view.model.side]] === index);
    if (!row) return null;
    const scale = Array.isArray(row.scale) ? `${row.scale.length} scales along axis ${row.axis}, ${number(Math.min(...row.scale))} to ${number(Math.max(...row.scale))}` : `scale ${number(row.scale)}`;
    return make("div", { class: "small" }, `grid: ${row.type}, ${scale}, zero point ${Array.isArray(row.zero_point) ? "per channel" : row.zero_point}`);
  }

  errorLine(error) {
    const verdict = error.passed ? (error.max_abs ? "equal within tolerance" : "equal") : error.reason || "differs";
    return make("div", { class: "difference" }, make("span", { class: `swatch snr${grade(error)}` }), `${verdict}: SNR ${error.snr_db === null ? (error.passed ? "∞" : "none") : error.snr_db.toFixed(2) + " dB"}, max |a−b| ${number(error.max_abs)}, cosine ${number(error.cosine)}`, error.first ? `, first at [${error.first.join(", ")}]` : "");
  }

  node(view, index) {
    const { model } = view, node = model.nodes[index];
    const error = model.errorOf(index);
    const letter = model.side ? "other" : "node";
    const decided = (this.report.dispatch || []).filter(each => each[letter] === index);
    const decisions = (this.report.decisions || []).filter(each => each[letter] === index);
    const findings = this.report.diagnostics.filter(each => (node.line && each.line === node.line) || (node.name && each.message.includes(node.name)));
    const times = this.report.times?.[index];
    return [
      make("h2", {}, make("span", { class: `swatch family f${Math.max(model.families.indexOf(node.family), 0) % 8}` }), node.op),
      make("div", { class: "name" }, model.label(index)),
      pairsTable([
        ["scope", model.scopePath(node.scope)],
        ["family", node.family],
        ["MACs", number(node.macs)],
        ["activations", node.live_bytes && size(node.live_bytes)],
        ["time", times && `${number(times)} µs`],
        ["origin", node.origin],
        ...decided.map(each => ["computed", `${each.place}: ${each.reason}`]),
      ]),
      node.excerpt ? make("pre", { class: "excerpt" }, `${String(node.line).padStart(4)} | ${node.excerpt}`) : null,
      error ? this.errorLine(error) : null,
      this.partner(view, index),
      ...findings.map(each => make("div", { class: `finding ${each.severity}` }, `${each.severity}[${each.code}] ${each.message}`)),
      make("h3", {}, "operands"),
      make("ol", {}, node.inputs.map(value => (value === null ? make("li", { class: "small" }, "absent") : this.valueLine(view, value)))),
      make("h3", {}, "results"),
      make("ol", {}, node.outputs.filter(value => value !== null).map(value => this.valueLine(view, value))),
      node.attributes ? make("h3", {}, "attributes") : null,
      node.attributes ? pairsTable(Object.entries(node.attributes).map(([name, said]) => [name, attributeText(said)])) : null,
      decisions.length ? make("h3", {}, "decisions") : null,
      ...decisions.map(each => make("div", { class: "small" }, `${each.by} ${each.done ? "" : "left it alone: "}${each.text}`)),
      this.readers(view, node),
    ];
  }

  readers(view, node) {
    const readers = [...new Set(node.outputs.flatMap(value => view.model.readers.get(value) || []))];
    if (!readers.length) return null;
    const some = readers.slice(0, 20).map(index => make("li", {}, make("button", { class: "link", type: "button", on: { click: () => view.reveal("n" + index) } }, `${view.model.nodes[index].op} ${view.model.label(index)}`)));
    return make("div", {}, make("h3", {}, "read by"), make("ul", {}, some));
  }

  partner(view, index) {
    const key = this.told.partner(view, "n" + index);
    if (!key) return null;
    const other = this.told.views[1 - view.model.side];
    return make("div", {}, "corresponds to ", make("button", { class: "link", type: "button", on: { click: () => other.reveal(key) } }, `${other.model.nodes[Number(key.slice(1))].op} ${other.model.label(Number(key.slice(1)))}`), ` in ${other.model.file || "the other model"}`);
  }

  scope(view, index) {
    const { model } = view, scope = model.scopes[index], counts = new Map();
    model.nodes.forEach(node => {
      if (!node.constant && model.around(node.scope).includes(index)) counts.set(node.op, (counts.get(node.op) || 0) + 1);
    });
    const worst = model.worst.get(index);
    const toggle = make("button", { type: "button", on: { click: () => view.toggle(index) } }, view.opened.has(index) ? "fold" : "open");
    return [
      make("h2", {}, scope.name),
      pairsTable([["kind", scope.kind], ["path", model.scopePath(index)], ["nodes", model.counts[index]]]),
      toggle,
      worst ? make("h3", {}, "worst value inside") : null,
      worst ? make("button", { class: "link", type: "button", on: { click: () => this.told.reveal(worst) } }, worst.name) : null,
      worst ? this.errorLine(worst) : null,
      make("h3", {}, "operators"),
      pairsTable([...counts].sort((a, b) => b[1] - a[1])),
    ];
  }

  end(view, key) {
    const { model } = view, index = Number(key.slice(1));
    const value = key[0] === "i" ? index : model.graphs[0].outputs[index];
    const error = model.errors.get(value);
    return [make("h2", {}, model.values[value].name), make("div", { class: "name" }, key[0] === "i" ? "input" : "output"), make("ul", {}, this.valueLine(view, value)), error ? this.errorLine(error) : null];
  }
}
