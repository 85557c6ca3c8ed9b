// The view of two traces side by side: their waterfalls on one scale, and what each
// operation took in one and in the other.

import {el, replace, message} from './dom.js';
import {get} from './api.js';
import {Tree} from './tree.js';
import {Waterfall} from './waterfall.js';
import {table} from './table.js';
import {summary} from './trace.js';
import {traceID} from './form.js';
import {chips} from './chips.js';
import {introduce} from './color.js';
import {traceHref, compareHref, searchHref, go} from './route.js';
import {duration, plural, count} from './format.js';
import {titleOf} from './named.js';

// operations are the spans of a trace by service, kind and name: how many, and how
// long they took themselves.
function operations(tree) {
  const all = new Map();
  tree.spans.forEach((span, i) => {
    const service = tree.trace.services[span.service]?.name ?? '';
    const key = JSON.stringify([service, span.kind, span.name]);
    const o = all.get(key) ?? {service, kind: span.kind, name: span.name || 'unnamed', spans: 0, errors: 0, self: 0};
    o.spans++;
    o.errors += span.status === 'error';
    const times = tree.selfTime(i);
    for (let k = 0; k < times.length; k += 2) o.self += times[k + 1] - times[k];
    all.set(key, o);
  });
  return all;
}

function differences(a, b) {
  const [left, right] = [operations(a), operations(b)];
  return [...new Set([...left.keys(), ...right.keys()])].map((key) => {
    const none = {spans: 0, errors: 0, self: 0};
    const [x, y] = [left.get(key) ?? none, right.get(key) ?? none];
    return {...(left.get(key) ?? right.get(key)), a: x, b: y, more: y.self - x.self};
  });
}

const number = (o) => (o.spans ? `${count(o.spans)}${o.errors ? ` (${count(o.errors)} failed)` : ''}` : '–');
const signed = (ns) => (ns === 0 ? '0' : `${ns > 0 ? '+' : '−'}${duration(Math.abs(ns))}`);

function pane(tree, label) {
  const id = tree.trace.trace_id;
  const waterfall = new Waterfall(tree, {opened: (i) => go(traceHref(id, tree.spans[i].id))}, label);
  const box = el('section', {class: 'pane', 'aria-label': `Trace ${label}`},
    el('p', {class: 'pane-label'}, el('b', {}, label), ' ', el('a', {href: traceHref(id)}, 'open')),
    summary(tree.trace, tree, chips(tree.trace.services), 'h2'), el('div', {class: 'pane-chart'}, waterfall.ruler, waterfall.scroller));
  waterfall.scroller.addEventListener('keydown', (event) => {
    if (!event.altKey && !event.ctrlKey && !event.metaKey && waterfall.key(event)) event.preventDefault();
  });
  return {box, waterfall};
}

// showComparison shows the two traces that the address names, or asks for the second.
export function showComparison(root, {query, signal}) {
  document.title = 'Compare – Tare';
  const back = el('div', {class: 'crumbs'}, el('a', {class: 'back', href: searchHref()}, '← Search'));
  const ids = [query.get('a'), query.get('b')].filter(Boolean);
  if (ids.length < 2) {
    const input = el('input', {name: 'b', placeholder: 'paste a trace id', size: 40, 'aria-label': 'Trace id', autocomplete: 'off', spellcheck: 'false'});
    const problem = el('p', {class: 'problem', role: 'alert'});
    replace(root, back, el('h1', {}, 'Compare with which trace?'), el('form', {class: 'compare-with', onsubmit: (event) => {
      event.preventDefault();
      const found = traceID(input.value);
      if (found) go(compareHref(...[...ids, found]));
      else problem.textContent = 'A trace id is 32 hexadecimal digits.';
    }}, input, ' ', el('button', {type: 'submit', class: 'primary'}, 'Compare')), problem,
    el('p', {class: 'dim'}, 'Or choose two in the list of a ', el('a', {href: searchHref()}, 'search'), '.'));
    input.focus();
    return;
  }
  const load = async () => {
    replace(root, back, el('p', {class: 'loading', role: 'status'}, 'Loading the traces …'));
    try {
      const traces = await Promise.all(ids.map((id) => get(`traces/${encodeURIComponent(id)}`, {attributes: 'false'}, signal)));
      show(traces);
    } catch (err) {
      if (err.name === 'AbortError') return;
      replace(root, back, message('error', err.status === 404 ? 'One of the traces is not stored.' : err.message, err.hint ?? '', el('button', {type: 'button', onclick: load}, 'Try again')));
      if (!err.hint && !err.status) throw err; // a bug of the page: show it in the console
    }
  };
  const show = (traces) => {
    introduce([...new Set(traces.flatMap((t) => t.services.map((s) => s.name)))]);
    const trees = traces.map((t) => new Tree(t));
    const length = Math.max(...trees.map((t) => t.length));
    for (const tree of trees) tree.length = length; // one scale for both
    const panes = trees.map((tree, k) => pane(tree, 'AB'[k]));
    const rows = differences(...trees);
    const by = traces[1].duration_ns - traces[0].duration_ns;
    replace(root, back, el('div', {class: 'bar-line'},
      el('h1', {}, by === 0 ? 'Both took equally long' : `B took ${duration(Math.abs(by))} ${by > 0 ? 'longer' : 'less'} than A`),
      el('a', {class: 'button', href: compareHref(ids[1], ids[0])}, 'Swap')),
    el('div', {class: 'panes'}, panes.map((p) => p.box)),
    table(`${plural(rows.length, 'operation')}, by what they took themselves`, [
      {label: 'Operation', value: (r) => `${r.service} ${r.name}`, cell: (r) => [el('b', {}, r.service), ` ${titleOf({name: r.name})} `, el('span', {class: 'dim'}, r.kind)]},
      {label: 'Spans A', number: true, value: (r) => r.a.spans, cell: (r) => number(r.a)},
      {label: 'Spans B', number: true, value: (r) => r.b.spans, cell: (r) => number(r.b)},
      {label: 'Self A', number: true, value: (r) => r.a.self, cell: (r) => duration(r.a.self), tip: 'Time that no span below covers, all spans of the operation together.'},
      {label: 'Self B', number: true, value: (r) => r.b.self, cell: (r) => duration(r.b.self)},
      {label: 'B − A', number: true, value: (r) => Math.abs(r.more), cell: (r) => el('span', {class: r.more > 0 ? 'bad' : ''}, signed(r.more)), tip: 'Sorted by its size, whether longer or shorter.'},
    ], rows, [5, true]));
    for (const {waterfall} of panes) {
      waterfall.measure();
      waterfall.activate(0);
    }
    signal.addEventListener('abort', () => panes.forEach((p) => p.waterfall.close()));
  };
  load();
}
