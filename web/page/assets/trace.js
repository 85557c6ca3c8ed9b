// The view of one trace.

import {el, replace, message, toggle, say, visible} from './dom.js';
import {get, otlpPath} from './api.js';
import {Tree} from './tree.js';
import {Waterfall} from './waterfall.js';
import {minimap} from './minimap.js';
import {details} from './details.js';
import {openHelp} from './keys.js';
import {kinds, counted, meaning} from './marks.js';
import {pickers} from './chips.js';
import {href, traceHref, compareHref, searchHref, rewrite} from './route.js';
import {introduce} from './color.js';
import {duration, time, utc, plural, count} from './format.js';
import {keptBadges, stateBadge} from './state.js';
import {named, titleOf} from './named.js';

const PAUSE = 60; // ms
const SEARCHED = 5000; // spans: up to here, finding looks into attributes, too

// copyable is an id with a button that copies it.
function copyable(id) {
  const text = el('code', {class: 'trace-id'}, id);
  const button = el('button', {type: 'button', class: 'quiet copy', onclick: async () => {
    try {
      await navigator.clipboard.writeText(id);
      button.textContent = 'Copied';
      say('The trace id was copied');
    } catch { // not allowed: the reader copies what is selected
      getSelection().selectAllChildren(text);
      button.textContent = 'Selected';
    }
    setTimeout(() => { button.textContent = 'Copy'; }, 2000);
  }, 'aria-label': 'Copy the trace id'}, 'Copy');
  return el('span', {class: 'id-box'}, text, button);
}

// cutBadge says what of the trace is stored and did not fit into the answer.
function cutBadge(cut) {
  const parts = [
    cut?.spans ? `${plural(cut.spans, 'span')} left out` : '',
    cut?.bare_spans ? `${plural(cut.bare_spans, 'span')} without attributes` : '',
    cut?.fields ? `${plural(cut.fields, 'attribute')} left out` : '',
    cut?.texts ? `${plural(cut.texts, 'long text')} cut` : '',
  ].filter(Boolean);
  if (!parts.length) return '';
  return el('span', {class: 'badge', tip: 'They are stored, and too much for one answer. Its limit follows the memory limit of the process.'}, `too large: ${parts.join(', ')}`);
}

export function summary(trace, tree, services, heading = 'h1') {
  const top = trace.spans[0];
  const errors = trace.spans.reduce((n, s) => n + (s.status === 'error'), 0);
  const facts = [
    el('time', {datetime: trace.start, tip: utc(trace.start)}, time(trace.start)),
    el('span', {}, duration(trace.duration_ns)), el('span', {}, plural(tree.spans.length, 'span')),
    errors ? el('span', {class: 'badge bad'}, plural(errors, 'error')) : '',
    trace.logs?.length ? el('span', {tip: 'In the details of their spans'}, plural(trace.logs.length, 'log record')) : '',
    stateBadge(trace),
    trace.hidden_spans ? el('span', {class: 'badge', tip: 'They are of services that you may not see.'}, `${plural(trace.hidden_spans, 'span')} left out`) : '',
    trace.damaged ? el('span', {class: 'badge bad', tip: trace.damaged}, 'damaged: some of its spans cannot be read') : '',
    cutBadge(trace.cut),
    keptBadges(trace),
  ];
  return el('div', {class: 'trace-head'},
    el(heading, {class: 'trace-title'}, el('b', {}, trace.services[top?.service]?.name ?? ''), ' ', el('span', {class: 'trace-op'}, named(top ?? {}))),
    el('div', {class: 'trace-facts'}, facts, copyable(trace.trace_id), services));
}

// showTrace shows the trace whose id the address names.
export function showTrace(root, {id, query, signal}) {
  document.title = 'Trace – Tare';
  const load = async () => {
    replace(root, el('p', {class: 'loading', role: 'status'}, 'Loading the trace …'));
    try {
      const trace = await get(`traces/${encodeURIComponent(id ?? '')}`, {attributes: 'false'}, signal);
      if (!trace.spans?.length) throw Object.assign(new Error('This trace has no spans.'), {hint: 'It may just be expiring.'});
      show(root, trace, {query, signal});
    } catch (err) {
      if (err.name === 'AbortError') return;
      replace(root, message('error', err.status === 404 ? 'This trace is not stored.' : err.message, err.hint ?? '',
        el('p', {class: 'actions'}, el('button', {type: 'button', onclick: load}, 'Try again'), ' ', el('a', {href: searchHref()}, 'Back to the search'))));
      if (!err.hint && !err.status) throw err; // a bug of the page: show it in the console
    }
  };
  load();
}

function show(root, trace, {query, signal}) {
  introduce(trace.services.map((s) => s.name));
  const tree = new Tree(trace);
  const top = trace.spans[0];
  document.title = visible(`${trace.services[top.service]?.name ?? ''} ${titleOf(top)} – Tare`);
  const id = trace.trace_id;
  let full; // promise of the trace with attributes, once something asks for it
  let fullSpans;

  const panel = el('aside', {class: 'details', 'aria-labelledby': 'details-title', hidden: true});
  let asking; // AbortController of the details being loaded; selecting another span aborts them
  const loadSpan = async (i) => {
    asking?.abort();
    if (fullSpans) return fullSpans[i];
    const mine = new AbortController();
    asking = mine;
    // While the reader moves fast through the rows, no details are loaded.
    await new Promise((resolve) => { setTimeout(resolve, PAUSE); });
    const until = AbortSignal.any([signal, mine.signal]);
    until.throwIfAborted();
    const span = tree.spans[i];
    let n = 0; // of the spans with this id, which one
    for (let j = 0; j < i; j++) n += tree.spans[j].id === span.id;
    return get(`traces/${id}/spans/${encodeURIComponent(span.id)}`, {n: n || ''}, until);
  };
  const close = () => {
    if (panel.hidden) return;
    panel.hidden = true;
    rewrite(traceHref(id));
    waterfall.scroller.focus();
  };
  const open = (i) => {
    panel.hidden = false;
    panel.scrollTop = 0;
    rewrite(traceHref(id, tree.spans[i].id));
    details(panel, tree, i, {load: loadSpan, close, mapHref: (service) => href('traces', {service})});
  };

  const services = pickers(trace.services, (name) => {
    const number = trace.services.findIndex((s) => s.name === name);
    const only = new Set(tree.only);
    if (!only.delete(number)) only.add(number);
    tree.filter(only);
    waterfall.activate(tree.rowOf[waterfall.active] < 0 ? tree.rows[0] : waterfall.active, false);
    say(`${plural(tree.rows.length, 'row')}`);
  });
  const showFilter = () => {
    for (const button of services.children) button.setAttribute('aria-pressed', String(Boolean(tree.only?.has(trace.services.findIndex((s) => s.name === button.dataset.service)))));
  };
  const waterfall = new Waterfall(tree, {
    opened: open,
    activated: (i) => {
      showFilter(); // a span that was searched may have ended it
      if (!panel.hidden) open(i);
    },
    zoomed: (view) => {
      map.show(view);
      zoomOut.hidden = view[1] - view[0] >= tree.length;
    },
  });
  const map = minimap(tree, (view) => waterfall.setView(...(view ?? waterfall.view)));

  const critical = toggle('Critical path', true, (on) => {
    waterfall.showCritical = on;
    waterfall.schedule();
  }, {tip: 'The line below the bars: what the trace’s duration consists of.'});

  // Finding.
  let found = [];
  const foundCount = el('span', {class: 'found', role: 'status'});
  const find = el('input', {type: 'search', class: 'find-input', placeholder: 'Find in trace', 'aria-label': 'Find in this trace', autocomplete: 'off', spellcheck: 'false'});
  const attributesOf = (i) => fullSpans?.[i]?.attributes;
  const search = () => {
    found = tree.find(find.value, attributesOf);
    waterfall.matches = find.value.trim() ? new Set(found) : undefined;
    foundCount.textContent = find.value.trim() ? (found.length ? plural(found.length, 'match', 'matches') : 'no match') : '';
    waterfall.schedule();
  };
  const step = (list, by) => {
    if (!list.length) return;
    const at = waterfall.active;
    let k = by > 0 ? list.findIndex((i) => i > at) : list.findLastIndex((i) => i < at);
    if (k < 0) k = by > 0 ? 0 : list.length - 1;
    waterfall.activate(list[k]);
    if (list === found) foundCount.textContent = `${count(k + 1)} of ${count(list.length)}`;
  };
  let typing;
  find.addEventListener('input', () => {
    clearTimeout(typing);
    if (tree.spans.length <= SEARCHED) search();
    else typing = setTimeout(search, 150); // ms: a pass over 100,000 spans is felt at each key
    if (!full && find.value && tree.spans.length <= SEARCHED) {
      full = get(`traces/${id}`, {}, signal).then((answer) => {
        // Spans that came meanwhile would move the indices.
        if (answer.spans.length === tree.spans.length) fullSpans = answer.spans;
        search();
      }).catch(() => { full = undefined; });
    }
  });
  find.addEventListener('keydown', (event) => {
    if (event.key === 'Enter') {
      event.preventDefault();
      step(found, event.shiftKey ? -1 : 1);
    } else if (event.key === 'Escape') {
      event.stopPropagation();
      find.value = '';
      search();
      waterfall.scroller.focus();
    }
  });

  // What is marked, each kind as a button that goes to the next one.
  const marked = kinds.map((kind) => ({kind, list: tree.spans.flatMap((s, i) => (kind.of(s) ? [i] : []))})).filter((m) => m.list.length);
  const errors = marked.find((m) => m.kind.key === 'error')?.list ?? [];
  const marks = marked.map(({kind, list}) => el('button', {type: 'button', class: `mark-button ${kind.cls}`, tip: `${meaning(kind)}\nGo to the next one.`, onclick: () => step(list, 1)},
    el('span', {'aria-hidden': true}, kind.symbol), counted(kind, list.length)));
  const gaps = trace.gaps?.length ? el('span', {class: 'mark-button note', tip: 'No span covers these times; they are hatched.'}, el('span', {'aria-hidden': true}, '▨'), plural(trace.gaps.length, 'gap')) : '';

  const collapse = toggle('Collapse', false, (on) => {
    tree.collapseAll(on ? 1 : Infinity);
    if (tree.rowOf[waterfall.active] < 0) waterfall.active = 0;
    waterfall.activate(waterfall.active, false);
    say(`${plural(tree.rows.length, 'row')}`);
  }, {tip: 'Shows the first two levels only.'});
  const zoomOut = el('button', {type: 'button', class: 'toggle', hidden: true, onclick: () => waterfall.setView(0, tree.length), tip: 'Show the whole trace (0)'}, 'Whole trace');
  const toolbar = el('div', {class: 'toolbar', role: 'toolbar', 'aria-label': 'Waterfall'}, el('span', {class: 'find-box'}, find, foundCount), critical, collapse, zoomOut, marks, gaps,
    el('span', {class: 'grow'}),
    el('a', {class: 'button', href: compareHref(id)}, 'Compare …'), el('a', {class: 'button', href: otlpPath(id), download: `${id}.json`}, 'OTLP JSON'),
    el('button', {type: 'button', class: 'quiet', onclick: openHelp, 'aria-label': 'Keys and marks'}, '?'));

  const split = splitter(waterfall);
  const chart = el('div', {class: 'chart'}, map.box, el('div', {class: 'ruler-box'}, waterfall.ruler, split), waterfall.scroller,
    el('p', {id: 'waterfall-help', class: 'offscreen'}, 'Arrow keys move, left and right collapse and expand, Enter opens the details, question mark shows all keys.'));
  const body = el('div', {class: 'trace-body'}, chart, panel);
  replace(root, el('div', {class: 'crumbs'}, el('a', {class: 'back', href: searchHref()}, '← Search')), summary(trace, tree, services), toolbar, body);
  map.draw();
  map.show(waterfall.view);

  const redraw = new ResizeObserver(() => map.draw());
  redraw.observe(map.box);
  const onKey = (event) => {
    if (event.target.closest?.('input, select, textarea, dialog') || event.altKey || event.ctrlKey || event.metaKey) return;
    const inTree = event.target === waterfall.scroller;
    const keys = {
      '?': openHelp, '/': () => find.focus(), Escape: close, n: () => step(errors, 1), c: () => critical.click(),
      '+': () => waterfall.zoom(0.5), '=': () => waterfall.zoom(0.5), '-': () => waterfall.zoom(2), 0: () => waterfall.setView(0, tree.length),
    };
    const isBody = event.target === document.body || event.target === root;
    if (Object.hasOwn(keys, event.key)) {
      keys[event.key]();
      event.preventDefault();
    } else if ((inTree || (isBody && event.key !== ' ')) && waterfall.key(event)) {
      if (isBody) waterfall.scroller.focus();
      event.preventDefault();
    }
  };
  const onTheme = () => map.draw();
  document.addEventListener('keydown', onKey);
  document.addEventListener('themechange', onTheme);
  signal.addEventListener('abort', () => {
    waterfall.close();
    redraw.disconnect();
    document.removeEventListener('keydown', onKey);
    document.removeEventListener('themechange', onTheme);
  });

  waterfall.measure();
  const asked = query.get('span') ? tree.spans.findIndex((s) => s.id === query.get('span')) : -1;
  waterfall.activate(Math.max(0, asked));
  if (asked >= 0) open(asked);
  waterfall.scroller.focus({preventScroll: true});
  say(`Trace with ${plural(tree.spans.length, 'span')}, ${duration(trace.duration_ns)}`);
}

// splitter changes how wide the names are: by drag, or with the arrow keys.
function splitter(waterfall) {
  const root = document.documentElement;
  const set = (share, keep) => {
    const s = Math.max(15, Math.min(75, share));
    root.style.setProperty('--names', `${s}%`);
    handle.setAttribute('aria-valuenow', Math.round(s));
    waterfall.measure();
    waterfall.schedule();
    if (!keep) return;
    try {
      localStorage.setItem('tare.names', String(s));
    } catch {
      // The width holds until the page is closed.
    }
  };
  const handle = el('div', {class: 'splitter', role: 'separator', tabindex: 0, 'aria-orientation': 'vertical', 'aria-label': 'Width of the names', 'aria-valuemin': 15, 'aria-valuemax': 75, 'aria-valuenow': 36});
  handle.addEventListener('pointerdown', (event) => {
    handle.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  handle.addEventListener('pointermove', (event) => {
    if (!handle.hasPointerCapture(event.pointerId)) return;
    const r = handle.parentElement.getBoundingClientRect();
    set(((event.clientX - r.left) / r.width) * 100, true);
  });
  handle.addEventListener('keydown', (event) => {
    const by = {ArrowLeft: -2, ArrowRight: 2}[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    set(Number(handle.getAttribute('aria-valuenow')) + by, true);
  });
  try {
    const kept = Number(localStorage.getItem('tare.names'));
    if (kept) setTimeout(() => set(kept));
  } catch {
    // As it is in the style.
  }
  return handle;
}
