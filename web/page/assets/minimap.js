// The whole trace in small, above the waterfall: a drag chooses the part that
// is shown, a double click shows all of it. The keys + - 0 do the same.

import {el, replace} from './dom.js';
import {slot} from './color.js';
import {duration} from './format.js';

const HEIGHT = 44; // px
const LEAST = 4; // px: a shorter drag is a click

// canvasColors resolves the colours of the theme, which a canvas cannot.
function canvasColors() {
  const probe = el('i', {class: 'offscreen'});
  document.body.append(probe);
  const read = (value) => {
    probe.style.color = value;
    return getComputedStyle(probe).color;
  };
  const colors = {services: Array.from({length: 12}, (_, k) => read(`var(--s${k})`)), bad: read('var(--bad)'), gap: read('var(--gap)')};
  probe.remove();
  return colors;
}

// minimap returns its element, draw() and show([from, to]).
export function minimap(tree, chosen) {
  const canvas = el('canvas', {'aria-hidden': true, prop: {height: HEIGHT}});
  const window = el('i', {class: 'minimap-window'});
  const shadeLeft = el('i', {class: 'minimap-shade'});
  const shadeRight = el('i', {class: 'minimap-shade'});
  const range = el('span', {class: 'minimap-range'});
  const box = el('div', {class: 'minimap', tip: 'Drag to zoom in, double click to see the whole trace.'}, canvas, shadeLeft, shadeRight, window, range);
  const slots = tree.trace.services.map((s) => slot(s.name));

  const draw = () => {
    const width = box.clientWidth;
    if (!width) return;
    const scale = devicePixelRatio || 1;
    canvas.width = width * scale;
    canvas.height = HEIGHT * scale;
    const c = canvas.getContext('2d');
    c.scale(scale, scale);
    const colors = canvasColors();
    c.fillStyle = colors.gap;
    for (const [from, to] of tree.trace.gaps ?? []) c.fillRect((from / tree.length) * width, 0, Math.max(1, ((to - from) / tree.length) * width), HEIGHT);
    const n = tree.spans.length;
    const lane = Math.min(4, (HEIGHT - 4) / n);
    const drawn = new Set(); // of many thousand spans most fall onto the same pixels
    tree.spans.forEach((span, i) => {
      const x = (span.start_ns / tree.length) * width;
      const w = Math.max(1, (span.duration_ns / tree.length) * width);
      const y = 2 + i * lane;
      const bad = span.status === 'error';
      const key = `${Math.round(x)} ${Math.round(w)} ${Math.round(y)} ${bad}`;
      if (drawn.has(key)) return;
      drawn.add(key);
      c.fillStyle = bad ? colors.bad : colors.services[slots[span.service] ?? 0];
      c.fillRect(x, y, w, Math.max(0.75, lane * 0.75));
    });
  };

  const mark = (a, b) => {
    const [left, right] = [Math.max(0, a) * 100, Math.min(1, b) * 100];
    shadeLeft.style.width = `${left}%`;
    shadeRight.style.left = `${right}%`;
    window.style.left = `${left}%`;
    window.style.width = `${right - left}%`;
  };
  const show = ([from, to]) => {
    const whole = to - from >= tree.length;
    box.classList.toggle('zoomed', !whole);
    mark(from / tree.length, to / tree.length);
    replace(range, whole ? '' : `${duration(from)} – ${duration(to)}`);
  };

  const share = (event) => {
    const r = box.getBoundingClientRect();
    return Math.max(0, Math.min(1, (event.clientX - r.left) / r.width));
  };
  let began;
  box.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return;
    began = share(event);
    box.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  box.addEventListener('pointermove', (event) => {
    if (began === undefined) return;
    const now = share(event);
    box.classList.add('zoomed');
    mark(Math.min(began, now), Math.max(began, now));
  });
  const end = (event) => {
    if (began === undefined) return;
    const [from, to] = [Math.min(began, share(event)), Math.max(began, share(event))];
    began = undefined;
    if ((to - from) * box.clientWidth < LEAST) chosen(undefined);
    else chosen([from * tree.length, to * tree.length]);
  };
  box.addEventListener('pointerup', end);
  box.addEventListener('pointercancel', () => {
    began = undefined;
    chosen(undefined);
  });
  box.addEventListener('dblclick', () => chosen([0, tree.length]));
  return {box, draw, show};
}
