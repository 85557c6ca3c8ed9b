// The view of traces: form, plot, list.

import {el, add, replace, message, toggle, say, visible} from './dom.js';
import {get} from './api.js';
import {searchForm, conditionsOf} from './form.js';
import {diagnoseHref} from './diagnose.js';
import {scatter} from './scatter.js';
import {chips} from './chips.js';
import {href, go, traceHref, compareHref, withQuery, leaveSearch, scrolledIn} from './route.js';
import {duration, time, utc, ago, plural, count} from './format.js';
import {named} from './named.js';
import {keptBadges, stateBadge} from './state.js';

const PAGE = 50; // traces a request
const MOST = 1000; // traces in the list, so that it stays quick
const REFRESH = 5000; // ms
const limits = [20, PAGE, 100, 200, 500, MOST];
const orders = [['', 'newest'], ['duration', 'longest'], ['spans', 'most spans']];
let live = false; // lasts while the page is open, across searches
let picked = []; // ids of up to two traces to compare, across searches too

function item(trace, longest, pick) {
  const bar = el('span', {class: 'bar', 'aria-hidden': true}, el('i', {}));
  bar.firstChild.style.width = `${Math.max(0.5, (trace.duration_ns / longest) * 100)}%`;
  const labels = [];
  if (trace.errors) labels.push(el('span', {class: 'badge bad'}, plural(trace.errors, 'error')));
  if (trace.state !== 'complete') labels.push(stateBadge(trace));
  labels.push(keptBadges(trace));
  return el('li', {class: `trace-item${trace.errors ? ' failed' : ''}`},
    el('a', {href: traceHref(trace.trace_id), class: 'trace-link'},
      el('span', {class: 'trace-name'}, el('b', {}, trace.service || 'unknown service'), ' ', el('span', {class: 'trace-op'}, named(trace))),
      el('span', {class: 'trace-duration'}, duration(trace.duration_ns)),
      bar),
    el('div', {class: 'trace-facts'},
      el('label', {class: 'pick', tip: 'Compare this trace with another one.'}, el('input', {type: 'checkbox', 'aria-label': 'compare', prop: {checked: picked.includes(trace.trace_id)}, onchange: (event) => pick(trace.trace_id, event.currentTarget)})),
      el('time', {datetime: trace.start, tip: utc(trace.start)}, time(trace.start)),
      el('span', {class: 'dim'}, ago(trace.start)), el('span', {}, plural(trace.spans, 'span')), labels, chips(trace.services ?? [], trace.more_services)));
}

const isFiltered = (query) => [...query.keys()].some((key) => key !== 'last' && key !== 'start' && key !== 'end' && key !== 'sort' && key !== 'limit');

function nothing(query, services) {
  if (!services) {
    return message('', 'No spans are stored yet.',
      el('p', {}, 'Send a request to a service that is traced; its trace appears here a moment later. Select services with ', el('code', {}, 'tare run --port 8080'), ' or ', el('code', {}, '--exe'), '; others can send OTLP to the collector.'),
      el('p', {}, 'If requests were sent: ', el('a', {href: '#/health'}, 'the health view'), ' shows what was traced and what was lost.'));
  }
  return message('', 'No trace matches.',
    isFiltered(query) ? 'Remove a condition, or choose a longer time.' : 'Choose a longer time, or send a request to a traced service.',
    el('p', {}, el('a', {href: href('traces', {last: '168h'})}, 'All traces of the last 7 days')));
}

// showTraces shows the traces that the address asks for.
export function showTraces(root, {query, signal}) {
  document.title = visible(`${query.get('service') ? `${query.get('service')} – ` : ''}Traces – Tare`);
  const form = searchForm(query, {
    signal,
    opened: (id) => go(traceHref(id)),
    submitted: (asked) => {
      const to = href('traces', {...asked, sort: query.get('sort'), limit: query.get('limit')});
      if (to === location.hash) load();
      else go(to);
    },
  });
  const here = location.hash;
  const failure = el('p', {class: 'problem', role: 'alert'});
  let shownAt = Date.now();
  const compare = el('a', {class: 'button compare-link', href: '#/traces', hidden: true}, 'Compare');
  const showPicked = () => {
    compare.hidden = !picked.length;
    compare.textContent = picked.length < 2 ? 'Choose another trace to compare' : 'Compare 2 traces';
    if (picked.length === 2) compare.href = compareHref(...picked);
    else compare.removeAttribute('href');
  };
  const pick = (id, box) => {
    picked = box.checked ? [...picked, id].slice(-2) : picked.filter((other) => other !== id);
    for (const other of results.querySelectorAll('.trace-item')) {
      const input = other.querySelector('.pick input');
      input.checked = picked.some((p) => other.querySelector('.trace-link').getAttribute('href') === traceHref(p));
    }
    showPicked();
  };
  showPicked();
  const choice = (label, key, values, value) => el('label', {class: 'choice'}, `${label} `, el('select', {name: key, onchange: (event) => go(href('traces', withQuery(query, {[key]: event.currentTarget.value})))},
    values.map(([v, text]) => el('option', {value: v, selected: v === value}, text))));
  const heading = el('h1', {class: 'result-count'}, 'Traces');
  const results = el('div', {class: 'results', 'aria-busy': 'true'}, el('p', {class: 'loading'}, 'Searching …'));
  let traces = [];
  let page; // the last answer
  let overview; // of all that the search finds, not of the page
  const sort = orders.some(([key]) => key === query.get('sort')) ? query.get('sort') : '';
  const limit = limits.includes(Number(query.get('limit'))) ? Number(query.get('limit')) : PAGE;
  let drawn; // redraws the plot
  let turn = 0; // number of the newest search; results of older ones are ignored

  const draw = async () => {
    if (!traces.length) {
      const known = await get('services', {}, signal).then((a) => a.services.length, () => 1);
      if (traces.length) return;
      heading.textContent = 'No traces';
      replace(results, page?.truncated ? '' : nothing(query, known), rest());
      return;
    }
    const total = overview?.traces >= traces.length ? overview : undefined;
    replace(heading, total ? `${total.truncated ? 'At least ' : ''}${plural(total.traces, 'trace')}` : `${plural(traces.length, 'trace')}${page.next ? ' so far' : ''}`,
      total?.errors ? el('span', {class: 'bad'}, `, ${count(total.errors)} with errors`) : '',
      total && total.traces > traces.length ? el('span', {class: 'dim'}, `, ${count(traces.length)} ${sort ? '' : 'newest '}listed`) : '');
    const longest = Math.max(...traces.map((t) => t.duration_ns), 1);
    const plot = scatter(traces, overview, (start, end) => href('traces', withQuery(query, {last: '', start, end})));
    const focused = results.contains(document.activeElement) ? document.activeElement.getAttribute('href') : undefined;
    drawn = plot.draw;
    replace(results, plot.chart, el('ol', {class: 'trace-list'}, traces.map((t) => item(t, longest, pick))), rest());
    plot.draw();
    // A refresh must not take the focus away from who goes through the list.
    if (focused) [...results.querySelectorAll('.trace-link')].find((a) => a.getAttribute('href') === focused)?.focus({preventScroll: true});
  };

  const rest = () => {
    const parts = [];
    if (page?.damaged || overview?.damaged) parts.push(el('p', {class: 'note'}, 'A part of the store is damaged: traces may be missing here. ', el('a', {href: '#/health'}, 'The health view says more.')));
    if (page?.left_out) parts.push(el('p', {class: 'note'}, `${plural(page.left_out, 'trace')} did not fit into the answer. A shorter time or more conditions find them.`));
    if (overview?.truncated) parts.push(el('p', {class: 'note'}, 'These attributes are compared span by span: only what began after ', el('time', {tip: utc(overview.reached)}, time(overview.reached)), ' is counted in full.'));
    if (page?.truncated && sort) parts.push(el('p', {class: 'note'}, 'The search stopped at its time limit: of what began before ', el('time', {tip: utc(page.reached)}, time(page.reached)), ' some may be missing.'));
    else if (page?.truncated) parts.push(el('p', {class: 'note'}, 'The search stopped at its time limit. It looked at everything newer than ', el('time', {tip: utc(page.reached)}, time(page.reached)), '.'));
    if (page?.next && traces.length < MOST) {
      parts.push(el('button', {type: 'button', class: 'more-button', onclick: (event) => {
        event.currentTarget.disabled = true;
        load(page.next);
      }}, page.truncated ? 'Search on' : 'More'));
    } else if (page?.next || (sort && traces.length >= MOST)) {
      parts.push(el('p', {class: 'note'}, `${count(MOST)} traces are shown at most. A shorter time or more conditions find the others.`));
    }
    return parts.length ? el('div', {class: 'rest'}, parts) : '';
  };

  async function load(after, quiet = false) {
    const mine = ++turn;
    const conditions = conditionsOf(query);
    if (!quiet) results.setAttribute('aria-busy', 'true');
    try {
      const [answer, all] = await Promise.all([
        get('traces', {...conditions, sort, limit, after}, signal),
        after ? overview : get('overview', {...conditions, columns: 60}, signal).catch((err) => {
          if (err.name === 'AbortError') throw err;
          return undefined; // the list is here, and says if it is wrong
        }),
      ]);
      if (mine !== turn) return;
      overview = all;
      failure.textContent = '';
      // Spans of a trace may be found on two pages.
      const known = new Set(after ? traces.map((t) => t.trace_id) : []);
      traces = [...(after ? traces : []), ...(answer.traces ?? []).filter((t) => !known.has(t.trace_id))];
      page = answer;
      shownAt = Date.now();
      await draw();
      if (!quiet) say(heading.textContent);
      if (!quiet && !after && scrolledIn(here)) scrollTo(0, scrolledIn(here));
    } catch (err) {
      if (err.name === 'AbortError' || mine !== turn) return;
      if (quiet) { // the next turn tries again; what is shown is old
        failure.textContent = `Refresh failed: ${err.message} Shown is what was found at ${time(new Date(shownAt).toISOString())}.`;
        return;
      }
      replace(results, message('error', err.message, err.hint ?? '', el('button', {type: 'button', onclick: () => load()}, 'Try again')));
    } finally {
      if (mine === turn) results.removeAttribute('aria-busy');
    }
  }

  const refresh = toggle('Refresh every 5 s', live, (on) => {
    live = on;
    if (on) load(undefined, true);
  }, {tip: 'Stops while this tab is hidden, and once more than one page is shown.'});
  const timer = setInterval(() => {
    if (live && !document.hidden && traces.length <= limit) load(undefined, true);
  }, REFRESH);
  const resize = new ResizeObserver(() => drawn?.());
  resize.observe(results);
  signal.addEventListener('abort', () => {
    leaveSearch(here, scrollY);
    clearInterval(timer);
    resize.disconnect();
  });
  add(replace(root, form), el('div', {class: 'bar-line'}, heading,
    choice('Sort', 'sort', orders, sort), choice('Limit', 'limit', limits.map((n) => [n === PAGE ? '' : String(n), count(n)]), limit === PAGE ? '' : String(limit)),
    compare, el('a', {class: 'button diagnose-link', href: diagnoseHref(query)}, 'What makes the slowest slow?'), refresh), failure, results);
  load();
}
