// The view that says what makes the slowest traces of a search slow.

import {el, add, replace, message, say} from './dom.js';
import {get} from './api.js';
import {conditionsOf} from './form.js';
import {table} from './table.js';
import {href, go, traceHref, withQuery} from './route.js';
import {color} from './color.js';
import {count, duration, plural} from './format.js';

const shares = [['0.01', 'slowest 1%'], ['0.02', 'slowest 2%'], ['0.05', 'slowest 5%'], ['0.1', 'slowest 10%']];
const SHARE = '0.02';
const ROWS = 10; // operations before "more"

// diagnoseHref leads from a search to its diagnosis, searchHref back.
export const diagnoseHref = (query) => href('diagnose', withQuery(query));
const searchHref = (query) => href('traces', withQuery(query, {share: undefined}));

const share = (x) => `${Math.abs(x) < 0.0005 ? '0' : (x * 100).toFixed(Math.abs(x) < 0.1 ? 1 : 0)}%`.replace('-', '−');
const signed = (ns) => (Math.abs(ns) < 0.5 ? duration(0) : `${ns < 0 ? '−' : '+'}${duration(Math.abs(ns))}`);
const range = (i, text) => `${text(i.lo)} to ${text(i.hi)}`;

function nameOf(row) {
  const text = row.kind === 'between' ? `between ${row.from} and ${row.service}` : row.service;
  const dot = el('i', {class: 'dot', 'aria-hidden': true});
  dot.style.background = row.kind === 'own' ? color(row.service) : 'var(--strong-line)';
  return [dot, ' ', el('b', {}, text), row.operation ? ` ${row.operation}` : ''];
}

const roles = {
  cause: () => el('span', {class: 'badge bad'}, 'slow'),
  waits: () => el('span', {class: 'badge', tip: 'It takes longer only because what it calls does.'}, 'only waits'),
};
const kinds = {
  peer: (row) => el('span', {class: 'badge', tip: `As ${row.from} measured it.`}, 'sends no spans'),
  between: () => el('span', {class: 'badge', tip: 'Sent and not yet received: the network, or queues at either end.'}, 'network, queues'),
};

// bar shows a share of all that slow traces are slower by, and its interval as a line.
function bar({value, lo, hi}) {
  const place = (x) => Math.min(100, Math.max(0, x * 100));
  const fill = el('i', {class: 'bar-fill'});
  fill.style.width = `${place(value)}%`;
  const line = el('i', {class: 'bar-interval'});
  line.style.left = `${place(lo)}%`;
  line.style.width = `${Math.max(0, place(hi) - place(lo))}%`;
  return el('span', {class: 'interval-bar', 'aria-hidden': true}, fill, line);
}

const examples = (label, ids) => (ids?.length ? el('span', {class: 'examples'}, label, ' ',
  ids.map((id, k) => [k ? ', ' : '', el('a', {href: traceHref(id), 'aria-label': `trace ${id}`}, el('code', {}, id.slice(-8)))])) : '');

function operation(row) {
  const facts = [
    `itself ${duration(row.normal_ns)} → ${duration(row.slow_ns)}`,
    `${signed(row.excess_ns.value)} (${range(row.excess_ns, signed)})`,
    row.kind === 'own' && Math.abs(row.waits_ns) >= 1e3 ? `waits ${signed(row.waits_ns)}` : '',
    row.spans_slow > 1.2 * row.spans_normal || row.spans_slow < 0.8 * row.spans_normal
      ? `${row.spans_normal.toFixed(1)} → ${row.spans_slow.toFixed(1)} times a request` : '',
  ].filter(Boolean);
  return el('li', {class: `operation ${row.role ?? ''}`},
    el('div', {class: 'operation-name'}, nameOf(row), ' ', roles[row.role]?.() ?? '', ' ', kinds[row.kind]?.(row) ?? '',
      row.unlinked ? el('span', {class: 'badge warn', tip: 'What it calls is not linked to its requests, so it may also wait.'}, 'calls not linked') : ''),
    bar(row.explains),
    el('div', {class: 'operation-share'}, el('b', {}, share(row.explains.value)), el('span', {class: 'dim'}, ` ${range(row.explains, share)}`)),
    el('div', {class: 'operation-facts'}, facts.map((f) => el('span', {}, f)), examples('slow:', row.examples)));
}

const part = (p, what) => `${plural(p.traces, `${what} trace`)} of ${duration(p.from_ns)} to ${duration(p.to_ns)}`;

function entry(e, slowest) {
  const verdict = e.verdict;
  const box = el('div', {class: `verdict ${verdict.status === 'found' ? 'found' : verdict.status === 'cannot_tell' ? 'warn' : 'good'}`},
    el('p', {class: 'verdict-text'}, verdict.text),
    verdict.notes.length ? el('ul', {class: 'verdict-notes'}, verdict.notes.map((n) => el('li', {}, n))) : '');
  const section = el('section', {class: 'card diagnosis'}, el('h2', {}, `${e.service} ${e.operation}`.trim()),
    el('p', {class: 'note'}, plural(e.traces, 'trace'), e.requests > 1.005 * e.traces ? ` of about ${count(e.requests)} requests` : '',
      e.incomplete ? `, ${plural(e.incomplete, 'incomplete one')} left out` : '',
      e.operations.length ? `; ${part(e.slow, 'slow')} (${slowest}), mean ${duration(e.slow.mean_ns)}, against ${part(e.normal, 'normal')} (the middle half), mean ${duration(e.normal.mean_ns)}` : ''),
    box);
  if (!e.operations.length) return section;
  const list = el('ol', {class: 'ranked'}, e.operations.slice(0, ROWS).map(operation));
  add(section, el('h3', {}, 'What slow traces are slower by'),
    el('p', {class: 'note'}, 'The time of each operation itself on the critical path, as a share of the difference between slow and normal traces, with 95% intervals. More than 100%: it hides what ran beside it.'),
    list);
  if (e.operations.length > ROWS) {
    add(section, el('button', {type: 'button', onclick: (event) => {
      event.currentTarget.remove();
      add(list, e.operations.slice(ROWS).map(operation));
    }}, `${count(e.operations.length - ROWS)} more`));
  }
  add(section, el('p', {class: 'note'}, examples('To compare with, normal traces:', e.examples)));
  if (e.tails.length) {
    add(section, el('details', {class: 'tails'}, el('summary', {}, 'Heavy tails by operation'),
      el('p', {class: 'note'}, 'Of all spans, waited for or not. A heavy tail that explains nothing is one that nobody waits for, or not in slow traces.'),
      table(`Tails of the operations of ${e.service} ${e.operation}`, [
        {label: 'Operation', value: (t) => `${t.service} ${t.operation ?? ''}`, cell: nameOf},
        {label: 'p99 / p50', number: true, value: (t) => t.ratio, cell: (t) => t.ratio.toFixed(1)},
        {label: 'p50', number: true, value: (t) => t.p50_ns, cell: (t) => duration(t.p50_ns)},
        {label: 'p99', number: true, value: (t) => t.p99_ns, cell: (t) => duration(t.p99_ns)},
        {label: 'Slowest 1%', number: true, tip: 'Share of the operation’s time that its slowest hundredth takes.', value: (t) => t.share, cell: (t) => share(t.share)},
        {label: 'Explains', number: true, value: (t) => t.explains, cell: (t) => share(t.explains)},
        {label: 'Spans', number: true, value: (t) => t.spans, cell: (t) => count(t.spans)},
      ], e.tails, [1, true], true)));
  }
  return section;
}

// showDiagnosis shows what makes the slowest traces of the address' search slow.
export function showDiagnosis(root, {query, signal}) {
  document.title = 'What makes the slowest slow? – Tare';
  const chosen = query.get('share') || SHARE;
  const select = el('select', {'aria-label': 'Which traces are slow'},
    (shares.some(([value]) => value === chosen) ? shares : [[chosen, `slowest ${share(Number(chosen))}`], ...shares])
      .map(([value, label]) => el('option', {value, selected: value === chosen}, label)));
  select.addEventListener('change', () => go(href('diagnose', withQuery(query, {share: select.value}))));
  const results = el('div', {'aria-busy': 'true'}, el('p', {class: 'loading'}, 'Comparing traces …'));
  const asked = {...conditionsOf(query), min: '', max: ''};
  const told = Object.entries(asked).flatMap(([key, value]) => [value].flat().filter(Boolean).map((v) => `${key}: ${v}`)).join(', ');

  async function load() {
    results.setAttribute('aria-busy', 'true');
    try {
      const d = await get('diagnose', {...asked, share: chosen}, signal);
      const back = el('p', {}, el('a', {href: searchHref(query)}, 'Change the search'));
      replace(results, d.entries.length
        ? d.entries.map((e) => entry(e, `the slowest ${share(d.share)}`))
        : message('', d.traces ? 'No trace has a known root.' : d.retro ? 'All traces were kept retroactively.' : 'No trace matches.', back),
      el('p', {class: 'note'}, `${plural(d.traces, 'trace')} read${d.more ? ', the newest ones; there are more' : ''}.`,
        d.too_large ? ` ${plural(d.too_large, 'trace')} left out that are too large for the memory of queries.` : '',
        d.retro ? ` ${plural(d.retro, 'trace')} left out that were kept retroactively: only head-sampled traces show what is normal.` : '',
        d.no_root ? ` ${plural(d.no_root, 'trace')} without a known root left out.` : '',
        d.others ? ` ${plural(d.others, 'entry operation')} with fewer requests are not shown.` : ''));
      say(d.entries[0]?.verdict.text ?? 'No trace matches.');
    } catch (err) {
      if (err.name === 'AbortError') return;
      replace(results, message('error', err.message, err.hint ?? '', el('button', {type: 'button', onclick: load}, 'Try again')));
    } finally {
      results.removeAttribute('aria-busy');
    }
  }

  add(replace(root),
    el('div', {class: 'bar-line'}, el('h1', {}, 'What makes the slowest slow?'), select, el('a', {class: 'button back', href: searchHref(query)}, 'Back to the search')),
    el('p', {class: 'note'}, told, query.get('min') || query.get('max') ? '. Shortest and longest are left out, because slow traces are compared with normal ones.' : ''),
    results);
  load();
}
