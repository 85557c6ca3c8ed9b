// One tooltip for the page: what has data-tip shows it on hover and on focus,
// Escape hides it. Elements that need the text without a pointer repeat it in
// an aria-label or in visible words.

import {visible} from './dom.js';

let box;
let shownFor;

function place(x, y) {
  const gap = 12;
  const {offsetWidth: w, offsetHeight: h} = box;
  const left = Math.max(4, Math.min(x + gap, innerWidth - w - 4));
  const top = y + gap + h > innerHeight ? y - gap - h : y + gap;
  box.style.left = `${left}px`;
  box.style.top = `${Math.max(4, top)}px`;
}

function showTip(text, x, y) {
  box.textContent = visible(text);
  box.hidden = false;
  place(x, y);
}

export function hideTip() {
  shownFor = undefined;
  if (box) box.hidden = true;
}

export function startTips() {
  box = document.getElementById('tip');
  document.addEventListener('pointermove', (event) => {
    const target = event.target.closest?.('[data-tip]');
    if (!target) {
      if (shownFor) hideTip();
      return;
    }
    shownFor = target;
    showTip(target.dataset.tip, event.clientX, event.clientY);
  });
  document.addEventListener('focusin', (event) => {
    const target = event.target.closest?.('[data-tip]');
    if (!target || !event.target.matches(':focus-visible')) return;
    shownFor = target;
    const r = target.getBoundingClientRect();
    showTip(target.dataset.tip, r.left, r.bottom);
  });
  document.addEventListener('focusout', hideTip);
  document.addEventListener('scroll', hideTip, {capture: true, passive: true});
  document.addEventListener('keydown', (event) => event.key === 'Escape' && hideTip());
}
