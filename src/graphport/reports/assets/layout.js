// Places of boxes. Layers, their order and places of folded scopes are computed when the page is made; here they give
// way to scopes that are opened. Each layer keeps its order, and every box stays as near as can be to where it was.
const HEIGHT = 38, PILL = 24, HEADER = 24, PAD = 14, GAP = 14, LAYER_GAP = 26, BEND = 6;

// The places nearest to `wanted` that keep distances of `offsets`: isotonic regression.
function spread(wanted, offsets) {
  const pools = [];
  wanted.forEach((place, index) => {
    let mean = place - offsets[index], entries = 1;
    while (pools.length && pools[pools.length - 1][0] > mean) {
      const [other, more] = pools.pop();
      mean = (mean * entries + other * more) / (entries + more);
      entries += more;
    }
    pools.push([mean, entries]);
  });
  const flat = pools.flatMap(([mean, entries]) => Array(entries).fill(mean));
  return flat.map((mean, index) => mean + offsets[index]);
}

class Arrangement {
  constructor(model, opened) {
    this.model = model;
    this.opened = opened;
    this.boxes = [];
    this.edges = [];
    this.byKey = new Map();
    this.sizes = new Map();
    this.inner = new Map();
    [this.width, this.height] = this.measure(-1);
    this.put(-1, 0, 0);
    for (const scope of opened) this.join(scope);
    this.join(-1);
  }

  measure(scope) {
    const layout = this.model.layouts[scope] || { b: [], l: [], x: [], e: [] };
    let hasOpen = false;
    const sizes = layout.b.map(([kind, index, width]) => {
      if (kind === "s" && this.opened.has(index)) {
        hasOpen = true;
        const [w, h] = this.measure(index);
        return [Math.max(w + 2 * PAD, width), h + 2 * PAD + HEADER];
      }
      return [width, kind === "i" || kind === "o" ? PILL : HEIGHT];
    });
    const wide = entry => (entry < sizes.length ? sizes[entry][0] : BEND);
    const x = layout.x.slice();
    if (hasOpen) {
      for (const layer of layout.l) {
        const offsets = [];
        let reach = 0;
        layer.forEach((entry, index) => {
          if (index) reach += (wide(layer[index - 1]) + wide(entry)) / 2 + GAP;
          offsets.push(reach);
        });
        spread(layer.map(entry => layout.x[entry]), offsets).forEach((place, index) => (x[layer[index]] = place));
      }
    }
    let left = Infinity, right = -Infinity, top = 0;
    x.forEach((place, entry) => {
      left = Math.min(left, place - wide(entry) / 2);
      right = Math.max(right, place + wide(entry) / 2);
    });
    const tops = [], layerOf = [];
    layout.l.forEach((layer, index) => {
      tops.push(top);
      let high = 0;
      for (const entry of layer) {
        layerOf[entry] = index;
        if (entry < sizes.length) high = Math.max(high, sizes[entry][1]);
      }
      top += high + LAYER_GAP;
    });
    this.sizes.set(scope, { layout, sizes, x: x.map(place => place - left), tops, layerOf });
    return [layout.b.length ? right - left : 0, Math.max(top - LAYER_GAP, 0)];
  }

  put(scope, left, top, depth = 0) {
    const { layout, sizes, x, tops, layerOf } = this.sizes.get(scope);
    const at = entry => [left + x[entry], top + tops[layerOf[entry]]];
    layout.b.forEach(([kind, index], entry) => {
      const [middle, y] = at(entry), [w, h] = sizes[entry];
      const isOpen = kind === "s" && this.opened.has(index);
      const box = { key: kind + index, kind, index, x: middle - w / 2, y, w, h, isOpen, depth };
      this.boxes.push(box);
      this.byKey.set(box.key, box);
      if (isOpen) this.put(index, box.x + PAD, y + PAD + HEADER, depth + 1);
    });
    const links = this.model.links.get(scope) || new Map();
    for (const [source, target, bends] of layout.e) {
      const [x0, y0] = at(source), end = at(target);
      const points = [[x0, y0 + sizes[source][1]], ...bends.map(at), end];
      this.edges.push({ points, links: links.get(source + " " + target) || [], depth });
    }
  }

  // Lines from the frame of an opened scope on to the boxes in it that are meant.
  join(scope) {
    for (const [key, links] of this.model.links.get(scope) || []) {
      const [one, other] = key.split(" ").map(Number);
      const layout = this.sizes.get(scope)?.layout;
      if (!layout) return;
      const from = this.byKey.get(layout.b[one][0] + layout.b[one][1]), to = this.byKey.get(layout.b[other][0] + layout.b[other][1]);
      if (!from || !to) continue;
      const seen = new Set();
      for (const link of links) {
        const a = this.seen(link[0]), b = this.seen(link[1]);
        if (a && a !== from && !seen.has(a.key)) {
          seen.add(a.key);
          this.edges.push({ points: [[a.x + a.w / 2, a.y + a.h], [from.x + from.w / 2, from.y + from.h]], links: [link], depth: a.depth, isInner: true });
        }
        if (b && b !== to && !seen.has(">" + b.key)) {
          seen.add(">" + b.key);
          this.edges.push({ points: [[to.x + to.w / 2, to.y], [b.x + b.w / 2, b.y]], links: [link], depth: b.depth, isInner: true });
        }
      }
    }
  }

  // The innermost box that is drawn and holds `key`.
  seen(key) {
    for (;;) {
      if (this.byKey.has(key)) return this.byKey.get(key);
      const place = this.model.place.get(key);
      if (!place || place[0] === -1) return null;
      key = "s" + place[0];
    }
  }
}

const curve = points => {
  let [x, y] = points[0], said = `M${x.toFixed(1)} ${y.toFixed(1)}`;
  for (const [nextX, nextY] of points.slice(1)) {
    const middle = ((y + nextY) / 2).toFixed(1);
    said += `C${x.toFixed(1)} ${middle} ${nextX.toFixed(1)} ${middle} ${nextX.toFixed(1)} ${nextY.toFixed(1)}`;
    [x, y] = [nextX, nextY];
  }
  return said;
};
