// The view of traces: form, plot, list.

import {el, add, replace, message, toggle, say} from './dom.js';
import {get} from './api.js';
import {searchForm, conditionsOf} from './form.js';
import {diagnoseHref} from './diagnose.js';
import {scatter} from './scatter.js';
import {chips} from './chips.js';
import {href, go, traceHref} from './route.js';
import {duration, time, utc, ago, plural, count} from './format.js';
import {named} from './named.js';
import {whyIncomplete, whyKept} from './reasons.js';

const PAGE = 50; // traces a request
const MOST = 1000; // traces in the list, so that it stays quick
const REFRESH = 5000; // ms
let live = false; // lasts while the page is open, across searches

function item(trace, longest) {
  const bar = el('span', {class: 'bar', 'aria-hidden': true}, el('i', {}));
  bar.firstChild.style.width = `${Math.max(0.5, (trace.duration_ns / longest) * 100)}%`;
  const labels = [];
  if (trace.errors) labels.push(el('span', {class: 'badge bad'}, plural(trace.errors, 'error')));
  if (trace.state === 'incomplete') labels.push(el('span', {class: 'badge warn', tip: trace.reason || 'no reason was given'}, `incomplete: ${whyIncomplete(trace.reason)}`));
  const why = whyKept(trace.keep);
  if (why) labels.push(el('span', {class: 'badge', tip: trace.keep}, `kept: ${why}`));
  if (trace.weight > 1.005) labels.push(el('span', {class: 'badge', tip: 'By its sampling probability.'}, `stands for ${trace.weight < 10 ? trace.weight.toFixed(1) : count(trace.weight)}`));
  return el('li', {class: `trace-item${trace.errors ? ' failed' : ''}`},
    el('a', {href: traceHref(trace.trace_id), class: 'trace-link'},
      el('span', {class: 'trace-name'}, el('b', {}, trace.service || 'unknown service'), ' ', named(trace)),
      el('span', {class: 'trace-duration'}, duration(trace.duration_ns)),
      bar),
    el('div', {class: 'trace-facts'},
      el('time', {datetime: trace.start, tip: utc(trace.start)}, time(trace.start)),
      el('span', {class: 'dim'}, ago(trace.start)), el('span', {}, plural(trace.spans, 'span')), labels, chips(trace.services ?? [])));
}

const isFiltered = (query) => [...query.keys()].some((key) => key !== 'last' && key !== 'start' && key !== 'end');

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
  document.title = `${query.get('service') ? `${query.get('service')} – ` : ''}Traces – Tare`;
  const form = searchForm(query, {
    signal,
    opened: (id) => go(traceHref(id)),
    submitted: (asked) => {
      const to = href('traces', asked);
      if (to === location.hash) load();
      else go(to);
    },
  });
  const heading = el('h1', {class: 'result-count'}, 'Traces');
  const results = el('div', {class: 'results', 'aria-busy': 'true'}, el('p', {class: 'loading'}, 'Searching …'));
  let traces = [];
  let page; // the last answer
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
    const sum = `${plural(traces.length, 'trace')}${page.next ? ' so far' : ''}`;
    heading.textContent = sum;
    const longest = Math.max(...traces.map((t) => t.duration_ns), 1);
    const plot = scatter(traces);
    const focused = results.contains(document.activeElement) ? document.activeElement.getAttribute('href') : undefined;
    drawn = plot.draw;
    replace(results, plot.chart, el('ol', {class: 'trace-list'}, traces.map((t) => item(t, longest))), rest());
    plot.draw();
    // A refresh must not take the focus away from who goes through the list.
    if (focused) [...results.querySelectorAll('.trace-link')].find((a) => a.getAttribute('href') === focused)?.focus({preventScroll: true});
  };

  const rest = () => {
    const parts = [];
    if (page?.truncated) parts.push(el('p', {class: 'note'}, 'The search stopped at its time limit. It looked at everything newer than ', el('time', {tip: utc(page.reached)}, time(page.reached)), '.'));
    if (page?.next && traces.length < MOST) {
      parts.push(el('button', {type: 'button', class: 'more-button', onclick: (event) => {
        event.currentTarget.disabled = true;
        load(page.next);
      }}, page.truncated ? 'Search on' : 'More'));
    } else if (page?.next) {
      parts.push(el('p', {class: 'note'}, `${count(MOST)} traces are shown at most. A shorter time or more conditions find the others.`));
    }
    return parts.length ? el('div', {class: 'rest'}, parts) : '';
  };

  async function load(after, quiet = false) {
    const mine = ++turn;
    if (!quiet) results.setAttribute('aria-busy', 'true');
    try {
      const answer = await get('traces', {...conditionsOf(query), limit: PAGE, after}, signal);
      if (mine !== turn) return;
      // Spans of a trace may be found on two pages.
      const known = new Set(after ? traces.map((t) => t.trace_id) : []);
      traces = [...(after ? traces : []), ...(answer.traces ?? []).filter((t) => !known.has(t.trace_id))];
      page = answer;
      await draw();
      if (!quiet) say(heading.textContent);
    } catch (err) {
      if (err.name === 'AbortError' || mine !== turn) return;
      if (quiet) return; // the next turn tries again
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
    if (live && !document.hidden && traces.length <= PAGE) load(undefined, true);
  }, REFRESH);
  const resize = new ResizeObserver(() => drawn?.());
  resize.observe(results);
  signal.addEventListener('abort', () => {
    clearInterval(timer);
    resize.disconnect();
  });
  add(replace(root, form), el('div', {class: 'bar-line'}, heading,
    el('a', {class: 'button diagnose-link', href: diagnoseHref(query)}, 'What makes the slowest slow?'), refresh), results);
  load();
}
