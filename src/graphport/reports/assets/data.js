"use strict";
// The document of the page, and small things that every other part uses. Texts of the document reach the page as text
// nodes and attributes only, never as markup.
const SVG = "http://www.w3.org/2000/svg";

function make(tag, attributes = {}, ...children) {
  const found = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") for (const [event, run] of Object.entries(value)) found.addEventListener(event, run);
    else if (value !== undefined && value !== null && value !== false) found.setAttribute(name, value === true ? "" : value);
  }
  found.append(...children.flat(9).filter(child => child !== null && child !== undefined && child !== false));
  return found;
}

function draw(tag, attributes = {}, ...children) {
  const found = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined && value !== null) found.setAttribute(name, value);
  found.append(...children);
  return found;
}

async function readData() {
  const element = document.getElementById("data");
  const text = element.textContent;
  if (element.dataset.coding !== "gzip") return JSON.parse(text);
  const bytes = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

const number = value => {
  if (value === null || value === undefined) return "";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  return String(Number(value.toPrecision(6)));
};
const size = count => {
  for (const [unit, name] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) if (count >= unit) return `${(count / unit).toFixed(1)} ${name}`;
  return `${count} bytes`;
};
const shapeOf = value => (value.shape ? value.shape.join("×") || "scalar" : "?");
const shortened = text => (text.length <= 32 ? text : "…" + text.slice(-31));

// Decibels from which on a value has a colour, the darker the worse; colours come from the stylesheet's variables.
const GRADES = [[60, 0], [40, 1], [20, 2], [10, 3], [-Infinity, 4]];
const GRADE_NAMES = ["60 dB or more, or equal", "40 to 60 dB", "20 to 40 dB", "10 to 20 dB", "below 10 dB, or of another type"];
const grade = error => {
  if (error.snr_db === null) return error.passed ? 0 : 4;
  return GRADES.find(([least]) => error.snr_db >= least)[1];
};
const worse = (a, b) => (!b ? a : !a ? b : (a.snr_db ?? (a.passed ? 1e9 : -1e9)) <= (b.snr_db ?? (b.passed ? 1e9 : -1e9)) ? a : b);

// One model of the document with what is looked up in it: who makes and who reads a value, the differences by node.
class Model {
  constructor(report, side) {
    this.side = side;
    Object.assign(this, report.models[side]);
    this.layouts = report.layouts[side];
    this.maker = new Map();
    this.readers = new Map();
    this.constants = new Set();
    this.nodes.forEach((node, index) => {
      if (node.constant) this.constants.add(index);
      for (const value of node.outputs) if (value !== null) this.maker.set(value, index);
      for (const value of new Set(node.inputs)) {
        if (value === null) continue;
        if (!this.readers.has(value)) this.readers.set(value, []);
        this.readers.get(value).push(index);
      }
    });
    const letter = "ab"[side];
    this.errors = new Map((report.errors || []).map(error => [error[letter], error]));
    this.families = [...new Set(this.nodes.map(node => node.family).filter(Boolean))];
    this.place = new Map();
    for (const [scope, layout] of Object.entries(this.layouts)) {
      layout.b.forEach(([kind, index], entry) => this.place.set(kind + index, [Number(scope), entry]));
    }
    this.counts = this.scopes.map(() => 0);
    this.worst = new Map();
    this.nodes.forEach((node, index) => {
      const own = this.errorOf(index);
      for (let scope = node.scope; scope !== undefined; scope = this.scopes[scope].parent) {
        this.counts[scope] += node.constant ? 0 : 1;
        if (own) this.worst.set(scope, worse(this.worst.get(scope), own));
      }
    });
    this.links = this.findLinks();
  }

  // Who makes each value that is drawn, who reads it, and the value.
  *allLinks() {
    const makers = new Map(this.graphs[0].inputs.map(value => [value, "i" + value]));
    this.nodes.forEach((node, index) => {
      if (!node.constant) for (const value of node.outputs) if (value !== null) makers.set(value, "n" + index);
    });
    for (let index = 0; index < this.nodes.length; index++) {
      if (this.constants.has(index)) continue;
      for (const value of new Set(this.nodes[index].inputs)) if (makers.has(value)) yield [makers.get(value), "n" + index, value];
    }
    for (const body of this.graphs.slice(1)) {
      for (const value of new Set(body.outputs)) if (makers.has(value)) yield [makers.get(value), "n" + body.node, value];
    }
    for (const [position, value] of this.graphs[0].outputs.entries()) if (makers.has(value)) yield [makers.get(value), "o" + position, value];
  }

  // Links by the scope where both sides meet, and there by the boxes that hold them.
  findLinks() {
    const found = new Map();
    for (const link of this.allLinks()) {
      const [scope, one, other] = this.meeting(link[0], link[1]);
      if (one === other) continue;
      if (!found.has(scope)) found.set(scope, new Map());
      const key = one + " " + other, inner = found.get(scope);
      if (!inner.has(key)) inner.set(key, []);
      inner.get(key).push(link);
    }
    return found;
  }

  meeting(source, target) {
    const above = new Map();
    let [scope, box] = this.place.get(source);
    above.set(scope, box);
    while (scope !== -1) {
      [scope, box] = this.place.get("s" + scope);
      above.set(scope, box);
    }
    [scope, box] = this.place.get(target);
    while (!above.has(scope)) [scope, box] = this.place.get("s" + scope);
    return [scope, above.get(scope), box];
  }

  label(index) {
    const node = this.nodes[index];
    if (node.name) return node.name;
    const first = node.outputs.find(value => value !== null);
    return first === undefined ? "" : this.values[first].name;
  }

  errorOf(index) {
    let found;
    for (const value of this.nodes[index].outputs) if (this.errors.has(value)) found = worse(found, this.errors.get(value));
    return found;
  }

  scopePath(scope) {
    const parts = [];
    for (; scope !== undefined; scope = this.scopes[scope].parent) parts.unshift(this.scopes[scope].name);
    return parts.join(" / ");
  }

  around(scope) {
    const found = [];
    for (; scope !== undefined && scope !== -1; scope = this.scopes[scope].parent) found.unshift(scope);
    return found;
  }
}
