// Services as chips: colour, name, number of spans, and errors in words.

import {el, add} from './dom.js';
import {count, plural} from './format.js';
import {color} from './color.js';

function chip({name, spans, errors}) {
  const mark = el('i', {class: 'dot', 'aria-hidden': true});
  mark.style.background = color(name);
  return add(el('span', {class: `chip${errors ? ' failed' : ''}`, tip: `${name}: ${plural(spans, 'span')}${errors ? `, ${plural(errors, 'error')}` : ''}`}),
    mark, el('span', {class: 'chip-name'}, name), el('span', {class: 'chip-count'}, count(spans)),
    errors ? el('span', {class: 'chip-errors'}, `${count(errors)} failed`) : '');
}

// pickers shows all, as buttons that are pressed or not; toggled gets the name.
export function pickers(services, toggled) {
  return el('span', {class: 'chips pickers', role: 'group', 'aria-label': 'Show the spans of'}, services.map((service) => {
    const inside = chip(service);
    inside.dataset.tip += '\nShow the spans of this service only';
    return el('button', {type: 'button', class: 'pick-service', 'aria-pressed': 'false', 'data-service': service.name, onclick: () => toggled(service.name)}, inside);
  }));
}

// chips shows the first few; the rest, and more that are not in the list, is a number.
export function chips(services, more = 0, most = 8) {
  const shown = services.slice(0, most).map(chip);
  const rest = services.slice(most);
  if (rest.length + more) shown.push(el('span', {class: 'chip', tip: rest.map((s) => s.name).join('\n')}, `and ${count(rest.length + more)} more`));
  return el('span', {class: 'chips'}, shown);
}
