// The service map: who calls whom, drawn and as tables.

import {el, svg, add, replace, message, refreshed, toggle, say} from './dom.js';
import {get} from './api.js';
import {timeRange, rangeOf} from './form.js';
import {layout} from './layout.js';
import {table} from './table.js';
import {href, go} from './route.js';
import {color} from './color.js';
import {count, duration, percent, rateUnit, plural} from './format.js';

const REFRESH = 10000; // ms
const LABELS = 60; // edges: with more, labels show on hover and in the table only
const BAD = 0.05; // share of errors from which on an edge is red
let live = false;
const sorts = {calls: [2, true], services: [1, true], operations: [3, true]}; // as the reader last chose

const wide = {node: {along: 168, across: 58}, label: {along: 96, across: 40}, line: 10, gap: 14, between: 18};
const tall = {node: {along: 72, across: 112}, label: {along: 38, across: 84}, line: 10, gap: 8, between: 12};

const grade = (x) => (x.error_rate >= BAD ? 'bad' : x.errors > 0 ? 'warn' : 'good');
const shorten = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
const remark = (x) => (x.measured ? ` (${x.traced ? '' : 'not traced, '}from metrics)` : x.unlinked ? ' (not linked to its requests)' : x.traced ? '' : ' (not traced)');
const click = (x) => (x.measured ? 'No trace shows it in this time' : 'Click: its traces');
const errorText = (x) => (x.errors > 0 ? `${percent(x.error_rate)} errors` : 'no errors');
const numbers = (x, rate) => `${rate(x.rate)}, ${errorText(x)}\np50 ${duration(x.p50_ns)}, p95 ${duration(x.p95_ns)}, p99 ${duration(x.p99_ns)}`;

// Where a click leads: the traces behind a node or an edge.
const nodeHref = (node, range) => href('traces', {[node.traced ? 'service' : 'calls']: node.name, ...range});
const edgeHref = (edge, range) => href('traces', {service: edge.from, calls: edge.to, ...range});

// Two lines of a box's name: a database's address stands below its kind.
function nameLines(node, most) {
  const [, kind, address] = (!node.traced && node.name.match(/^(\S+) (\S+:\d+)$/)) || [];
  return kind ? [shorten(kind, most), shorten(address, most + 2)] : [shorten(node.name, most), ''];
}

function nodeShape(node, at, {sizes, flip, range, rate}) {
  const [w, h] = flip ? [sizes.node.across, sizes.node.along] : [sizes.node.along, sizes.node.across];
  const most = Math.floor((w - 22) / 7.2);
  const strip = svg('rect', {class: 'node-strip', width: 5, height: h, rx: 2});
  strip.style.fill = node.traced ? color(node.name) : 'var(--strong-line)';
  const [name, address] = nameLines(node, most);
  const p95 = node.p95_ns === null ? '' : `p95 ${duration(node.p95_ns)}`;
  const facts = address ? [address] : [];
  if (!node.traced && !address) facts.push('not traced');
  facts.push(...(flip ? [rate(node.rate), p95] : [[rate(node.rate), p95].filter(Boolean).join(' · ')]));
  const lines = facts.filter(Boolean).map((text) => ({text, cls: ''}));
  if (node.errors > 0 || node.traced) lines.push({text: errorText(node), cls: grade(node)});
  return svg('a', {href: nodeHref(node, range), class: `node ${node.traced ? '' : 'untraced'}${node.measured ? ' measured' : ''}`, transform: `translate(${at.x - w / 2} ${at.y - h / 2})`, tip: `${node.name}${remark(node)}\n${numbers(node, rate)}\n${click(node)}`, 'aria-label': `${node.name}${node.traced ? '' : ', not traced'}${node.measured ? ', from metrics' : ''}, ${numbers(node, rate)}`},
    svg('rect', {class: 'node-box', width: w, height: h, rx: 4}), strip,
    svg('text', {class: 'node-name', x: 13, y: 19}, name),
    lines.slice(0, flip ? 3 : 2).map(({text, cls}, k) => svg('text', {class: `node-fact ${cls}`, x: 13, y: 35 + 15 * k}, text)));
}

// edgePath is a smooth line through the places of an edge.
function edgePath(points, flip, half) {
  const ends = points.map((p) => ({...p}));
  const direction = Math.sign(ends.at(-1).along - ends[0].along) || 1;
  ends[0].along += direction * half;
  ends[ends.length - 1].along -= direction * (half + 7);
  const xy = (along, across) => (flip ? `${across.toFixed(1)} ${along.toFixed(1)}` : `${along.toFixed(1)} ${across.toFixed(1)}`);
  let path = `M${xy(ends[0].along, ends[0].across)}`;
  for (let k = 1; k < ends.length; k++) {
    const [a, b] = [ends[k - 1], ends[k]];
    const middle = (a.along + b.along) / 2;
    path += `C${xy(middle, a.across)} ${xy(middle, b.across)} ${xy(b.along, b.across)}`;
  }
  return path;
}

function edgeShape(edge, placed, {sizes, flip, range, rate, labelled, busiest}) {
  const cls = grade(edge);
  const half = sizes.node.along / 2;
  let path;
  let label = placed.label;
  if (placed.loop) { // a service that calls itself
    const {along, across} = placed.points[0];
    const [x, y] = flip ? [across, along] : [along, across];
    const [w, h] = flip ? [sizes.node.across / 2, sizes.node.along / 2] : [half, sizes.node.across / 2];
    path = `M${x + w - 34} ${y - h}c0 -18 26 -18 26 -7`;
    label = undefined;
  } else path = edgePath(placed.points, flip, half);
  const thick = 1.2 + 2.3 * Math.sqrt(edge.rate / Math.max(busiest, 1e-9));
  const text = `${edge.from} calls ${edge.to}${remark(edge)}\n${numbers(edge, rate)}`;
  const parts = [svg('path', {class: 'edge-hit', d: path}), svg('path', {class: 'edge-line', d: path, 'stroke-width': thick.toFixed(1), 'marker-end': `url(#arrow-${cls})`})];
  if (label) {
    const [x, y] = flip ? [label.across, label.along] : [label.along, label.across];
    const lines = [rate(edge.rate), `p95 ${duration(edge.p95_ns)}`];
    if (edge.errors > 0) lines[1] = `${percent(edge.error_rate)} errors`;
    const w = Math.max(...lines.map((l) => l.length)) * 6.1 + 10;
    parts.push(svg('g', {class: `edge-label${labelled ? '' : ' on-hover'}`},
      svg('rect', {x: x - w / 2, y: y - 16, width: w, height: 32, rx: 3}),
      svg('text', {x, y: y - 3, 'text-anchor': 'middle'}, lines[0]),
      svg('text', {x, y: y + 11, 'text-anchor': 'middle', class: edge.errors > 0 ? cls : 'dim-text'}, lines[1])));
  }
  return svg('a', {href: edgeHref(edge, range), class: `edge ${cls}${edge.unlinked ? ' unlinked' : ''}${edge.measured ? ' measured' : ''}`, tip: `${text}\n${click(edge)}`, 'aria-label': text}, parts);
}

// drawing is the map as an SVG.
function drawing(map, range, available) {
  const flip = available < 600;
  const sizes = flip ? tall : wide;
  const numberOf = new Map(map.nodes.map((node, i) => [node.name, i]));
  const edges = map.edges.filter((e) => numberOf.has(e.from) && numberOf.has(e.to));
  const placed = layout(map.nodes.length, edges.map((e) => ({from: numberOf.get(e.from), to: numberOf.get(e.to)})), sizes);
  const margin = 12;
  const [w, h] = flip ? [placed.across, placed.along] : [placed.along, placed.across];
  const [width, height] = [w + 2 * margin, h + 2 * margin + 10];
  const how = {sizes, flip, range, rate: rateUnit([...map.nodes, ...edges].map((x) => x.rate)), labelled: edges.length <= LABELS, busiest: Math.max(...edges.map((e) => e.rate), 0)};
  const xy = (p) => (flip ? {x: p.across, y: p.along} : {x: p.along, y: p.across});
  const chart = svg('svg', {class: 'map-chart', viewBox: `0 0 ${width} ${height}`, role: 'group', 'aria-label': 'Service map; the tables below have the same.'},
    svg('defs', {}, ['good', 'warn', 'bad'].map((cls) => svg('marker', {id: `arrow-${cls}`, class: `arrow ${cls}`, viewBox: '0 0 8 8', refX: 1, refY: 4, markerWidth: 8, markerHeight: 8, markerUnits: 'userSpaceOnUse', orient: 'auto'}, svg('path', {d: 'M0 0L8 4L0 8z'})))),
    svg('g', {transform: `translate(${margin} ${margin + 10})`},
      edges.map((edge, k) => edgeShape(edge, placed.edges[k], how)),
      map.nodes.map((node, i) => nodeShape(node, xy(placed.nodes[i]), how))));
  // As large as it is, smaller where it does not fit, and never too small to read.
  const scale = Math.max(0.8, Math.min(1, available / width));
  chart.style.width = `${width * scale}px`;
  chart.style.height = `${height * scale}px`;
  return chart;
}

const columnsOf = (rate) => [
  {label: 'Rate', number: true, value: (x) => x.rate, cell: (x) => rate(x.rate), tip: 'Requests per second, weighted by sampling'},
  {label: 'Requests', number: true, value: (x) => x.requests, cell: (x) => count(x.requests), tip: 'Weighted by sampling'},
  {label: 'Errors', number: true, value: (x) => x.error_rate, cell: (x) => el('span', {class: grade(x)}, x.errors > 0 ? `${percent(x.error_rate)} (${count(x.errors)})` : 'none')},
  {label: 'p50', number: true, value: (x) => x.p50_ns, cell: (x) => duration(x.p50_ns)},
  {label: 'p95', number: true, value: (x) => x.p95_ns, cell: (x) => duration(x.p95_ns)},
  {label: 'p99', number: true, value: (x) => x.p99_ns, cell: (x) => duration(x.p99_ns)},
];

function tables(map, range) {
  const columns = columnsOf(rateUnit([...map.nodes, ...map.edges].map((x) => x.rate)));
  const peer = (name, x) => [name, remark(x) && el('span', {class: 'dim'}, remark(x))];
  return [
    table('Calls', [
      {label: 'Caller', value: (e) => e.from, cell: (e) => el('a', {href: edgeHref(e, range)}, e.from)},
      {label: 'Called', value: (e) => e.to, cell: (e) => peer(e.to, e)}, ...columns,
    ], map.edges, sorts.calls),
    table('Services', [{label: 'Service', value: (n) => n.name, cell: (n) => peer(el('a', {href: nodeHref(n, range)}, n.name), n)}, ...columns],
      map.nodes, sorts.services),
  ];
}

// operations is a table of every service's operations, read when it is opened.
function operations(range, signal) {
  const box = el('details', {class: 'operations'}, el('summary', {}, 'Operations of every service'));
  box.addEventListener('toggle', async () => {
    if (!box.open || box.dataset.read) return;
    box.dataset.read = 'yes';
    const rest = el('div', {}, el('p', {class: 'loading'}, 'Reading the operations …'));
    box.append(rest);
    try {
      const rows = ((await get('latencies', {by: 'operation', ...range}, signal)).latencies ?? []).map((l) => ({...l, error_rate: l.requests > 0 ? l.errors / l.requests : 0}));
      const numbersOf = columnsOf(count).filter((c) => c.label !== 'Rate');
      replace(rest, rows.length ? table('Operations', [
        {label: 'Service', value: (l) => l.service, cell: (l) => l.service},
        {label: 'Operation', value: (l) => l.operation, cell: (l) => el('a', {href: href('traces', {service: l.service, operation: l.operation, kind: l.kind === 'unspecified' ? '' : l.kind, ...range})}, l.operation || 'unnamed')},
        {label: 'Kind', value: (l) => l.kind, cell: (l) => l.kind}, ...numbersOf,
        {label: 'Longest', number: true, value: (l) => l.max_ns, cell: (l) => duration(l.max_ns)},
      ], rows, sorts.operations, true) : el('p', {class: 'dim'}, 'none'));
    } catch (err) {
      if (err.name === 'AbortError') return;
      delete box.dataset.read;
      replace(rest, message('error', err.message, err.hint ?? ''));
    }
  });
  return box;
}

// showMap shows the map of the time that the address asks for.
export function showMap(root, {query, signal}) {
  document.title = 'Service map – Tare';
  const choice = timeRange(query, () => go(href('map', choice.value())));
  const range = rangeOf(query);
  const body = el('div', {class: 'map-body'}, el('p', {class: 'loading'}, 'Reading the map …'));
  const heading = el('h1', {}, 'Service map');
  let map;
  let drawnFor;
  const details = operations(range, signal);
  const box = el('div', {class: 'map-box', tabindex: 0, role: 'region', 'aria-label': 'Drawing of the service map'});
  const draw = () => {
    const width = box.clientWidth - 2;
    if (!map || !width) return;
    drawnFor = width;
    replace(box, drawing(map, range, width));
  };
  const load = async (quiet) => {
    try {
      const answer = await get('map', range, signal);
      map = answer;
      map.nodes ??= [];
      map.edges ??= [];
      if (!map.nodes.length) {
        replace(body, message('', 'Nobody called anybody in this time.', 'Choose a longer time, or send requests to a traced service.', el('p', {}, el('a', {href: '#/health'}, 'Is anything traced?'))));
        return;
      }
      heading.textContent = `${plural(map.nodes.length, 'service')}, ${plural(map.edges.length, 'connection')}`;
      if (!quiet) say(heading.textContent);
      refreshed(body, () => {
        replace(body, box, el('p', {class: 'note'}, `Numbers count every request, sampled or not, by the sampling probability. A line is as thick as its rate; red from 5% errors on, dashed boxes are not traced; behind a dashed line, traces of their own begin, since the caller’s calls are not linked.${map.edges.some((e) => e.measured) || map.nodes.some((n) => n.measured) ? ' Dotted lines and boxes are from metrics of all requests: no trace shows them.' : ''}`), tables(map, range), details);
        draw();
      });
    } catch (err) {
      if (err.name === 'AbortError' || quiet) return;
      replace(body, message('error', err.message, err.hint ?? '', el('button', {type: 'button', onclick: () => load()}, 'Try again')));
      if (!err.hint) throw err;
    }
  };
  const refresh = toggle('Refresh every 10 s', live, (on) => {
    live = on;
    if (on) load(true);
  });
  const timer = setInterval(() => live && !document.hidden && load(true), REFRESH);
  const resize = new ResizeObserver(() => box.clientWidth - 2 !== drawnFor && draw());
  resize.observe(box);
  signal.addEventListener('abort', () => {
    clearInterval(timer);
    resize.disconnect();
  });
  add(replace(root, el('div', {class: 'bar-line'}, heading, el('span', {class: 'fields inline'}, choice.parts), refresh)), body);
  load();
}
