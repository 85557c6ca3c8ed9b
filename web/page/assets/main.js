// The page's frame: which view is shown, light or dark.

import {el, replace, message} from './dom.js';
import {parse} from './route.js';
import {startTips, hideTip} from './tip.js';
import {get} from './api.js';
import {introduce} from './color.js';
import {showTraces} from './traces.js';
import {showTrace} from './trace.js';
import {showMap} from './map.js';
import {showHealth} from './health.js';
import {showDiagnosis} from './diagnose.js';
import {showComparison} from './compare.js';

const views = {traces: showTraces, trace: showTrace, map: showMap, health: showHealth, diagnose: showDiagnosis, compare: showComparison};
const main = document.getElementById('main');
let leave; // ends the view that is shown: its requests, timers and listeners
let shown; // its address

function show() {
  const before = shown;
  shown = location.hash;
  const {parts, query} = parse(location.hash);
  const name = parts[0] ?? 'traces';
  leave?.abort();
  leave = new AbortController();
  hideTip();
  for (const link of document.querySelectorAll('nav a')) {
    const current = link.dataset.view === name || (['trace', 'diagnose', 'compare'].includes(name) && link.dataset.view === 'traces');
    if (current) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  const view = Object.hasOwn(views, name) ? views[name] : undefined;
  main.className = `view-${view ? name : 'none'}`;
  if (!view) {
    document.title = 'Tare';
    replace(main, message('', 'There is no such view.', el('p', {}, el('a', {href: '#/traces'}, 'Go to the traces'))));
    return;
  }
  if (before !== undefined && parse(before).parts[0] !== name) {
    scrollTo(0, 0);
    main.focus({preventScroll: true});
  }
  view(main, {id: parts[1], query, signal: leave.signal});
}

function theme() {
  const button = document.getElementById('theme');
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const root = document.documentElement;
  const label = () => {
    const isDark = root.dataset.theme ? root.dataset.theme === 'dark' : dark.matches;
    button.textContent = isDark ? 'Light' : 'Dark';
    button.setAttribute('aria-label', `Switch to ${isDark ? 'light' : 'dark'} colours`);
    return isDark;
  };
  button.addEventListener('click', () => {
    const next = label() ? 'light' : 'dark';
    root.dataset.theme = next;
    try {
      localStorage.setItem('tare.theme', next);
    } catch {
      // Forbidden storage: the choice holds until the page is closed.
    }
    label();
    document.dispatchEvent(new Event('themechange'));
  });
  dark.addEventListener('change', () => {
    label();
    document.dispatchEvent(new Event('themechange'));
  });
  label();
}

async function start() {
  theme();
  startTips();
  document.querySelector('.skip').addEventListener('click', (event) => {
    event.preventDefault(); // the fragment is the view's
    main.focus();
  });
  try {
    // A slow answer costs stable colours, not the page.
    introduce((await get('services', {}, AbortSignal.timeout(1000))).services.map((s) => s.name));
  } catch {
    // The view asks for itself, and says what is wrong.
  }
  addEventListener('hashchange', show);
  if (!location.hash) history.replaceState(null, '', '#/traces');
  show();
}

start();
