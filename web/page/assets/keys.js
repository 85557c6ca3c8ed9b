// The help on keys and marks, "?".

import {el} from './dom.js';
import {kinds, meaning} from './marks.js';
import {marks as words} from './reasons.js';

const keys = [
  ['↑ ↓', 'span above, below'],
  ['→', 'expand; then its first child'],
  ['←', 'collapse; then its parent'],
  ['Home End', 'first, last span; Page ↑ ↓ a page'],
  ['Enter', 'details of the span'],
  ['Esc', 'close the details'],
  ['/', 'find in this trace; Enter next, Shift Enter the one before'],
  ['n', 'next error'],
  ['c', 'critical path on or off'],
  ['+ − 0', 'zoom in, out, whole trace'],
  ['Shift ← →', 'earlier, later'],
  ['?', 'this help'],
];

// openHelp shows it as a dialog; the browser keeps the focus in it, Esc closes.
export function openHelp() {
  const sample = (cls) => el('i', {class: `sample ${cls}`, 'aria-hidden': true});
  const dialog = el('dialog', {class: 'help', 'aria-labelledby': 'help-title'},
    el('form', {method: 'dialog'},
      el('h2', {id: 'help-title'}, 'Keys'),
      el('dl', {class: 'keys'}, keys.flatMap(([key, what]) => [el('dt', {}, el('kbd', {}, key)), el('dd', {}, what)])),
      el('h2', {}, 'Marks'),
      el('dl', {class: 'keys'},
        [['self', 'Solid: the span’s own time, in which none of its children ran.'],
          ['light', 'Light: time that children cover.'],
          ['critical', 'Line below: the critical path. Only what is on it makes the trace shorter when it gets faster.'],
          ['gap', words.gap]].flatMap(([cls, what]) => [el('dt', {}, sample(cls)), el('dd', {}, what)]),
        kinds.flatMap((kind) => [el('dt', {class: `mark ${kind.cls}`}, kind.symbol), el('dd', {}, meaning(kind))])),
      el('button', {class: 'primary', autofocus: true}, 'Close')));
  dialog.addEventListener('close', () => dialog.remove());
  dialog.addEventListener('click', (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
}
