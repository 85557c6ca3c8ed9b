// A scatter plot of traces: when they began and how long they took, on a
// logarithmic axis. Failed ones are red diamonds, incomplete ones are hollow.
// For those who do not see it, the list beneath holds the same.

import {svg, replace} from './dom.js';
import {duration, tick, time, plural} from './format.js';
import {traceHref} from './route.js';

const HEIGHT = 150;
const PAD = {left: 64, right: 12, top: 10, bottom: 22};

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
export function scatter(traces) {
  const chart = svg('svg', {class: 'scatter', height: HEIGHT, role: 'img', 'aria-label': `Start and duration of ${plural(traces.length, 'trace')}; the list has the same.`});
  const draw = () => {
    const width = chart.clientWidth;
    if (!width || !traces.length) return;
    chart.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
    const starts = traces.map((t) => Date.parse(t.start));
    let from = Math.min(...starts);
    let to = Math.max(...starts);
    const margin = Math.max((to - from) * 0.02, 1);
    from -= margin;
    to += margin;
    const logs = traces.map((t) => Math.log10(Math.max(t.duration_ns, 1)));
    let low = Math.min(...logs) - 0.1;
    let high = Math.max(...logs) + 0.1;
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
        svg('text', {class: 'axis', x: x(t), y: HEIGHT - 6, 'text-anchor': 'middle'}, label(t, step)));
    }
    traces.forEach((t, i) => {
      const [px, py] = [x(starts[i]), y(logs[i])];
      const bad = t.errors > 0;
      const shape = bad ? svg('path', {d: `M${px} ${py - 5}l5 5l-5 5l-5 -5z`}) : svg('circle', {cx: px, cy: py, r: 3.5});
      parts.push(svg('a', {
        href: traceHref(t.trace_id), tabindex: -1, 'aria-hidden': true,
        class: `${bad ? 'bad' : 'good'}${t.state === 'incomplete' ? ' hollow' : ''}`,
        tip: `${t.service}: ${t.name}\n${duration(t.duration_ns)}, ${plural(t.spans, 'span')}${bad ? `, ${plural(t.errors, 'error')}` : ''}${t.state === 'incomplete' ? ', incomplete' : ''}\n${time(t.start)}`,
      }, shape));
    });
    replace(chart, parts);
  };
  return {chart, draw};
}
