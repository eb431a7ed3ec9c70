// A pane with one model: pan, zoom, fold, select. Only what lies in or near the pane is in the page, and where boxes are
// too small to be read they are drawn together, so that 5,000 of them move like 50.
const READABLE = 0.42, MOST_SINGLE = 700, DOT = 1.6;

class View {
  constructor(model, pane, told) {
    this.model = model;
    this.pane = pane;
    this.told = told;
    this.opened = new Set();
    this.selected = null;
    this.marked = new Set();
    this.scale = 1;
    this.left = this.top = 0;
    this.canvas = draw("svg", { class: "graph", tabindex: "0", role: "application", "aria-label": `graph of ${model.file || "the model"}: arrow keys follow edges, Enter opens and folds` });
    this.root = this.canvas.appendChild(draw("g"));
    pane.append(this.canvas);
    this.listen();
  }

  start(most = 120) {
    let seen = (this.model.layouts[-1] || { b: [] }).b.length, level = [-1];
    while (level.length) {
      const inner = level.flatMap(scope => (this.model.layouts[scope] || { b: [] }).b.filter(([kind]) => kind === "s").map(([, index]) => index));
      inner.sort((a, b) => this.model.layouts[a].b.length - this.model.layouts[b].b.length);
      level = inner.filter(scope => {
        const more = this.model.layouts[scope].b.length - 1;
        if (seen + more > most) return false;
        seen += more;
        this.opened.add(scope);
        return true;
      });
    }
    this.arrange();
    this.begin();
  }

  arrange() {
    this.drawing = new Arrangement(this.model, this.opened);
    this.shown = null;
    this.schedule();
  }

  toggle(scope, isOpen = !this.opened.has(scope)) {
    const before = this.drawing.byKey.get("s" + scope);
    isOpen ? this.opened.add(scope) : this.opened.delete(scope);
    this.arrange();
    const after = this.drawing.byKey.get("s" + scope);
    if (before && after) {
      // The box that was clicked stays below the pointer.
      this.left += (before.x + before.w / 2 - after.x - after.w / 2) * this.scale;
      this.top += (before.y - after.y) * this.scale;
    }
  }

  openAll(isOpen) {
    this.opened = new Set(isOpen ? this.model.scopes.keys() : []);
    this.arrange();
    this.begin();
  }

  get room() {
    return [this.canvas.clientWidth || 800, this.canvas.clientHeight || 600];
  }

  fit() {
    const [width, height] = this.room;
    this.scale = Math.min(1.2, (width - 24) / Math.max(this.drawing.width, 1), (height - 24) / Math.max(this.drawing.height, 1));
    this.left = (width - this.drawing.width * this.scale) / 2;
    this.top = Math.max(12, (height - this.drawing.height * this.scale) / 2);
    this.schedule();
  }

  // The beginning of the network at a size that can be read.
  begin() {
    this.fit();
    if (this.scale >= 0.6) return;
    const first = this.drawing.boxes[0], [width] = this.room;
    this.scale = Math.min(1, Math.max(0.75, (width - 24) / Math.max(this.drawing.width, 1)));
    this.left = width / 2 - (first ? first.x + first.w / 2 : 0) * this.scale;
    this.top = 16 - (first ? first.y : 0) * this.scale;
    this.schedule();
  }

  zoom(factor, x, y) {
    const [width, height] = this.room;
    x ??= width / 2;
    y ??= height / 2;
    const scale = Math.min(4, Math.max(0.004, this.scale * factor));
    this.left = x - ((x - this.left) * scale) / this.scale;
    this.top = y - ((y - this.top) * scale) / this.scale;
    this.scale = scale;
    this.schedule();
  }

  center(box) {
    const [width, height] = this.room;
    if (this.scale < 0.7) this.scale = 0.9;
    this.left = width / 2 - (box.x + box.w / 2) * this.scale;
    this.top = height / 2 - (box.y + Math.min(box.h, 60) / 2) * this.scale;
    this.schedule();
  }

  // Open what is around a box, and select it.
  reveal(key) {
    const place = this.model.place.get(key);
    if (!place) return;
    const hidden = this.model.around(place[0]).filter(scope => !this.opened.has(scope));
    if (hidden.length) {
      hidden.forEach(scope => this.opened.add(scope));
      this.arrange();
    }
    this.select(key);
    const box = this.drawing.byKey.get(key);
    if (box) this.center(box);
  }

  select(key, isTold = true) {
    this.selected = key;
    this.shown = null;
    this.schedule();
    if (isTold) this.told.select(this, key);
  }

  mark(keys) {
    this.marked = new Set(keys);
    this.shown = null;
    this.schedule();
  }

  listen() {
    let held = null;
    this.canvas.addEventListener("pointerdown", event => {
      if (event.button) return;
      held = { x: event.clientX, y: event.clientY, left: this.left, top: this.top, hasMoved: false, target: event.target };
    });
    this.canvas.addEventListener("pointermove", event => {
      if (!held) return;
      const dx = event.clientX - held.x, dy = event.clientY - held.y;
      if (!held.hasMoved && Math.hypot(dx, dy) < 4) return;
      if (!held.hasMoved) this.canvas.setPointerCapture(event.pointerId);
      held.hasMoved = true;
      this.left = held.left + dx;
      this.top = held.top + dy;
      this.schedule();
    });
    this.canvas.addEventListener("pointerup", event => {
      const was = held;
      held = null;
      if (!was || was.hasMoved) return;
      const box = this.at(event);
      this.canvas.focus({ preventScroll: true });
      if (!box) return this.select(null);
      if (box.kind === "s" && (box.isOpen ? event.detail > 1 || this.isHeader(box, event) : true)) this.toggle(box.index);
      this.select(box.key);
    });
    this.canvas.addEventListener("pointercancel", () => (held = null));
    this.canvas.addEventListener("wheel", event => {
      event.preventDefault();
      const frame = this.canvas.getBoundingClientRect();
      if (event.ctrlKey || event.metaKey || !event.shiftKey) this.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), event.clientX - frame.left, event.clientY - frame.top);
      else {
        this.left -= event.deltaX || event.deltaY;
        this.schedule();
      }
    }, { passive: false });
    this.canvas.addEventListener("keydown", event => this.key(event));
    new ResizeObserver(() => {
      this.shown = null;
      this.schedule();
    }).observe(this.pane);
  }

  inner(event) {
    const frame = this.canvas.getBoundingClientRect();
    return [(event.clientX - frame.left - this.left) / this.scale, (event.clientY - frame.top - this.top) / this.scale];
  }

  isHeader(box, event) {
    return this.inner(event)[1] < box.y + HEADER + 4;
  }

  // The innermost box below the pointer.
  at(event) {
    const [x, y] = this.inner(event);
    let found = null;
    for (const box of this.drawing.boxes) {
      if (x >= box.x && x <= box.x + box.w && y >= box.y && y <= box.y + box.h && (!found || box.depth > found.depth)) found = box;
    }
    return found;
  }

  key(event) {
    const moves = { ArrowDown: 1, ArrowUp: -1, ArrowRight: 2, ArrowLeft: -2 };
    if (event.key === "Enter" || event.key === " ") {
      if (this.selected?.[0] === "s") this.toggle(Number(this.selected.slice(1)));
    } else if (event.key in moves) this.step(moves[event.key]);
    else if (event.key === "+" || event.key === "=") this.zoom(1.25);
    else if (event.key === "-") this.zoom(0.8);
    else if (event.key === "0") this.fit();
    else if (event.key === "Escape") this.select(null);
    else return;
    event.preventDefault();
  }

  // Follow an edge down or up, or go to the next box of the scope.
  step(direction) {
    const drawing = this.drawing, boxes = drawing.boxes;
    if (!boxes.length) return;
    const box = drawing.byKey.get(this.selected);
    if (!box) return this.go(boxes[0]);
    if (Math.abs(direction) === 2) {
      const inside = boxes.filter(each => each.depth === box.depth && Math.abs(each.y - box.y) < 1).sort((a, b) => a.x - b.x);
      const next = inside[inside.indexOf(box) + Math.sign(direction)];
      return next && this.go(next);
    }
    for (const links of this.model.links.values()) {
      for (const each of links.values()) {
        for (const [source, target] of each) {
          const a = drawing.seen(source), b = drawing.seen(target);
          if (a === b) continue;
          if (direction === 1 && a === box && b) return this.go(b);
          if (direction === -1 && b === box && a) return this.go(a);
        }
      }
    }
  }

  go(box) {
    this.select(box.key);
    this.center(box);
  }

  // Drawing

  schedule() {
    if (this.isAwaited) return;
    this.isAwaited = true;
    requestAnimationFrame(() => {
      this.isAwaited = false;
      this.render();
    });
  }

  render(isWhole = false) {
    this.root.setAttribute("transform", `translate(${this.left} ${this.top}) scale(${this.scale})`);
    const [width, height] = this.room;
    const view = [-this.left / this.scale, -this.top / this.scale, (width - this.left) / this.scale, (height - this.top) / this.scale];
    const isReadable = this.scale >= READABLE;
    const was = this.shown;
    if (!isWhole && was && was.isReadable === isReadable && view[0] >= was.view[0] && view[1] >= was.view[1] && view[2] <= was.view[2] && view[3] <= was.view[3] && this.scale < was.scale * 2.5) return;
    const mx = (view[2] - view[0]) * 0.5, my = (view[3] - view[1]) * 0.5;
    const near = isWhole ? [-Infinity, -Infinity, Infinity, Infinity] : [view[0] - mx, view[1] - my, view[2] + mx, view[3] + my];
    this.shown = { view: near, isReadable, scale: this.scale };
    // What is no larger than a dot is left to the part around it.
    const least = isWhole ? 0 : DOT / this.scale;
    const boxes = this.drawing.boxes.filter(b => b.h >= least && b.x <= near[2] && b.x + b.w >= near[0] && b.y <= near[3] && b.y + b.h >= near[1]);
    const edges = this.drawing.edges.filter(edge => {
      const [a, b] = [edge.points[0], edge.points[edge.points.length - 1]];
      if (Math.abs(b[1] - a[1]) < least) return false;
      return Math.min(a[1], b[1]) <= near[3] && Math.max(a[1], b[1]) >= near[1] && edge.points.some(([x]) => x >= near[0] - 400 && x <= near[2] + 400);
    });
    const isSingle = isWhole || (isReadable && boxes.length <= MOST_SINGLE);
    this.root.replaceChildren(...(isSingle ? this.single(boxes, edges) : this.together(boxes, edges)));
  }

  colorClass(box) {
    if (box.kind === "i" || box.kind === "o") return "pill";
    const error = box.kind === "n" ? this.model.errorOf(box.index) : this.model.worst.get(box.index);
    if (error && !box.isOpen) return `box snr${grade(error)}`;
    return box.kind === "s" ? (box.isOpen ? "scope" : "box folded") : "box";
  }

  familyClass(index) {
    return `family f${Math.max(this.model.families.indexOf(this.model.nodes[index].family), 0) % 8}`;
  }

  // A path for all boxes of a colour, and one for all edges.
  together(boxes, edges) {
    const paths = new Map();
    for (const box of boxes) {
      let name = this.colorClass(box);
      if (name === "box" && box.kind === "n") name = this.familyClass(box.index);
      if (!paths.has(name)) paths.set(name, []);
      paths.get(name).push(`M${box.x.toFixed(0)} ${box.y.toFixed(0)}h${box.w.toFixed(0)}v${box.h.toFixed(0)}h${-box.w.toFixed(0)}z`);
    }
    const lines = edges.map(({ points }) => "M" + points.map(([x, y]) => `${x.toFixed(0)} ${y.toFixed(0)}`).join("L"));
    const order = [...paths].sort(([a], [b]) => (b === "scope") - (a === "scope"));
    const found = order.map(([name, said]) => draw("path", { class: name, d: said.join("") }));
    found.push(draw("path", { class: "edge", d: lines.join("") }));
    const box = this.drawing.byKey.get(this.selected);
    if (box) found.push(draw("rect", { class: "box chosen", x: box.x, y: box.y, width: box.w, height: box.h }));
    return found;
  }

  single(boxes, edges) {
    const found = [];
    const scopes = boxes.filter(box => box.isOpen).sort((a, b) => a.depth - b.depth);
    for (const box of scopes) found.push(this.group(box));
    for (const edge of edges) {
      const isNear = edge.links.some(([source, target]) => source === this.selected || target === this.selected);
      const path = draw("path", { class: `edge${edge.isInner ? " inner" : ""}${isNear ? " near" : ""}`, d: curve(edge.points) });
      path.append(draw("title", {}, edge.links.slice(0, 8).map(([, , value]) => this.valueText(value)).join("\n")));
      found.push(path);
    }
    for (const box of boxes) if (!box.isOpen) found.push(this.group(box));
    return found;
  }

  valueText(index) {
    const value = this.model.values[index];
    return `${value.name}: ${value.type || "?"} ${shapeOf(value)}`;
  }

  group(box) {
    const { model } = this, isNode = box.kind === "n";
    const title = isNode ? model.nodes[box.index].op : box.kind === "s" ? model.scopes[box.index].name : model.values[box.kind === "i" ? box.index : model.graphs[0].outputs[box.index]].name;
    let label = isNode ? model.label(box.index) : box.kind === "s" ? `${model.counts[box.index]} nodes` : "";
    const error = isNode ? model.errorOf(box.index) : box.kind === "s" ? model.worst.get(box.index) : null;
    if (error && !box.isOpen && !(error.passed && error.snr_db === null)) label = error.snr_db === null ? error.reason || "differs" : `${error.snr_db.toFixed(1)} dB`;
    const group = draw("g", { class: "item", "data-key": box.key });
    const isChosen = this.selected === box.key, isMarked = this.marked.has(box.key);
    const name = `${this.colorClass(box)}${isChosen ? " chosen" : ""}${isMarked ? " marked" : ""}`;
    group.append(draw("rect", { class: name, x: box.x, y: box.y, width: box.w, height: box.h, rx: box.kind === "n" || box.kind === "s" ? 4 : 12 }));
    if (box.isOpen) group.append(draw("text", { class: "title frame", x: box.x + 8, y: box.y + 17 }, shortened(title)));
    else {
      const middle = box.x + box.w / 2 + (isNode ? 2 : 0), dark = error && grade(error) >= 3 ? " light" : error ? " dark" : "";
      if (isNode) group.append(draw("rect", { class: this.familyClass(box.index), x: box.x, y: box.y, width: 5, height: box.h }));
      group.append(draw("text", { class: `title${dark}`, x: middle, y: box.y + 16 }, shortened(title)));
      if (label) group.append(draw("text", { class: `label${dark}`, x: middle, y: box.y + 31 }, shortened(label)));
    }
    group.append(draw("title", {}, label && label !== title ? `${title}\n${isNode ? model.label(box.index) : label}` : title));
    return group;
  }
}
