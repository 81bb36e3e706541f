// A table of any length: only visible rows are in the document.
//
// Keys: up, down, page up, page down, home, end; Enter opens. The table keeps the focus and refers to the active row by
// aria-activedescendant, because row elements are reused when scrolling.

import { attribute, h, text } from "./dom.js";

const OVERSCAN = 6; // rows above and below the visible ones
const HOLD_MS = 5000; // rows keep their order for this long after a pointer or key event
let grids = 0;

export class Grid {
  // columns: {key, label, value(row), show?(row) -> text, node?() -> element with set(row), number?, width?, narrow?, rank?, title?}
  // width, narrow: on a wide screen and on a phone. rank: 1 to 3, the screen width below which it is hidden
  // then(one, other): order of equal rows
  constructor({ label, columns, sort, descending = false, open = null, empty = "No rows.", changed = () => {} }) {
    this.id = `grid${++grids}`;
    this.columns = columns;
    this.sortKey = sort;
    this.descending = descending;
    this.open = open;
    this.changed = changed;
    this.rows = [];
    this.shown = [];
    this.filter = null;
    this.active = -1;
    this.activeKey = null;
    this.touched = -Infinity;
    this.pool = [];
    this.first = 0;

    this.heads = columns.map((column) => this.#head(column));
    // One cell without colspan: it would give hidden columns a share of the width.
    this.above = h("tr", { "aria-hidden": "true", class: "pad" }, h("td"));
    this.below = h("tr", { "aria-hidden": "true", class: "pad" }, h("td"));
    this.body = h("tbody", { onclick: (event) => this.#click(event) }, this.above, this.below);
    this.table = h(
      "table",
      {
        role: "grid",
        "aria-label": label,
        tabindex: 0,
        class: open ? "opens" : "",
        onkeydown: (event) => this.#key(event),
        onfocus: () => this.#focus(),
      },
      h("thead", {}, h("tr", { "aria-rowindex": 1 }, this.heads)),
      this.body,
    );
    this.note = h("p", { class: "empty", hidden: true }, empty);
    this.element = h(
      "div",
      { class: "grid", onscroll: () => this.draw(), onpointermove: () => this.#touch() },
      this.table,
      this.note,
    );
    new ResizeObserver(() => this.draw()).observe(this.element);
    this.#headings();
  }

  #head(column) {
    const button = h(
      "button",
      { type: "button", "aria-label": column.label ? null : column.title, onclick: () => this.sort(column.key) },
      column.label,
    );
    const head = h("th", { scope: "col", class: this.#class(column), title: column.title }, button);
    if (column.width) head.style.setProperty("--wide", column.width);
    if (column.narrow) head.style.setProperty("--narrow", column.narrow);
    return head;
  }

  #class(column) {
    return [column.number ? "number" : "", column.rank ? `rank${column.rank}` : "", column.kind ?? ""].join(" ").trim();
  }

  #headings() {
    this.columns.forEach((column, at) =>
      attribute(
        this.heads[at],
        "aria-sort",
        column.key === this.sortKey ? (this.descending ? "descending" : "ascending") : "none",
      ),
    );
  }

  sort(key) {
    if (key === this.sortKey) this.descending = !this.descending;
    else {
      this.sortKey = key;
      this.descending = Boolean(this.columns.find((column) => column.key === key).number);
    }
    this.#headings();
    this.touched = -Infinity;
    this.arrange();
    this.element.scrollTop = 0;
    this.changed();
  }

  empty(words) {
    text(this.note, words);
  }

  put(rows, filter = this.filter) {
    const same = filter === this.filter;
    this.rows = rows;
    this.filter = filter;
    this.arrange(same && performance.now() - this.touched < HOLD_MS);
  }

  // `hold`: shown rows keep their order, new ones come last.
  arrange(hold = false) {
    const rows = this.filter ? this.rows.filter(this.filter) : this.rows.slice();
    const places = hold ? new Map(this.shown.map((row, at) => [row.key, at])) : null;
    if (places) rows.sort((one, other) => (places.get(one.key) ?? Infinity) - (places.get(other.key) ?? Infinity) || 0);
    else this.#order(rows);
    this.shown = rows;
    if (this.activeKey !== null) {
      const at = rows.findIndex((row) => row.key === this.activeKey);
      this.active = at >= 0 ? at : Math.min(this.active, rows.length - 1);
      this.activeKey = this.active >= 0 ? rows[this.active].key : null;
    }
    attribute(this.table, "aria-rowcount", rows.length + 1);
    this.note.hidden = rows.length > 0;
    this.draw();
  }

  #order(rows) {
    const column = this.columns.find((each) => each.key === this.sortKey) ?? this.columns[0];
    const sign = this.descending ? -1 : 1;
    const value = column.order ?? column.value;
    // Unknown values come last in both directions. Equal rows keep their order, unless the column has `then`.
    rows.sort((one, other) => {
      const left = value(one);
      const right = value(other);
      const none = (left === null || left === undefined) - (right === null || right === undefined);
      if (none) return none;
      return left < right ? -sign : left > right ? sign : (column.then?.(one, other) ?? 0);
    });
  }

  get #height() {
    if (!this.rowHeight) this.rowHeight = parseFloat(getComputedStyle(this.element).getPropertyValue("--row")) || 32;
    return this.rowHeight;
  }

  draw() {
    const view = this.element.clientHeight;
    if (!view) return; // hidden
    const height = this.#height;
    const count = this.shown.length;
    const first = Math.max(0, Math.min(Math.floor(this.element.scrollTop / height), count - 1) - OVERSCAN);
    const last = Math.min(count, first + Math.ceil(view / height) + 2 * OVERSCAN);
    while (this.pool.length < last - first) this.pool.push(this.#blank());
    for (let at = this.pool.length - 1; at >= 0; at--) {
      const slot = this.pool[at];
      if (at < last - first) this.#fillRow(slot, first + at);
      else slot.element.remove();
    }
    let before = this.above;
    for (let at = 0; at < last - first; at++) {
      const { element } = this.pool[at];
      if (before.nextSibling !== element) before.after(element);
      before = element;
    }
    this.first = first;
    this.above.hidden = first === 0;
    this.below.hidden = last === count;
    this.above.firstChild.style.height = `${first * height}px`;
    this.below.firstChild.style.height = `${(count - last) * height}px`;
    attribute(
      this.table,
      "aria-activedescendant",
      this.active >= first && this.active < last ? `${this.id}-${this.active}` : null,
    );
  }

  #blank() {
    const nodes = this.columns.map((column) => column.node?.() ?? null);
    const cells = this.columns.map((column, at) =>
      h("td", { class: this.#class(column), role: "gridcell", dir: column.untrusted ? "auto" : null }, nodes[at]),
    );
    return { element: h("tr", { role: "row" }, cells), cells, nodes, at: -1 };
  }

  #fillRow(slot, at) {
    const row = this.shown[at];
    slot.at = at;
    this.columns.forEach((column, index) => {
      if (slot.nodes[index]) slot.nodes[index].setRow(row);
      else {
        const words = String((column.show ?? column.value)(row) ?? "");
        text(slot.cells[index], words);
        if (column.untrusted) attribute(slot.cells[index], "title", words || null);
      }
    });
    attribute(slot.element, "id", `${this.id}-${at}`);
    attribute(slot.element, "aria-rowindex", at + 2);
    attribute(slot.element, "aria-selected", at === this.active ? "true" : "false");
    attribute(slot.element, "data-level", row.level ?? null);
  }

  #touch() {
    this.touched = performance.now();
  }

  #focus() {
    if (this.active < 0 && this.shown.length)
      this.#go(Math.min(this.first ? this.first + OVERSCAN : 0, this.shown.length - 1), false);
  }

  #go(at, follow = true) {
    if (!this.shown.length) return;
    this.active = Math.max(0, Math.min(at, this.shown.length - 1));
    this.activeKey = this.shown[this.active].key;
    if (follow) this.#scrollTo(this.active);
    this.draw();
  }

  #scrollTo(at) {
    const height = this.#height;
    const head = this.table.tHead.offsetHeight;
    const top = at * height;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + height > scrollTop + clientHeight - head)
      this.element.scrollTop = top + height - clientHeight + head;
  }

  #key(event) {
    if (event.target !== this.table || event.altKey || event.ctrlKey || event.metaKey) return;
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.#height) - 2);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in moves) {
      this.#touch();
      const to = this.active + moves[event.key];
      this.#go(this.active < 0 ? 0 : to === -Infinity ? 0 : to === Infinity ? this.shown.length - 1 : to);
    } else if (event.key === "Enter" && this.open && this.active >= 0) this.open(this.shown[this.active]);
    else return;
    event.preventDefault();
  }

  #click(event) {
    const element = event.target.closest("tr[role=row]");
    const slot = this.pool.find((each) => each.element === element);
    if (!slot) return;
    this.#go(slot.at, false);
    if (this.open && !getSelection().toString()) this.open(this.shown[slot.at]);
  }
}

// A cell with a health icon.
export function marked(mark, level) {
  return () => {
    const element = mark("unknown");
    element.setRow = (row) => element.set(level(row));
    return element;
  };
}
