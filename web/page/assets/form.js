// The form that searches traces. Its state is the query of the address.

import {el, add, replace, visible} from './dom.js';
import {get} from './api.js';
import {retro as retroReasons} from './reasons.js';

const ranges = [['15m', 'last 15 minutes'], ['1h', 'last hour'], ['6h', 'last 6 hours'], ['24h', 'last 24 hours'], ['168h', 'last 7 days']];
const kinds = ['server', 'client', 'internal', 'producer', 'consumer'];
const TRACE_ID = /^[0-9a-f]{32}$/i;

// attributes reads conditions between spaces: key=value, key>=500 and the like; a
// value with spaces stands in double quotes.
export function attributes(text) {
  const pairs = [];
  const wrong = [];
  for (const [word] of text.matchAll(/(?:[^\s"]|"(?:[^"\\]|\\.)*"?)+/g)) {
    const [, key, op, text] = word.match(/^([^=!<>]+)(=|!=|[<>]=?)(.*)$/s) ?? [];
    if (!key || (/[<>]/.test(op) && (text === '' || Number.isNaN(Number(text))))) {
      wrong.push(word);
      continue;
    }
    let value = text;
    if (value.length > 1 && value.startsWith('"') && value.endsWith('"')) value = value.slice(1, -1).replace(/\\(.)/g, '$1');
    pairs.push(`${key}${op}${value}`);
  }
  return {pairs, wrong};
}

// quote is the inverse for one pair.
export function quote(pair) {
  const at = pair.match(/^[^=!<>]+(=|!=|[<>]=?)/)?.[0].length ?? 0;
  const value = pair.slice(at);
  return /[\s"]/.test(value) ? `${pair.slice(0, at)}"${value.replace(/["\\]/g, '\\$&')}"` : pair;
}

// traceID finds a trace id in what was pasted: alone, in a link, or as traceparent.
export function traceID(text) {
  const t = text.trim();
  if (TRACE_ID.test(t)) return t.toLowerCase();
  const found = t.match(/(?:^|[^0-9a-f])([0-9a-f]{32})(?![0-9a-f])/i);
  return found && /[/-]/.test(t) ? found[1].toLowerCase() : undefined;
}

// goDuration checks a duration as the API takes it; a number alone is in ms.
export function goDuration(text) {
  const t = text.trim().replace(/\s+/g, '');
  if (t === '') return '';
  if (/^\d+(\.\d+)?$/.test(t)) return `${t}ms`;
  return /^(\d+(\.\d+)?(ns|us|µs|μs|ms|s|m|h))+$/.test(t) ? t : undefined;
}

const option = (value, label, selected) => el('option', {value, selected: value === selected}, label);
const field = (label, control, cls = '', tip = undefined) => el('label', {class: `field ${cls}`, tip}, el('span', {class: 'label'}, label), control);

// local is a moment as datetime-local shows it.
function local(ms) {
  const t = new Date(Number(ms));
  return Number.isNaN(t.getTime()) ? '' : new Date(t.getTime() - t.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
}

// timeRange is the choice of a range or of two moments, as a fieldset's parts.
export function timeRange(query, changed) {
  const custom = query.get('start') || query.get('end');
  const select = el('select', {name: 'last'},
    ranges.map(([value, label]) => option(value, label, custom ? '' : query.get('last') || '1h')),
    option('', 'from … to', custom ? '' : undefined));
  const start = el('input', {type: 'datetime-local', name: 'start', step: '1', value: local(query.get('start'))});
  const end = el('input', {type: 'datetime-local', name: 'end', step: '1', value: local(query.get('end'))});
  const moments = [field('From', start), field('To', end)];
  const show = () => moments.forEach((m) => { m.hidden = select.value !== ''; });
  select.addEventListener('change', () => {
    show();
    if (select.value === '' && !start.value) {
      start.value = local(Date.now() - 3600e3);
      end.value = local(Date.now());
    }
    changed?.();
  });
  if (changed) for (const input of [start, end]) input.addEventListener('change', changed);
  show();
  return {
    parts: [field('Time', select), ...moments],
    value: () => (select.value ? {last: select.value}
      : {start: start.value ? new Date(start.value).getTime() : '', end: end.value ? new Date(end.value).getTime() : ''}),
  };
}

// rangeOf is the time range of an address, as the API takes it.
export const rangeOf = (query) => (query.get('start') || query.get('end')
  ? {start: query.get('start'), end: query.get('end')} : {last: query.get('last') || '1h'});

const conditions = ['service', 'calls', 'operation', 'kind', 'min', 'max', 'status', 'state', 'retro', 'roots'];

// conditionsOf is what an address searches, as the API takes it.
export const conditionsOf = (query) => ({
  ...Object.fromEntries(conditions.map((key) => [key, query.get(key)])), attr: query.getAll('attr'), ...rangeOf(query),
});

// searchForm builds the form; submitted(query) gets what was asked for, opened(id)
// a trace id that was pasted.
export function searchForm(query, {submitted, opened, signal}) {
  const service = el('select', {name: 'service'}, option('', 'any', query.get('service') ?? ''));
  const current = query.get('service');
  if (current) service.append(option(current, current, current));
  const operation = el('input', {name: 'operation', list: 'operations', value: query.get('operation') ?? '', placeholder: 'any', autocomplete: 'off', spellcheck: 'false'});
  const operations = el('datalist', {id: 'operations'});
  const kind = el('select', {name: 'kind'}, option('', 'any'), kinds.map((k) => option(k, k, query.get('kind'))));
  const min = el('input', {name: 'min', value: query.get('min') ?? '', placeholder: '10ms', size: 6, autocomplete: 'off'});
  const max = el('input', {name: 'max', value: query.get('max') ?? '', placeholder: '2s', size: 6, autocomplete: 'off'});
  const status = el('select', {name: 'status'}, option('', 'any'), option('error', 'error', query.get('status')), option('ok', 'no error', query.get('status')));
  const state = el('select', {name: 'state'}, option('', 'any'), option('complete', 'complete', query.get('state')), option('unlinked', 'unlinked: part of more', query.get('state')), option('incomplete', 'incomplete', query.get('state')));
  const retro = el('select', {name: 'retro'}, option('', 'any'), option('any', 'kept', query.get('retro')), Object.entries(retroReasons).map(([k, why]) => option(k, why, query.get('retro'))));
  const attrs = el('input', {name: 'attr', value: query.getAll('attr').map(quote).join(' '), placeholder: 'url.path=/check* http.response.status_code>=500', autocomplete: 'off', spellcheck: 'false'});
  const roots = el('input', {type: 'checkbox', name: 'roots', prop: {checked: query.get('roots') === 'true'}});
  const calls = el('input', {name: 'calls', value: query.get('calls') ?? '', placeholder: 'any', autocomplete: 'off', spellcheck: 'false'});
  const id = el('input', {name: 'id', placeholder: 'paste a trace id', autocomplete: 'off', spellcheck: 'false'});
  const problem = el('p', {class: 'problem', role: 'alert'});
  const range = timeRange(query);

  const more = el('details', {class: 'more', open: ['calls', 'kind', 'max', 'state', 'retro', 'attr', 'roots'].some((k) => query.get(k))},
    el('summary', {}, 'More conditions'),
    el('div', {class: 'fields'}, field('Calls to', calls), field('Kind', kind, 'narrow'), field('Longest', max, 'narrow'), field('Trace is', state, 'narrow'), field('Retro', retro, 'narrow', 'Traces that the agent kept afterwards, because something failed or was slow.'), field('Attributes', attrs, 'wide', 'key=value with spaces between. In a value * is any text, "two words" stand in quotes; numbers compare with <, <=, >, >=; != is another value.'),
      el('label', {class: 'check', tip: 'Only spans without a parent match: what came in from outside.'}, roots, ' roots only')));

  const form = el('form', {class: 'search', role: 'search', 'aria-label': 'Traces'},
    el('div', {class: 'fields'}, field('Service', service), field('Operation', operation, 'wide'), operations,
      field('Shortest', min, 'narrow'), field('Status', status, 'narrow'), range.parts, field('Trace id', id),
      el('button', {type: 'submit', class: 'primary'}, 'Search')),
    more, problem);

  const wrong = (input, text) => {
    input.setAttribute('aria-invalid', 'true');
    problem.textContent = text;
    input.focus();
  };

  form.addEventListener('submit', (event) => {
    event.preventDefault();
    problem.textContent = '';
    for (const input of form.elements) input.removeAttribute('aria-invalid');
    if (id.value.trim()) {
      const found = traceID(id.value);
      if (found) opened(found);
      else wrong(id, 'A trace id is 32 hexadecimal digits; a link or a traceparent with one will do, too.');
      return;
    }
    const [shortest, longest] = [goDuration(min.value), goDuration(max.value)];
    if (shortest === undefined) return wrong(min, 'A duration is a number with a unit: 250us, 10ms, 1.5s, 2m.');
    if (longest === undefined) {
      more.open = true;
      return wrong(max, 'A duration is a number with a unit: 250us, 10ms, 1.5s, 2m.');
    }
    const {pairs, wrong: words} = attributes(attrs.value);
    if (words.length) {
      more.open = true;
      return wrong(attrs, `Attributes are key=value, key!=value or key>=number, with spaces between; this is not: ${words[0]}`);
    }
    submitted({
      service: service.value, calls: calls.value.trim(), operation: operation.value.trim(), kind: kind.value, min: shortest, max: longest,
      status: status.value, state: state.value, retro: retro.value, attr: pairs, roots: roots.checked ? 'true' : '', ...range.value(),
    });
  });
  id.addEventListener('paste', () => setTimeout(() => traceID(id.value) && form.requestSubmit()));

  const loadOperations = async () => {
    operations.replaceChildren();
    if (!service.value) return;
    try {
      const answer = await get('operations', {service: service.value}, signal);
      const names = [...new Set(answer.operations.map((o) => o.name))];
      replace(operations, names.slice(0, 500).map((name) => el('option', {value: name, label: visible(name) === name ? undefined : visible(name)})));
    } catch {
      // Only suggestions are missing; the search itself will say what is wrong.
    }
  };
  service.addEventListener('change', () => {
    operation.value = '';
    loadOperations();
  });
  get('services', {}, signal).then(({services}) => {
    const names = new Set(services.map((s) => s.name));
    if (current) names.add(current);
    replace(service, option('', 'any', current ?? ''), [...names].sort().map((name) => option(name, name, current)));
    return loadOperations();
  }).catch(() => {});
  return add(el('div', {class: 'card'}), form);
}
