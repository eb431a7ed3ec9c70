// The page: panes, tabs, search, keys.
class Page {
  constructor(report) {
    this.report = report;
    this.graph = document.getElementById("graph");
    this.models = report.models.map((_, side) => new Model(report, side));
    this.views = this.models.map(model => {
      const pane = make("section", { class: "pane" });
      if (this.models.length > 1) pane.append(make("h2", { class: "pane-title" }, `${"AB"[model.side]}: ${model.file || "model"}`));
      this.graph.append(pane);
      return new View(model, pane, this);
    });
    this.card = new Card(report, document.getElementById("card"), this);
    this.pairs = [new Map(report.pairs || []), new Map((report.pairs || []).map(([a, b]) => [b, a]))];
    document.title = `${report.title} – graphport`;
    document.getElementById("title").textContent = report.title;
    this.theme();
    this.tabs();
    this.search();
    this.buttons();
    this.legend();
    this.views.forEach(view => view.start(this.views.length > 1 ? 80 : 120));
    this.card.show(this.views[0], null);
    document.addEventListener("keydown", event => {
      if (event.key !== "/" || /INPUT|TEXTAREA/.test(document.activeElement?.tagName || "")) return;
      event.preventDefault();
      this.field.focus();
    });
    addEventListener("beforeprint", () => this.views.forEach(view => this.print(view)));
    addEventListener("afterprint", () => this.views.forEach(view => this.printed(view)));
    if (report.first) this.reveal(report.errors[report.first[0]], false);
    document.body.dataset.ready = "yes";
  }

  // The box of the other model that corresponds to `key`.
  partner(view, key) {
    if (!key || this.views.length < 2) return null;
    const { model } = view, index = Number(key.slice(1)), other = this.models[1 - model.side];
    if (key[0] === "n") {
      for (const value of model.nodes[index].outputs) {
        const made = other.maker.get(this.pairs[model.side].get(value));
        if (made !== undefined) return "n" + made;
      }
      return null;
    }
    if (key[0] === "i") {
      const found = this.pairs[model.side].get(index);
      return found === undefined ? null : "i" + found;
    }
    return key[0] === "o" ? key : null;
  }

  select(view, key) {
    this.card.show(view, key);
    if (this.views.length < 2) return;
    const other = this.views[1 - view.model.side], partner = this.partner(view, key);
    view.mark([]);
    other.mark(partner ? [partner] : []);
    if (!partner) return other.select(null, false);
    const hidden = other.model.around((other.model.place.get(partner) || [-1])[0]).filter(scope => !other.opened.has(scope));
    if (hidden.length) {
      hidden.forEach(scope => other.opened.add(scope));
      other.arrange();
    }
    const box = other.drawing.byKey.get(partner);
    if (box) other.center(box);
  }

  open(view, key) {
    this.show("graph");
    view.reveal(key);
  }

  // The node that computes the value of a difference.
  reveal(error, isShown = true) {
    if (isShown) this.show("graph");
    const maker = this.models[0].maker.get(error.a);
    if (maker !== undefined) this.views[0].reveal("n" + maker);
  }

  named(name) {
    for (const view of this.views) {
      const index = view.model.nodes.findIndex((node, each) => view.model.label(each) === name);
      if (index >= 0) return this.open(view, "n" + index);
    }
  }

  value(row) {
    for (const [side, letter] of ["b", "a"].entries()) {
      const view = this.views[1 - side] || this.views[0], value = row[letter];
      if (value === null || value === undefined || !view || view.model.side !== 1 - side) continue;
      const maker = view.model.maker.get(value) ?? (view.model.readers.get(value) || [])[0];
      if (maker !== undefined && !view.model.constants.has(maker)) return this.open(view, "n" + maker);
    }
  }

  decided(row) {
    if (row.node !== null && row.node !== undefined) return this.open(this.views[0], "n" + row.node);
    if (row.other !== null && row.other !== undefined && this.views[1]) this.open(this.views[1], "n" + row.other);
  }

  tabs() {
    const bar = document.getElementById("tabs");
    this.panels = { graph: this.graph };
    const names = { graph: "Graph", table: "Table" };
    if (this.report.errors || this.report.notes) names.error = "Error";
    if (this.report.quantization) names.quantization = "Quantization";
    names.findings = `Findings (${this.report.diagnostics.length})`;
    this.buttonsOf = {};
    for (const [name, title] of Object.entries(names)) {
      this.buttonsOf[name] = bar.appendChild(make("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-selected": String(name === "graph"), on: { click: () => this.show(name) } }, title));
    }
  }

  // Panels are made when they are first looked at.
  show(name) {
    const made = { table: () => this.views.map(view => [this.views.length > 1 ? make("h2", {}, view.model.file || "model") : null, nodeTable(view, this)]), error: () => errorPlot(this.report, this), quantization: () => quantizationPanel(this.report, this), findings: () => findingsPanel(this.report, this) };
    if (!this.panels[name]) {
      this.panels[name] = make("section", { class: `panel ${name}`, role: "tabpanel" }, made[name]());
      document.getElementById("main").insertBefore(this.panels[name], document.getElementById("card"));
    }
    for (const [other, panel] of Object.entries(this.panels)) panel.hidden = other !== name;
    for (const [other, button] of Object.entries(this.buttonsOf)) button.setAttribute("aria-selected", other === name);
    document.getElementById("card").hidden = name !== "graph";
    document.getElementById("legend").hidden = name !== "graph";
    this.shown = name;
    if (name === "table") this.filter();
  }

  filter() {
    for (const pane of this.panels.table?.querySelectorAll(".rows") || []) pane.filter(this.field.value);
  }

  search() {
    this.field = document.getElementById("search");
    const list = document.getElementById("found");
    this.index = this.views.flatMap(view => [...view.model.nodes.keys()].filter(index => !view.model.constants.has(index)).map(index => {
      const node = view.model.nodes[index], first = node.outputs.find(value => value !== null);
      const shape = first === undefined || !view.model.values[first].shape ? "" : shapeOf(view.model.values[first]);
      return { view, key: "n" + index, text: `${node.op} ${view.model.label(index)}`, shape, hay: `${node.op} ${view.model.label(index)} ${node.name} ${shape} ${shape.replaceAll("×", "x")} ${node.outputs.map(value => (value === null ? "" : view.model.values[value].name)).join(" ")}`.toLowerCase() };
    }));
    let at = -1, hits = [];
    const mark = () => [...list.children].forEach((item, index) => item.setAttribute("aria-selected", index === at));
    const choose = hit => {
      list.hidden = true;
      this.open(hit.view, hit.key);
    };
    const find = () => {
      const words = this.field.value.toLowerCase().split(/\s+/).filter(Boolean);
      hits = words.length ? this.index.filter(each => words.every(word => each.hay.includes(word))) : [];
      at = -1;
      list.hidden = !hits.length || this.shown === "table";
      list.replaceChildren(...hits.slice(0, 50).map(hit => make("li", { role: "option", on: { pointerdown: event => (event.preventDefault(), choose(hit)) } }, this.views.length > 1 ? `${"AB"[hit.view.model.side]} ` : "", hit.text, make("span", { class: "fact" }, ` ${hit.shape}`))));
      document.getElementById("hits").textContent = words.length ? `${hits.length} found` : "";
      this.views.forEach(view => view.mark(words.length && hits.length < 2000 ? hits.filter(hit => hit.view === view).map(hit => hit.key) : []));
      if (this.shown === "table") this.filter();
    };
    this.field.addEventListener("input", find);
    this.field.addEventListener("focus", find);
    this.field.addEventListener("blur", () => (list.hidden = true));
    this.field.addEventListener("keydown", event => {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        at = Math.max(0, Math.min(list.children.length - 1, at + (event.key === "ArrowDown" ? 1 : -1)));
        mark();
        list.children[at]?.scrollIntoView({ block: "nearest" });
      } else if (event.key === "Enter" && hits.length) choose(hits[Math.max(at, 0)]);
      else if (event.key === "Escape") this.field.blur();
      else return;
      event.preventDefault();
    });
  }

  buttons() {
    const on = (id, run) => document.getElementById(id).addEventListener("click", run);
    on("open-all", () => this.views.forEach(view => view.openAll(true)));
    on("fold-all", () => this.views.forEach(view => view.openAll(false)));
    on("fit", () => this.views.forEach(view => view.fit()));
    on("zoom-in", () => this.views.forEach(view => view.zoom(1.25)));
    on("zoom-out", () => this.views.forEach(view => view.zoom(0.8)));
    on("theme", () => {
      const next = { auto: "light", light: "dark", dark: "auto" };
      this.theme(next[document.documentElement.dataset.theme]);
    });
    on("print", () => print());
  }

  theme(name = "auto") {
    document.documentElement.dataset.theme = name;
    document.getElementById("theme").textContent = { auto: "◐ auto", light: "☀ light", dark: "☾ dark" }[name];
  }

  legend() {
    const legend = document.getElementById("legend");
    if (this.report.errors) GRADE_NAMES.forEach((name, index) => legend.append(make("span", {}, make("span", { class: `swatch snr${index}` }), name)));
    const families = [...new Set(this.models.flatMap(model => model.families))];
    families.slice(0, 8).forEach((name, index) => legend.append(make("span", {}, make("span", { class: `swatch family f${index}` }), name)));
    this.models.forEach(model => (model.families = families));
  }

  print(view) {
    view.kept = [view.scale, view.left, view.top];
    view.canvas.setAttribute("viewBox", `-10 -10 ${view.drawing.width + 20} ${view.drawing.height + 20}`);
    [view.scale, view.left, view.top] = [1, 0, 0];
    view.render(true);
  }

  printed(view) {
    [view.scale, view.left, view.top] = view.kept;
    view.canvas.removeAttribute("viewBox");
    view.shown = null;
    view.schedule();
  }
}

readData().then(report => (window.page = new Page(report)), error => {
  document.getElementById("title").textContent = `this page cannot be read here: ${error}`;
});
