// Numbers and times as people read them. Durations are in nanoseconds.

const NBSP = '\u00a0';
const grouped = new Intl.NumberFormat('en', {maximumFractionDigits: 0});

// three writes a number with three significant digits, without an exponent.
function three(x) {
  const a = Math.abs(x);
  if (a >= 100 || a === 0) return x.toFixed(0);
  return x.toFixed(a >= 10 ? 1 : 2);
}

// duration picks the unit that fits: 850 ns, 12.3 µs, 1.25 ms, 2.50 s, 3 min 05 s.
export function duration(ns) {
  if (ns === undefined || ns === null || !Number.isFinite(ns)) return '–';
  const a = Math.abs(ns);
  if (a < 1e3) return `${Math.round(ns)}${NBSP}ns`;
  // The bound of a unit is where rounding would show four digits.
  if (a < 999.5e3) return `${three(ns / 1e3)}${NBSP}µs`;
  if (a < 999.5e6) return `${three(ns / 1e6)}${NBSP}ms`;
  if (a < 59.95e9) return `${three(ns / 1e9)}${NBSP}s`;
  const seconds = Math.round(a / 1e9);
  const pad = (n) => String(n).padStart(2, '0');
  const sign = ns < 0 ? '-' : '';
  if (seconds < 3600) return `${sign}${Math.floor(seconds / 60)}${NBSP}min${NBSP}${pad(seconds % 60)}${NBSP}s`;
  return `${sign}${Math.floor(seconds / 3600)}${NBSP}h${NBSP}${pad(Math.floor((seconds % 3600) / 60))}${NBSP}min`;
}

// tick is a duration on an axis: as short as its step allows.
export function tick(ns, step) {
  if (ns === 0) return '0';
  const [unit, size] = Math.abs(ns) < 1e3 ? ['ns', 1] : Math.abs(ns) < 1e6 ? ['µs', 1e3] : Math.abs(ns) < 1e9 ? ['ms', 1e6] : ['s', 1e9];
  const digits = Math.max(0, Math.min(6, -Math.floor(Math.log10(step / size) + 1e-9)));
  return `${(ns / size).toFixed(digits)}${NBSP}${unit}`;
}

export const count = (n) => (Number.isFinite(n) ? grouped.format(n) : '–');

// plural: 1 span, 2 spans.
export const plural = (n, one, many = `${one}s`) => `${count(n)}${NBSP}${n === 1 ? one : many}`;

export function rate(perSecond) {
  if (!Number.isFinite(perSecond)) return '–';
  if (perSecond === 0) return `0/s`;
  if (perSecond >= 1000) return `${count(perSecond)}/s`;
  if (perSecond >= 0.1) return `${three(perSecond)}/s`;
  if (perSecond * 60 >= 0.1) return `${three(perSecond * 60)}/min`;
  return `${three(perSecond * 3600)}/h`;
}

// rateUnit fits a whole table or drawing: numbers that are compared have one
// unit, that of the largest.
export function rateUnit(rates) {
  const most = Math.max(0, ...rates.filter(Number.isFinite));
  const [unit, seconds] = most >= 0.5 || most === 0 ? ['/s', 1] : most * 60 >= 0.5 ? ['/min', 60] : ['/h', 3600];
  return (perSecond) => {
    const x = perSecond * seconds;
    if (!Number.isFinite(x)) return '–';
    return `${x === 0 ? '0' : x >= 1000 ? count(x) : x < 0.01 ? '<0.01' : three(x)}${unit}`;
  };
}

export function percent(share) {
  if (!Number.isFinite(share)) return '–';
  const p = share * 100;
  if (p === 0) return '0%';
  if (p < 0.01) return '<0.01%';
  if (p > 99.99 && p < 100) return '>99.99%';
  return `${p === 100 || p >= 99.95 ? p.toFixed(p === 100 ? 0 : 2) : p >= 10 ? p.toFixed(1) : p.toFixed(2)}%`;
}

export function bytes(n) {
  if (!Number.isFinite(n)) return '–';
  for (const [unit, size] of [['GiB', 2 ** 30], ['MiB', 2 ** 20], ['KiB', 2 ** 10]]) {
    if (n >= size) return `${three(n / size)}${NBSP}${unit}`;
  }
  return `${count(n)}${NBSP}B`;
}

const clock = new Intl.DateTimeFormat(undefined, {hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3, hourCycle: 'h23'});
const clockShort = new Intl.DateTimeFormat(undefined, {hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23'});
const day = new Intl.DateTimeFormat(undefined, {month: 'short', day: 'numeric'});
const dayYear = new Intl.DateTimeFormat(undefined, {year: 'numeric', month: 'short', day: 'numeric'});

// isTime tells a time from Go's zero one, which means "none".
export const isTime = (text) => Date.parse(text) > -62135596800000;

// time is a moment in the reader's zone; the day only where it is not today.
export function time(at, {short = false, now = new Date()} = {}) {
  const t = new Date(at);
  if (Number.isNaN(t.getTime())) return '–';
  const text = (short ? clockShort : clock).format(t);
  if (t.toDateString() === now.toDateString()) return text;
  return `${(t.getFullYear() === now.getFullYear() ? day : dayYear).format(t)}, ${text}`;
}

// utc is the same moment for a tooltip, and in whose zone the other one was.
export function utc(at) {
  const t = new Date(at);
  if (Number.isNaN(t.getTime())) return '';
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return `${typeof at === 'string' && at.endsWith('Z') ? at : t.toISOString()} (UTC)${zone && zone !== 'UTC' ? `; shown in ${zone}` : ''}`;
}

// ago is how long since a moment, in one unit.
export function ago(at, now = Date.now()) {
  const s = Math.max(0, (now - Date.parse(at)) / 1000);
  if (Number.isNaN(s)) return '–';
  if (s < 90) return `${Math.round(s)}${NBSP}s ago`;
  if (s < 5400) return `${Math.round(s / 60)}${NBSP}min ago`;
  if (s < 129600) return `${Math.round(s / 3600)}${NBSP}h ago`;
  return `${Math.round(s / 86400)}${NBSP}days ago`;
}

// ticks are round numbers within [from, to], about n of them.
export function ticks(from, to, n) {
  const span = to - from;
  if (!(span > 0)) return {step: 1, values: [from]};
  const raw = span / Math.max(1, n);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
  const values = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9; i++) values.push(i * step);
  return {step, values};
}
