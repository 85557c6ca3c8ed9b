// A plot of traces: when they began and how long they took, on a logarithmic axis.
// All that the search finds are a heat map, with their number over time below; those
// that are listed are points in it. Failed ones are red diamonds, incomplete ones are
// hollow. For those who do not see it, heading and list hold the same.

import {svg, replace} from './dom.js';
import {duration, tick, time, plural, count} from './format.js';
import {traceHref} from './route.js';

const HEIGHT = 190;
const COUNTS = 28; // px, of the bars of numbers
const PAD = {left: 64, right: 12, top: 10, bottom: 22 + COUNTS};

// timeTicks are round moments of the reader's clock within [from, to], in ms.
function timeTicks(from, to, n) {
  const steps = [0.001, 0.01, 0.1, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800].map((s) => s * 1000);
  const step = steps.find((s) => (to - from) / s <= n) ?? steps.at(-1);
  const zone = new Date(from).getTimezoneOffset() * 60000;
  const values = [];
  for (let t = Math.ceil((from - zone) / step) * step + zone; t <= to; t += step) values.push(t);
  return {step, values};
}

const two = (n) => String(n).padStart(2, '0');
function label(ms, step) {
  const t = new Date(ms);
  if (step >= 86400e3) return `${t.getMonth() + 1}/${t.getDate()}`;
  if (step >= 60e3) return `${two(t.getHours())}:${two(t.getMinutes())}`;
  const s = `${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}`;
  return step >= 1000 ? s : `${s}.${String(t.getMilliseconds()).padStart(3, '0')}`;
}

// scatter draws into an SVG element; it returns the function that draws anew.
// overview: of the whole search, undefined if it is not known; narrowed(from, to) is
// where a column leads, in ms.
export function scatter(traces, overview, narrowed) {
  const chart = svg('svg', {class: 'scatter', height: HEIGHT, role: 'img', 'aria-label': `Start and duration of ${plural(overview?.traces ?? traces.length, 'trace')}; the list has ${plural(traces.length, 'trace')} of them.`});
  const draw = () => {
    const width = chart.clientWidth;
    if (!width || !traces.length) return;
    chart.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
    const starts = traces.map((t) => Date.parse(t.start));
    const cells = overview?.cells ?? [];
    let from = Math.min(...starts);
    let to = Math.max(...starts);
    if (cells.length) {
      [from, to] = [Date.parse(overview.start), Date.parse(overview.end)];
    } else {
      const margin = Math.max((to - from) * 0.02, 1);
      from -= margin;
      to += margin;
    }
    const column = (to - from) / (overview?.columns || 1);
    const logs = traces.map((t) => Math.log10(Math.max(t.duration_ns, 1)));
    let low = Math.min(...logs, ...cells.map((c) => Math.log10(Math.max(c.low_ns, 1)))) - 0.1;
    let high = Math.max(...logs, ...cells.map((c) => Math.log10(c.high_ns + 1))) + 0.1;
    if (high - low < 1) [low, high] = [(low + high) / 2 - 0.5, (low + high) / 2 + 0.5];
    const x = (t) => PAD.left + ((t - from) / (to - from)) * (width - PAD.left - PAD.right);
    const y = (l) => PAD.top + (1 - (l - low) / (high - low)) * (HEIGHT - PAD.top - PAD.bottom);
    const parts = [];
    const powers = [];
    for (let p = Math.floor(low); p <= high; p++) {
      for (const m of high - low < 1.7 ? [1, 2, 5] : [1]) powers.push(m * 10 ** p);
    }
    for (const p of powers) {
      const l = Math.log10(p);
      if (l < low || l > high) continue;
      parts.push(svg('line', {class: 'grid', x1: PAD.left, x2: width - PAD.right, y1: y(l), y2: y(l)}),
        svg('text', {class: 'axis', x: PAD.left - 8, y: y(l) + 4, 'text-anchor': 'end'}, tick(p, p)));
    }
    const {step, values} = timeTicks(from, to, Math.max(2, Math.floor((width - PAD.left) / 90)));
    for (const t of values) {
      parts.push(svg('line', {class: 'grid', x1: x(t), x2: x(t), y1: PAD.top, y2: HEIGHT - PAD.bottom}),
        svg('text', {class: 'axis', x: Math.min(x(t), width - 24), y: HEIGHT - 6, 'text-anchor': 'middle'}, label(t, step)));
    }
    const most = Math.max(...cells.map((c) => c.traces), 1);
    const sums = new Map();
    const when = (k) => `${time(new Date(from + k * column).toISOString())} – ${time(new Date(from + (k + 1) * column).toISOString())}`;
    const numbers = (c) => `${plural(c.traces, 'trace')}${c.errors ? `, ${count(c.errors)} with errors` : ''}`;
    const link = (k, cls, tip, shape) => svg('a', {class: cls, tabindex: -1, 'aria-hidden': true, tip: `${tip}\nSearch in this time only`,
      href: narrowed?.(Math.floor(from + k * column), Math.ceil(from + (k + 1) * column))}, shape);
    for (const c of cells) {
      const sum = sums.get(c.column) ?? {traces: 0, errors: 0};
      sums.set(c.column, {traces: sum.traces + c.traces, errors: sum.errors + c.errors});
      const [top, bottom] = [y(Math.log10(c.high_ns + 1)), y(Math.log10(Math.max(c.low_ns, 1)))];
      const rect = svg('rect', {x: x(from + c.column * column), width: Math.max(1, x(from + column) - x(from) - 0.5), y: top, height: Math.max(1, bottom - top - 0.5),
        'fill-opacity': (0.15 + 0.65 * Math.log1p(c.traces) / Math.log1p(most)).toFixed(2)});
      parts.push(link(c.column, `cell${c.errors * 2 >= c.traces && c.errors ? ' bad' : ''}`, `${numbers(c)}\n${duration(c.low_ns)} – ${duration(c.high_ns + 1)}\n${when(c.column)}`, rect));
    }
    const tallest = Math.max(...[...sums.values()].map((s) => s.traces), 1);
    for (const [k, s] of sums) {
      const bar = (n, cls) => {
        const height = n ? Math.max(1, (n / tallest) * (COUNTS - 6)) : 0;
        return svg('rect', {class: cls, x: x(from + k * column), width: Math.max(1, x(from + column) - x(from) - 0.5), y: HEIGHT - 22 - height, height});
      };
      parts.push(link(k, 'count', `${numbers(s)}\n${when(k)}`, svg('g', {}, bar(s.traces, ''), bar(s.errors, 'failed'))));
    }
    traces.forEach((t, i) => {
      const [px, py] = [x(Math.max(from, starts[i])), y(logs[i])];
      const bad = t.errors > 0;
      const shape = bad ? svg('path', {d: `M${px} ${py - 5}l5 5l-5 5l-5 -5z`}) : svg('circle', {cx: px, cy: py, r: 3.5});
      parts.push(svg('a', {
        href: traceHref(t.trace_id), tabindex: -1, 'aria-hidden': true,
        class: `point ${bad ? 'bad' : 'good'}${t.state === 'incomplete' ? ' hollow' : ''}`,
        tip: `${t.service}: ${t.name}\n${duration(t.duration_ns)}, ${plural(t.spans, 'span')}${bad ? `, ${plural(t.errors, 'error')}` : ''}${t.state && t.state !== 'complete' ? `, ${t.state}` : ''}\n${time(t.start)}`,
      }, shape));
    });
    replace(chart, parts);
  };
  return {chart, draw};
}
