// The panel of one span: times, marks, attributes, events, links, resource.

import {el, replace, message, breakable} from './dom.js';
import {duration, time, utc, percent, plural} from './format.js';
import {color} from './color.js';
import {href, traceHref} from './route.js';
import {marksOf, explain} from './marks.js';
import {named} from './named.js';

const LONG = 2000; // characters of a value that are shown at first

function copyButton(text, what) {
  if (!navigator.clipboard) return ''; // plain HTTP on another address than loopback
  const button = el('button', {type: 'button', class: 'quiet small', 'aria-label': `Copy the ${what}`}, 'Copy');
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = 'Copied';
    } catch {
      button.textContent = 'Not allowed';
    }
  });
  return button;
}

function valueOf(attribute) {
  const value = String(attribute.value);
  if (value.length <= LONG) return el('span', {class: 'value'}, value === '' ? el('i', {class: 'dim'}, 'empty') : value);
  const box = el('span', {class: 'value'}, `${value.slice(0, LONG)}… `);
  box.append(el('button', {type: 'button', class: 'small', onclick: () => replace(box, value)}, `all ${value.length} characters`));
  return box;
}

// attributeTable lists attributes; with search, each leads to the traces that
// have it too.
function attributeTable(attributes, search) {
  if (!attributes?.length) return el('p', {class: 'dim'}, 'none');
  const sorted = [...attributes].sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
  return el('table', {class: 'attributes'}, el('tbody', {}, sorted.map((a) => el('tr', {},
    el('th', {scope: 'row', tip: a.type}, breakable(a.key)),
    el('td', {}, valueOf(a)),
    el('td', {class: 'find'}, search && String(a.value).length <= 200
      ? el('a', {href: href('traces', {attr: `${a.key}=${a.value}`, last: '24h'}), 'aria-label': `Traces with ${a.key} = ${a.value}`, tip: 'Traces with this value, last 24 hours'}, '⌕') : '')))));
}

const section = (title, ...body) => el('section', {}, el('h3', {}, title), body);
const fact = (name, ...value) => [el('dt', {}, name), el('dd', {}, value)];

function events(list) {
  return el('ol', {class: 'events'}, list.map((event) => el('li', {},
    el('p', {}, el('b', {}, event.name || 'unnamed'), ' ', el('span', {class: 'dim'}, `at ${duration(event.offset_ns)}`)),
    event.attributes?.length ? attributeTable(event.attributes) : '')));
}

function links(list) {
  return el('ul', {class: 'events'}, list.map((link) => el('li', {},
    el('p', {}, 'span ', el('code', {}, link.span_id), ' of ', el('a', {href: traceHref(link.trace_id, link.span_id)}, el('code', {}, link.trace_id))),
    link.attributes?.length ? attributeTable(link.attributes) : '')));
}

// SEVERE and up are errors, WARN warnings: numbers of OpenTelemetry's logs data model.
const WARN = 13;
const SEVERE = 17;

function logs(list) {
  return el('ol', {class: 'events logs'}, list.map((record) => el('li', {class: record.severity_number >= SEVERE ? 'severe' : record.severity_number >= WARN ? 'warn' : ''},
    el('p', {},
      record.severity ? el('b', {class: 'severity'}, record.severity) : '', ' ',
      el('span', {class: 'dim'}, `at ${duration(record.offset_ns)}`, record.event_name ? ` · ${record.event_name}` : '', record.scope ? ` · ${record.scope}` : '')),
    el('p', {class: 'body'}, valueOf({value: record.body})),
    record.attributes?.length ? attributeTable(record.attributes) : '')));
}

// logsOf are the log records of a span; those that name no span of the trace are the first span's.
function logsOf(tree, index) {
  const all = tree.trace.logs ?? [];
  const id = tree.spans[index].id;
  if (index > 0) return all.filter((record) => record.span_id === id);
  const known = new Set(tree.spans.map((s) => s.id));
  return all.filter((record) => record.span_id === id || !known.has(record.span_id));
}

// droppedNote says what the span had more of.
function droppedNote(dropped) {
  const parts = ['attributes', 'events', 'links'].filter((kind) => dropped?.[kind]).map((kind) => plural(dropped[kind], kind.slice(0, -1)));
  return parts.length ? el('p', {class: 'note'}, `Left out, by its sender or because it is too much: ${parts.join(', ')}.`) : '';
}

// details fills a panel with a span; load(index) gives the span with its
// attributes, as a promise.
export async function details(panel, tree, index, {load, close, mapHref}) {
  const span = tree.spans[index];
  const {trace} = tree;
  const service = trace.services[span.service]?.name ?? 'unknown service';
  const self = span.self_ns ?? 0;
  const onPath = (span.critical ?? []).reduce((sum, [from, to]) => sum + to - from, 0);
  const start = Date.parse(trace.start) + span.start_ns / 1e6;
  const dot = el('i', {class: 'dot', 'aria-hidden': true});
  dot.style.background = color(service);
  const found = marksOf(span);
  const said = logsOf(tree, index);
  const rest = el('div', {class: 'details-rest'}, el('p', {class: 'loading'}, 'Loading the attributes …'));
  const closing = el('button', {type: 'button', class: 'quiet', 'aria-label': 'Close the details', onclick: close}, '✕');
  replace(panel,
    el('header', {},
      el('h2', {id: 'details-title'}, dot, el('span', {}, named(span))), closing),
    el('p', {class: 'details-service'}, el('a', {href: mapHref(service)}, service), ' · ', span.kind && span.kind !== 'unspecified' ? span.kind : 'kind unknown', span.scope ? ` · ${span.scope}` : ''),
    found.length ? el('ul', {class: 'notes'}, found.map((kind) => el('li', {class: kind.cls}, el('span', {class: 'mark', 'aria-hidden': true}, kind.symbol), ' ', explain(kind, span)))) : '',
    el('dl', {class: 'facts'},
      fact('Starts', `at ${duration(span.start_ns)}, `, el('time', {tip: utc(start)}, time(start))),
      fact('Duration', duration(span.duration_ns), span.duration_ns < trace.duration_ns ? el('span', {class: 'dim'}, ` ${percent(span.duration_ns / tree.length)} of the trace`) : ''),
      fact('Own time', duration(self), el('span', {class: 'dim'}, span.duration_ns ? ` ${percent(self / span.duration_ns)} of the span` : '')),
      fact('On the critical path', onPath ? duration(onPath) : 'no'),
      fact('Children', plural(tree.children[index], 'span')),
      fact('Status', span.status || 'unset'),
      fact('Span id', el('code', {}, span.id), ' ', copyButton(span.id, 'span id'))),
    said.length ? section(`Logs (${said.length})`, logs(said)) : '',
    rest);
  try {
    const full = await load(index);
    const resource = trace.resources?.[span.resource];
    replace(rest,
      section('Attributes', attributeTable(full.attributes, true)),
      full.events?.length ? section(`Events (${full.events.length})`, events(full.events)) : '',
      full.links?.length ? section(`Links (${full.links.length})`, links(full.links)) : '',
      section('Resource', attributeTable(resource?.attributes, true)),
      droppedNote(full.dropped));
  } catch (err) {
    if (err.name === 'AbortError') return;
    replace(rest, message('error', err.message, err.hint ?? ''));
  }
}
