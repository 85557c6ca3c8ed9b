// The tracer's own health: what was traced, what was lost and why, and what it
// cost. Rates are between two readings; before the second there are totals only.

import {el, add, replace, message, refreshed, say} from './dom.js';
import {get} from './api.js';
import {table} from './table.js';
import {ago, bytes, count, duration, isTime, percent, plural, rate, rateUnit, time, utc} from './format.js';
import {explain, leftOut, lost, unlinked, tagsIgnored, whyIncomplete, whyUnlinked, whyKept} from './reasons.js';

const EVERY = 5000; // ms
const programSort = [2, true];

const sum = (counts) => Object.values(counts ?? {}).reduce((a, b) => a + b, 0);
const badge = (cls, text) => el('span', {class: `badge ${cls}`}, text);

// tile is one number with its name; note says more below.
const tile = (name, value, note, cls = '') => el('div', {class: `tile ${cls}`}, el('dt', {}, name), el('dd', {}, el('span', {class: 'tile-value'}, value), note ? el('span', {class: 'tile-note'}, note) : ''));
const tiles = (...list) => el('dl', {class: 'tiles'}, list);

// reasons lists counts by reason, the zero ones folded.
function reasons(title, counts, words, none) {
  const all = Object.entries(counts ?? {}).sort((a, b) => b[1] - a[1]);
  const some = all.filter(([, n]) => n > 0);
  const zero = all.filter(([, n]) => !(n > 0));
  const row = ([reason, n]) => el('tr', {}, el('th', {scope: 'row'}, el('code', {}, reason || 'no reason')), el('td', {class: 'number'}, count(n)), el('td', {class: 'dim'}, words(reason)));
  return el('section', {class: 'reasons'},
    el('h3', {}, title, some.length ? el('span', {class: 'badge warn'}, count(sum(counts))) : ''),
    some.length ? el('table', {}, el('tbody', {}, some.map(row))) : el('p', {class: 'fine'}, none),
    zero.length ? el('details', {}, el('summary', {}, `${plural(zero.length, 'reason')} at zero`), el('table', {}, el('tbody', {}, zero.map(row)))) : '');
}

function programs(list, before, seconds) {
  if (!list?.some((p) => p.runs)) return el('section', {}, el('h3', {}, 'Cost of the kernel programs'), el('p', {class: 'dim'}, 'Not measured: start the agent with ', el('code', {}, '--bpf-stats'), '. The kernel then takes the time of every run, which costs some tens of ns itself.'));
  const old = new Map((before ?? []).map((p) => [`${p.name} ${p.hook}`, p]));
  const rows = list.map((p) => {
    const was = old.get(`${p.name} ${p.hook}`);
    const delta = was && seconds > 0 && p.runs >= was.runs;
    return {...p, rate: delta ? (p.runs - was.runs) / seconds : NaN, share: delta ? (p.seconds - was.seconds) / seconds : NaN};
  });
  const rateText = rateUnit(rows.map((p) => p.rate));
  const share = rows.reduce((a, p) => a + (p.share || 0), 0);
  return el('section', {},
    el('h3', {}, 'Cost of the kernel programs', el('span', {class: 'dim'}, seconds > 0 ? ` ${percent(share)} of one CPU in the last ${Math.round(seconds)} s` : '')),
    table('Kernel programs', [
      {label: 'Program', value: (p) => p.name, cell: (p) => el('code', {}, p.name)},
      {label: 'Hook', value: (p) => p.hook, cell: (p) => p.hook},
      {label: 'Runs', number: true, value: (p) => p.runs, cell: (p) => count(p.runs)},
      {label: 'Per run', number: true, value: (p) => p.ns_per_run, cell: (p) => (p.runs ? duration(p.ns_per_run) : '–')},
      {label: 'Rate', number: true, value: (p) => p.rate || 0, cell: (p) => rateText(p.rate)},
      {label: 'Share of a CPU', number: true, value: (p) => p.share || 0, cell: (p) => percent(p.share)},
    ], rows, programSort, true));
}

// weight tells what the kernel programs took on the sockets of each service, while they were timed.
function weight(w) {
  const title = el('h3', {}, 'Weight of the kernel programs by service');
  if (!w?.weighed_seconds) return el('section', {}, title, el('p', {class: 'dim'}, 'Not weighed yet: the agent times them for a second of each minute, and when ', el('code', {}, 'tare weigh'), ' asks.'));
  const rateText = rateUnit(w.services.map((s) => s.requests / w.weighed_seconds));
  const row = (s) => el('tr', {}, el('th', {scope: 'row'}, s.name || 'sockets that are not traced'),
    el('td', {class: 'number'}, s.name ? rateText(s.requests / w.weighed_seconds) : ''),
    el('td', {class: 'number'}, s.requests ? duration(s.kernel_seconds / s.requests * 1e9) : '–'),
    el('td', {class: 'number'}, percent(s.kernel_seconds / w.weighed_seconds)));
  return el('section', {class: 'reasons'}, title, el('p', {class: 'dim'}, `Timed for ${Math.round(w.weighed_seconds)} s so far, a second of each minute. A request costs its service what it receives and what it asks others; not what the kernel takes to call the programs.`),
    el('table', {}, el('thead', {}, el('tr', {}, ['Service', 'Requests', 'Per request', 'Share of a CPU'].map((t, i) => el('th', {scope: 'col', class: i ? 'number' : ''}, t)))),
      el('tbody', {}, w.services.map(row))));
}

// unanswered lists peers that do not answer tags.
function unanswered(peers) {
  if (!peers?.length) return '';
  const row = (p) => el('tr', {}, el('th', {scope: 'row'}, el('code', {}, p.address)), el('td', {class: 'number'}, count(p.requests)),
    el('td', {class: 'dim'}, p.sends_tags ? 'has an agent: tags come from there. Something on the path removes TCP options' : 'has no agent, or something on the path removes TCP options'));
  return el('section', {class: 'reasons'}, el('h3', {}, 'Peers that do not answer tags', peers.some((p) => p.sends_tags) ? el('span', {class: 'badge warn'}, count(peers.length)) : ''),
    el('p', {class: 'dim'}, 'Traces end at them. ', el('code', {}, 'tare doctor --peer ADDRESS'), ' asks the path. Requests since the last answer:'), el('table', {}, el('tbody', {}, peers.map(row))));
}

function agentCard(agent, before, seconds) {
  const losses = sum(agent.lost);
  const {sampled = 0, unsampled = 0, retro = 0} = agent.roots ?? {};
  const per = before && seconds > 0 && agent.spans >= before.spans ? rate((agent.spans - before.spans) / seconds) : '';
  const armed = agent.connections?.armed ?? 0;
  const unarmed = agent.connections?.unarmed ?? 0;
  const w = agent.weight ?? {};
  const cpu = before?.weight && seconds > 0 && w.cpu_seconds >= before.weight.cpu_seconds ? (w.cpu_seconds - before.weight.cpu_seconds) / seconds : NaN;
  return [
    el('p', {class: `verdict ${losses ? 'warn' : 'good'}`}, losses
      ? `${count(losses)} records, tags or spans were lost, beside ${plural(agent.spans, 'span')} that were built.`
      : agent.spans ? `Nothing was lost: every sampled request became spans (${plural(agent.spans, 'span')}).` : 'Nothing was lost, and nothing was traced yet.'),
    tiles(tile('Sampling rate', percent(agent.sampling_ratio), 'of the traces that begin here'),
      tile('Roots', count(sampled + unsampled + retro), `${count(sampled)} sampled`),
      agent.retro ? tile('Remembered', agent.retro.horizon_seconds ? `${Math.round(10 * agent.retro.horizon_seconds) / 10} s` : 'all',
        `${plural(agent.retro.kept, 'failed or slow trace')} kept${agent.retro.limited ? `, ${count(agent.retro.limited)} too many` : ''}`, agent.retro.limited ? 'warn' : '') : '',
      tile('Spans', count(agent.spans), per ? `${per} now` : 'built'),
      tile('In progress', count(agent.open_spans), 'open spans'),
      w.memory_bytes ? tile('Process', bytes(w.memory_bytes), Number.isNaN(cpu) ? 'memory' : `memory, ${percent(cpu)} of a CPU now`) : '',
      armed + unarmed ? tile('Older connections', count(armed), unarmed ? `traced, ${count(unarmed)} not` : 'traced, all of them', unarmed ? 'warn' : '') : ''),
    el('div', {class: 'columns'},
      reasons('Lost', agent.lost, (r) => explain(r, lost), 'Nothing lost.'),
      reasons('Not linked to a request', agent.unlinked, (r) => explain(r, unlinked), 'Every message was linked.'),
      reasons('Tags ignored', agent.tags_ignored, (r) => explain(r, tagsIgnored), 'No tag was ignored.'),
      reasons('No room for', agent.left_out, (r) => explain(r, leftOut), 'There is room for everything.')),
    unanswered(agent.unanswered),
    weight(agent.weight),
    programs(agent.programs, before?.programs, seconds),
  ];
}

function collectorCard(c, before, seconds) {
  const [incomplete, partly] = [sum(c.traces?.incomplete), sum(c.traces?.unlinked)];
  const complete = c.traces?.complete ?? 0;
  const all = complete + partly + incomplete;
  const trouble = c.refused_spans + c.failed_spans;
  const per = before && seconds > 0 && c.accepted_spans >= before.accepted_spans ? rate((c.accepted_spans - before.accepted_spans) / seconds) : '';
  return [
    el('p', {class: `verdict ${trouble ? 'warn' : 'good'}`}, trouble
      ? `${count(c.refused_spans)} spans were refused and ${count(c.failed_spans)} could not be exported.`
      : `Nothing was refused, and everything was exported.`),
    tiles(tile('Spans received', count(c.accepted_spans), per ? `${per} now` : ''),
      tile('Complete traces', count(complete), all ? `${percent(complete / all)} of all` : ''),
      tile('Unlinked', count(partly), partly ? 'traces of services whose calls are not linked' : 'every call was linked'),
      tile('Incomplete', count(incomplete), '', incomplete ? 'warn' : ''),
      tile('Late spans', count(c.late_spans), 'after their trace', c.late_spans ? 'warn' : ''),
      tile('Not kept', count(c.dropped_traces), 'traces, by tail sampling'),
      tile('Exported', count(c.exported_spans), c.failed_spans ? `spans, ${count(c.failed_spans)} failed` : 'spans', c.failed_spans ? 'warn' : ''),
      tile('Queue', count(c.queue), 'batches waiting')),
    el('div', {class: 'columns'},
      reasons('Incomplete traces', c.traces?.incomplete, whyIncomplete, all ? 'None was incomplete.' : 'No trace yet.'),
      partly ? reasons('Parts of what a request caused', c.traces.unlinked, whyUnlinked, '') : '',
      Object.keys(c.kept ?? {}).length ? reasons('Kept by tail sampling', c.kept, whyKept, 'None yet.') : ''),
  ];
}

function allMetrics(list) {
  if (!list?.length) return '';
  return el('details', {class: 'all-metrics'}, el('summary', {}, plural(list.length, 'metric')),
    el('div', {class: 'table-box', tabindex: 0, role: 'region', 'aria-label': 'Metrics'}, el('table', {}, el('tbody', {}, list.map((m) => el('tr', {},
      el('th', {scope: 'row'}, el('code', {}, m.name)),
      el('td', {class: 'dim'}, Object.entries(m.labels ?? {}).map(([k, v]) => `${k}=${v}`).join(' ')),
      el('td', {class: 'number'}, Number.isInteger(m.value) ? count(m.value) : Number(m.value).toPrecision(4))))))));
}

function sourceCard(source, before, seconds) {
  const what = [source.agent ? 'agent' : '', source.collector ? 'collector' : ''].filter(Boolean).join(' and ') || 'source';
  return el('section', {class: 'card source'},
    el('h2', {}, what[0].toUpperCase() + what.slice(1), ' ', source.up ? badge('good', 'up') : badge('bad', 'down'), el('span', {class: 'source-url'}, source.url)),
    source.up ? '' : message('error', source.error || 'It does not answer.', 'Is the process running, and is this the address of its metrics? The page reads it from where tare serves the page.'),
    source.agent ? el('div', {class: 'part'}, source.collector ? el('h3', {}, 'Agent') : '', agentCard(source.agent, before?.agent, seconds)) : '',
    source.collector ? el('div', {class: 'part'}, source.agent ? el('h3', {}, 'Collector') : '', collectorCard(source.collector, before?.collector, seconds)) : '',
    source.up && !source.agent && !source.collector ? el('p', {class: 'dim'}, 'It answers, but has no metrics of an agent or a collector.') : '',
    allMetrics(source.metrics));
}

// What the store knows to be lost or damaged; "" if nothing.
function damageOf(d) {
  const unsound = d && (d.lost_spans || d.unreadable_spans || d.files.length || d.notes.length || d.quarantine.length);
  if (!unsound) return '';
  const list = (title, items) => items.length ? [el('h3', {}, title), el('ul', {}, items.map((i) => el('li', {}, i)))] : '';
  return el('div', {class: 'part'},
    el('p', {class: `verdict ${d.lost_spans || d.unreadable_spans || d.files.length || d.notes.length ? 'bad' : 'warn'}`}, [
      d.lost_spans ? `${plural(d.lost_spans, 'span')} that had been stored are lost.` : '',
      d.unreadable_spans ? `${plural(d.unreadable_spans, 'span')} are in damaged parts of the store.` : '',
      d.restored_spans ? `${plural(d.restored_spans, 'span')} were found in files that the store’s engine did not name, and restored.` : '',
      d.lost_spans || d.unreadable_spans || d.restored_spans ? '' : 'The store was damaged.',
      'tare store check says more, tare store repair salvages what is readable.',
    ].filter(Boolean).join(' ')),
    list('Damaged files', d.files), list('Findings', d.notes), list('In quarantine', d.quarantine));
}

// How long spans are kept.
function retention(stats) {
  const rules = stats.retention_services ?? [];
  if (!stats.retention_age && !rules.length) return '';
  const all = stats.retention_age ? `Spans are kept for ${stats.retention_age}` : 'Spans are kept until there is no room';
  const some = rules.map((r) => `those of ${r.services} for ${r.age}`).join(', ');
  const overdue = stats.overdue ? ` Up to ${plural(stats.overdue, 'span')} that no query shows any more are still on the disk.` : '';
  return el('p', {}, `${all}${some ? `, ${some}` : ''}.${overdue}`);
}

// What a reader is told who may not see all services.
function restrictedCard(stats) {
  return el('section', {class: 'card source'},
    el('h2', {}, 'Store ', badge('good', 'open'), el('span', {class: 'source-url'}, stats.version ? `tare ${stats.version}` : '')),
    el('p', {}, 'You may see some services only. What is counted here is of these.'),
    tiles(tile('Spans', count(stats.spans), ''),
      tile('Newest', isTime(stats.newest) ? el('time', {tip: utc(stats.newest)}, ago(stats.newest)) : '–', isTime(stats.newest) ? time(stats.newest, {short: true}) : 'empty')));
}

function storeCard(stats) {
  if (stats.restricted) return restrictedCard(stats);
  return el('section', {class: 'card source'},
    el('h2', {}, 'Store ', badge('good', 'open'), el('span', {class: 'source-url'}, stats.version ? `tare ${stats.version}` : '')),
    el('p', {class: `verdict ${stats.refused ? 'warn' : 'good'}`}, stats.refused ? `${plural(stats.refused, 'span')} could not be stored: the disk is full, or was.` : 'Every span that arrived was stored.'),
    tiles(tile('Spans', count(stats.spans), stats.traces ? plural(stats.traces, 'trace') : ''), tile('On disk', bytes(stats.bytes), stats.spans ? `${count(stats.bytes / stats.spans)} bytes a span` : ''),
      tile('Oldest', isTime(stats.oldest) ? el('time', {tip: utc(stats.oldest)}, ago(stats.oldest)) : '–', isTime(stats.oldest) ? time(stats.oldest, {short: true}) : 'empty'),
      tile('Newest', isTime(stats.newest) ? el('time', {tip: utc(stats.newest)}, ago(stats.newest)) : '–', isTime(stats.newest) ? time(stats.newest, {short: true}) : 'empty'),
      tile('Written', count(stats.written), 'since it was opened'), tile('Expired', count(stats.expired), 'by age or size')), retention(stats), damageOf(stats.damage));
}

// showHealth shows the sources that the server knows, and its store.
export function showHealth(root, {signal}) {
  document.title = 'Health – Tare';
  const body = el('div', {}, el('p', {class: 'loading'}, 'Asking agents and collectors …'));
  const heading = el('h1', {}, 'Health');
  const when = el('span', {class: 'dim'});
  let before;
  let beforeAt;
  const load = async (first) => {
    try {
      const [health, stats] = await Promise.all([get('health', {}, signal), get('stats', {}, signal)]);
      const now = performance.now();
      const old = new Map((before?.sources ?? []).map((s) => [s.url, s]));
      const seconds = before ? (now - beforeAt) / 1000 : 0;
      const sources = health.sources ?? [];
      refreshed(body, () => replace(body, sources.length ? sources.map((s) => sourceCard(s, old.get(s.url), seconds))
        : el('section', {class: 'card source'}, message('', 'No agent or collector is known here.', 'Name their metrics, such as http://127.0.0.1:9464/metrics, in the page’s configuration: extensions, tare_page, health.')), storeCard(stats)));
      before = health;
      beforeAt = now;
      when.textContent = `read ${time(Date.now(), {short: true})}`;
      const down = sources.filter((s) => !s.up).length;
      heading.textContent = down ? `Health: ${plural(down, 'source')} down` : 'Health';
      if (first) say(heading.textContent);
    } catch (err) {
      if (err.name === 'AbortError') return;
      if (before) when.textContent = `${err.message} Trying again.`;
      else replace(body, message('error', err.message, err.hint ?? '', el('button', {type: 'button', onclick: () => load(true)}, 'Try again')));
      if (!err.hint) throw err;
    }
  };
  const timer = setInterval(() => !document.hidden && load(false), EVERY);
  signal.addEventListener('abort', () => clearInterval(timer));
  add(replace(root, el('div', {class: 'bar-line'}, heading, when)), body);
  load(true);
}
