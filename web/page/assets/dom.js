// Building of elements. Text becomes text nodes and nothing is ever parsed as
// markup, so that a hostile span name is only a strange name.

const SVG = 'http://www.w3.org/2000/svg';

// Characters that are not seen as themselves, or change the order or the place of others:
// controls but for the end of a line and the tab, bidirectional and other formats, fillers.
// Not the selectors of variants, which emoji have.
const HIDDEN = /(?![\n\t\u180b-\u180d\u180f\ufe00-\ufe0f])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}\p{Default_Ignorable_Code_Point}]/gu;

// visible is a text that shows what it consists of: hidden characters as \u202e. All texts
// of elements pass through it. What is sent, copied or compared stays as it is. In Go,
// package span/text does the same.
export const visible = (text) => String(text).replace(HIDDEN, (found) =>
  Array.from({length: found.length}, (_, k) => `\\u${found.charCodeAt(k).toString(16).padStart(4, '0')}`).join(''));

function fill(node, props, children) {
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (key === 'tip') node.dataset.tip = value;
    else if (key === 'prop') Object.assign(node, value);
    else if (key.startsWith('aria-') || key === 'title' || key === 'placeholder') node.setAttribute(key, visible(value));
    else node.setAttribute(key, value === true ? '' : String(value));
  }
  add(node, children);
  return node;
}

// add appends nodes and texts, and lists of them; empty ones are left out.
export function add(node, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false || child === '') continue;
    node.append(child instanceof Node ? child : visible(child));
  }
  return node;
}

// el makes an HTML element: attributes, on… listeners, prop for properties.
export const el = (tag, props, ...children) => fill(document.createElement(tag), props, children);

// svg makes an SVG element.
export const svg = (tag, props, ...children) => fill(document.createElementNS(SVG, tag), props, children);

export const replace = (node, ...children) => {
  node.replaceChildren();
  return add(node, children);
};

// message is a paragraph that stands where there is nothing to show: what
// happened, and what to do next.
export function message(kind, title, ...what) {
  return el('div', {class: `message ${kind}`, role: kind === 'error' ? 'alert' : undefined},
    el('p', {class: 'message-title'}, title), what.map((w) => (w instanceof Node ? w : el('p', {}, w))));
}

// breakable is a text that may wrap after punctuation, as long keys should, but not
// within a word.
export function breakable(text) {
  const parts = text.split(/(?<=[._/:@-])/);
  return parts.flatMap((part, k) => (k ? [el('wbr'), part] : [part]));
}

// say tells a screen reader what changed.
export function say(text) {
  const said = document.getElementById('said');
  if (said) said.textContent = visible(text);
}

// refreshed replaces the contents of a box; details that were open, the scroll position
// and the focus stay, identified by their order in the box.
export function refreshed(box, show) {
  const all = (selector) => [...box.querySelectorAll(selector)];
  const focusable = 'a[href], button, summary, [tabindex="0"]';
  const open = all('details').map((d) => d.open);
  const scrolled = all('.table-box, .map-box').map((b) => [b.scrollTop, b.scrollLeft]);
  const focused = all(focusable).indexOf(document.activeElement);
  show();
  all('details').forEach((d, k) => { d.open = open[k] ?? d.open; });
  all('.table-box, .map-box').forEach((b, k) => { [b.scrollTop, b.scrollLeft] = scrolled[k] ?? [0, 0]; });
  if (focused >= 0) all(focusable)[focused]?.focus({preventScroll: true});
}

// toggle is a button that is pressed or not.
export function toggle(label, pressed, changed, props) {
  const button = el('button', {type: 'button', class: 'toggle', 'aria-pressed': String(pressed), ...props}, label);
  button.addEventListener('click', () => {
    const now = button.getAttribute('aria-pressed') !== 'true';
    button.setAttribute('aria-pressed', String(now));
    changed(now);
  });
  return button;
}
