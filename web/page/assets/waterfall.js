// The rows of a waterfall. Only the rows in sight exist; their elements are
// used again while scrolling. A bar is one SVG with a path for what children
// cover (light), one for the span's own time (solid) and one for the critical
// path (a line below), however many pieces they have.

import {el, svg, replace, visible} from './dom.js';
import {duration, tick, ticks} from './format.js';
import {color} from './color.js';
import {marksOf, explain} from './marks.js';
import {titleOf} from './named.js';
import {marks as words} from './reasons.js';

const ROW = 26; // px; style.css has the same
const ROW_NARROW = 44;
const SPARE = 8; // rows above and below what is in sight
const BAR = {top: 7, height: 10, critical: 19};
const BAR_NARROW = {top: 4, height: 9, critical: 15};

// rects is a path of rectangles for [from, to, …]; pieces less than a pixel
// apart become one, so that its length is bounded by the width.
export function rects(times, x, width, top, height) {
  let path = '';
  let from;
  let to;
  const put = () => {
    const a = Math.max(-2, from);
    const b = Math.min(width + 2, Math.max(to, from + 1));
    if (b > a) path += `M${a.toFixed(1)} ${top}h${(b - a).toFixed(1)}v${height}h${(a - b).toFixed(1)}z`;
  };
  for (let k = 0; k < times.length; k += 2) {
    const a = x(times[k]);
    const b = x(times[k + 1]);
    if (b < -2 || a > width + 2) continue;
    if (from !== undefined && a - to < 1) {
      to = Math.max(to, b);
      continue;
    }
    if (from !== undefined) put();
    [from, to] = [a, b];
  }
  if (from !== undefined) put();
  return path;
}

export class Waterfall {
  // events: selected(index), toggled(). name: of one of several on a page.
  constructor(tree, events, name = '') {
    this.tree = tree;
    this.name = name;
    this.events = events;
    this.active = 0;
    this.view = [0, tree.length];
    this.matches = undefined; // Set of indices, or none
    this.showCritical = true;
    this.shown = new Map(); // by row
    this.drawing = 0; // counts changes: what was drawn before one is drawn anew
    this.ruler = el('div', {class: 'ruler', 'aria-hidden': true});
    this.backdrop = el('div', {class: 'backdrop', 'aria-hidden': true});
    this.rowsBox = el('div', {class: 'rows', role: 'presentation'});
    this.content = el('div', {class: 'waterfall-content', role: 'presentation'}, this.backdrop, this.rowsBox);
    this.scroller = el('div', {class: 'waterfall', role: 'tree', tabindex: 0, 'aria-label': 'Spans', 'aria-describedby': 'waterfall-help'}, this.content);
    this.scroller.addEventListener('scroll', () => this.schedule(false), {passive: true});
    this.rowsBox.addEventListener('click', (event) => this.clicked(event));
    this.scroller.addEventListener('wheel', (event) => this.wheel(event), {passive: false});
    this.resize = new ResizeObserver(() => {
      this.measure();
      this.schedule();
    });
    this.resize.observe(this.scroller);
    this.resize.observe(this.ruler);
  }

  close() {
    this.resize.disconnect();
    cancelAnimationFrame(this.frame);
    this.closed = true;
  }

  measure() {
    this.narrow = this.scroller.clientWidth < 560;
    this.rowHeight = this.narrow ? ROW_NARROW : ROW;
    this.scroller.classList.toggle('narrow', this.narrow);
    this.ruler.classList.toggle('narrow', this.narrow);
    const names = this.narrow ? 0 : parseFloat(getComputedStyle(this.ruler).paddingLeft);
    this.nameWidth = names;
    this.width = Math.max(40, this.scroller.clientWidth - names - (this.narrow ? 16 : 12));
    this.ruler.style.paddingRight = `${this.scroller.offsetWidth - this.scroller.clientWidth}px`;
    this.axis();
  }

  x(t) {
    return ((t - this.view[0]) / (this.view[1] - this.view[0])) * this.width;
  }

  setView(from, to) {
    const least = Math.min(this.tree.length, 20); // ns
    const length = Math.max(least, Math.min(this.tree.length, to - from));
    const start = Math.max(0, Math.min(this.tree.length - length, from));
    this.view = [start, start + length];
    this.axis();
    this.schedule();
    this.events.zoomed?.(this.view);
  }

  zoom(factor, at = (this.view[0] + this.view[1]) / 2) {
    const [from, to] = this.view;
    this.setView(at - (at - from) * factor, at + (to - at) * factor);
  }

  wheel(event) {
    const whole = this.view[1] - this.view[0] >= this.tree.length;
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      const left = this.scroller.getBoundingClientRect().left + this.nameWidth;
      const share = Math.max(0, Math.min(1, (event.clientX - left) / this.width));
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.view[0] + share * (this.view[1] - this.view[0]));
    } else if (!whole && Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      this.pan(event.deltaX / this.width);
    }
  }

  pan(share) {
    const by = (this.view[1] - this.view[0]) * share;
    this.setView(this.view[0] + by, this.view[1] + by);
  }

  // axis draws what lies behind the rows and above them: ticks and gaps.
  axis() {
    if (!this.width) return;
    const {step, values} = ticks(this.view[0], this.view[1], Math.max(2, Math.floor(this.width / 90)));
    const left = this.nameWidth;
    const marks = values.map((t) => {
      const mark = el('span', {class: `tick${this.x(t) > this.width - 60 ? ' last' : ''}`}, tick(t, step));
      mark.style.left = `${left + this.x(t)}px`;
      return mark;
    });
    const lines = values.map((t) => {
      const line = el('i', {class: 'gridline'});
      line.style.left = `${left + this.x(t)}px`;
      return line;
    });
    const gaps = [];
    for (const [from, to] of this.tree.trace.gaps ?? []) {
      const [a, b] = [Math.max(0, this.x(from)), Math.min(this.width, this.x(to))];
      if (b <= 0 || a >= this.width) continue;
      for (const [list, tip] of [[lines, undefined], [marks, `${words.gap}\n${duration(to - from)}, from ${duration(from)} on`]]) {
        const gap = el('i', {class: 'gap', tip});
        gap.style.left = `${left + a}px`;
        gap.style.width = `${Math.max(2, b - a)}px`;
        list.push(gap);
      }
    }
    replace(this.ruler, marks);
    replace(this.backdrop, lines);
  }

  // schedule draws in the next frame; changed: also what is in sight already.
  schedule(changed = true) {
    if (changed) this.drawing++;
    if (this.frame || this.closed) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = undefined;
      this.draw();
    });
  }

  draw() {
    if (!this.width) this.measure();
    const {rows} = this.tree;
    const height = this.rowHeight;
    this.content.style.height = `${rows.length * height}px`;
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / height) - SPARE);
    const last = Math.min(rows.length, Math.ceil((this.scroller.scrollTop + this.scroller.clientHeight) / height) + SPARE);
    const free = [];
    for (const [at, row] of this.shown) {
      if (at >= first && at < last) continue;
      this.shown.delete(at);
      row.box.remove();
      free.push(row);
    }
    // Elements stand in the order of the rows, as a screen reader meets them.
    let next = this.rowsBox.firstChild;
    for (let at = first; at < last; at++) {
      let row = this.shown.get(at);
      if (row) next = row.box.nextSibling;
      else {
        row = free.pop() ?? this.makeRow();
        this.shown.set(at, row);
        this.rowsBox.insertBefore(row.box, next);
      }
      if (row.drawn !== this.drawing || row.at !== at) this.fill(row, rows[at], at);
    }
    const active = this.tree.rowOf[this.active];
    if (active >= first && active < last) this.scroller.setAttribute('aria-activedescendant', `row-${this.name}${this.active}`);
    else this.scroller.removeAttribute('aria-activedescendant');
  }

  makeRow() {
    const row = {
      twisty: el('span', {class: 'twisty', 'aria-hidden': true}),
      dot: el('i', {class: 'dot', 'aria-hidden': true}),
      marks: el('span', {class: 'marks'}),
      service: el('b', {}),
      name: el('span', {class: 'op'}),
      light: svg('path', {class: 'bar-light'}),
      self: svg('path', {class: 'bar-self'}),
      critical: svg('path', {class: 'bar-critical'}),
      label: el('span', {class: 'bar-label'}),
    };
    row.chart = svg('svg', {class: 'bar-chart', 'aria-hidden': true}, row.light, row.self, row.critical);
    row.names = el('div', {class: 'names'}, row.twisty, row.dot, row.marks, el('span', {class: 'words'}, row.service, ' ', row.name));
    row.box = el('div', {class: 'row', role: 'treeitem'}, row.names, el('div', {class: 'time'}, row.chart, row.label));
    return row;
  }

  fill(row, i, at) {
    const {tree} = this;
    const span = tree.spans[i];
    const service = tree.trace.services[span.service]?.name ?? 'unknown service';
    const {box} = row;
    row.drawn = this.drawing;
    row.at = at;
    const bar = this.narrow ? BAR_NARROW : BAR;
    const found = marksOf(span);
    box.id = `row-${this.name}${i}`;
    box.dataset.index = i;
    box.style.transform = `translateY(${at * this.rowHeight}px)`;
    box.className = `row${i === this.active ? ' active' : ''}${span.status === 'error' ? ' failed' : ''}${this.matches ? (this.matches.has(i) ? ' match' : ' other') : ''}`;
    box.setAttribute('aria-level', span.depth + 1);
    box.setAttribute('aria-setsize', tree.siblings(i));
    box.setAttribute('aria-posinset', tree.position[i]);
    box.setAttribute('aria-selected', String(i === this.active));
    box.setAttribute('aria-label', visible([service, titleOf(span), span.kind, duration(span.duration_ns), ...found.map((m) => m.word)].join(', ')));
    if (tree.children[i]) box.setAttribute('aria-expanded', String(!tree.collapsed[i]));
    else box.removeAttribute('aria-expanded');
    row.names.style.paddingLeft = `${Math.min(span.depth, this.narrow ? 8 : 24) * (this.narrow ? 8 : 14) + 4}px`;
    const hidden = tree.collapsed[i] ? tree.after[i] - i - 1 : 0;
    row.twisty.textContent = !tree.children[i] ? '' : tree.collapsed[i] ? '▸' : '▾';
    row.dot.style.background = color(service);
    row.service.textContent = visible(service);
    // A client span and its server span often have the same name; the arrow marks the former.
    const out = span.kind === 'client' || span.kind === 'producer';
    row.name.textContent = visible(`${out ? '→ ' : ''}${titleOf(span)}${hidden ? ` (+${hidden})` : ''}`);
    row.names.dataset.tip = `${service}\n${titleOf(span)}${out ? ` (${span.kind})` : ''}${hidden ? `\n${hidden} spans below are collapsed` : ''}`;
    if (row.marks.childElementCount || found.length) {
      replace(row.marks, found.map((m) => el('span', {class: `mark ${m.cls}`, tip: explain(m, span)}, m.symbol)));
    }
    const x = (t) => this.x(t);
    const end = span.start_ns + span.duration_ns;
    row.chart.style.color = color(service);
    row.light.setAttribute('d', rects([span.start_ns, end], x, this.width, bar.top, bar.height));
    row.self.setAttribute('d', rects(tree.selfTime(i), x, this.width, bar.top, bar.height));
    row.critical.setAttribute('d', this.showCritical ? rects((span.critical ?? []).flat(), x, this.width, bar.critical, 2) : '');
    this.placeLabel(row.label, span, x(span.start_ns), x(end));
  }

  // placeLabel puts a bar's duration after it, or before it, or on its end.
  placeLabel(label, span, a, b) {
    label.textContent = duration(span.duration_ns);
    const need = label.textContent.length * 7 + 8;
    const [from, to] = [Math.max(0, a), Math.min(this.width, Math.max(b, a + 1))];
    let left = to + 5;
    let cls = 'bar-label';
    if (b < 0) [left, label.textContent] = [2, `◂ ${label.textContent}`];
    else if (a > this.width) [left, label.textContent] = [this.width - need - 12, `${label.textContent} ▸`];
    else if (to + need <= this.width) left = to + 5;
    else if (from - need >= 0) left = from - need;
    else [left, cls] = [to - need, 'bar-label on'];
    label.className = cls;
    label.style.transform = `translateX(${left.toFixed(1)}px)`;
  }

  clicked(event) {
    const box = event.target.closest('.row');
    if (!box) return;
    const i = Number(box.dataset.index);
    if (event.target.closest('.twisty') && this.tree.children[i]) {
      this.activate(i, false);
      this.toggle(i, !this.tree.collapsed[i]);
      return;
    }
    this.activate(i, false);
    this.events.opened(i);
  }

  toggle(i, collapsed) {
    if (!this.tree.setCollapsed(i, collapsed)) return false;
    this.schedule();
    return true;
  }

  // activate makes a span the current one, and brings it into sight.
  activate(i, reveal = true) {
    if (i < 0 || i >= this.tree.spans.length) return;
    if (reveal) this.tree.reveal(i);
    this.active = i;
    if (!this.rowHeight) this.measure();
    const top = this.tree.rowOf[i] * this.rowHeight;
    const {scrollTop, clientHeight} = this.scroller;
    // The content must be as high as it will be before it can scroll there.
    this.content.style.height = `${this.tree.rows.length * this.rowHeight}px`;
    if (top < scrollTop) this.scroller.scrollTop = reveal ? Math.max(0, top - this.rowHeight) : top;
    else if (top + this.rowHeight > scrollTop + clientHeight) this.scroller.scrollTop = top + this.rowHeight * (reveal ? 2 : 1) - clientHeight;
    this.schedule();
    this.events.activated?.(i);
  }

  // key handles a key of the tree; false: not one of them.
  key(event) {
    const {tree, active} = this;
    const row = tree.rowOf[active];
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / this.rowHeight) - 1);
    const to = (r) => this.activate(tree.rows[Math.max(0, Math.min(tree.rows.length - 1, r))], false);
    switch (event.key) {
      case 'ArrowDown': to(row + 1); break;
      case 'ArrowUp': to(row - 1); break;
      case 'PageDown': to(row + page); break;
      case 'PageUp': to(row - page); break;
      case 'Home': to(0); break;
      case 'End': to(tree.rows.length - 1); break;
      case 'ArrowRight':
        if (event.shiftKey) this.pan(0.2);
        else if (!this.toggle(active, false) && tree.children[active]) to(row + 1);
        break;
      case 'ArrowLeft':
        if (event.shiftKey) this.pan(-0.2);
        else if (!this.toggle(active, true)) {
          let above = tree.parent[active];
          while (above >= 0 && tree.rowOf[above] < 0) above = tree.parent[above]; // filtered
          this.activate(above, false);
        }
        break;
      case 'Enter':
      case ' ': this.events.opened(active); break;
      default: return false;
    }
    return true;
  }
}
