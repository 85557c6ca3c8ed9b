// Tables that sort by a click on a column's head.

import {el, replace} from './dom.js';

// table shows rows. A column has label, value(row) to sort by, cell(row) to
// show, and number: true to stand right. sort: [column, descending], changed by
// the reader's clicks, so that the next table can begin with it. quiet: a
// heading stands above, the caption is for screen readers.
export function table(caption, columns, rows, sort, quiet = false) {
  const body = el('tbody', {});
  const heads = columns.map((column, k) => {
    const button = el('button', {type: 'button'}, column.label);
    button.addEventListener('click', () => {
      if (sort[0] === k) sort[1] = !sort[1];
      else [sort[0], sort[1]] = [k, Boolean(column.number)];
      draw();
    });
    return el('th', {scope: 'col', class: column.number ? 'number' : '', tip: column.tip}, button);
  });
  const draw = () => {
    const [by, descending] = sort;
    heads.forEach((head, k) => head.setAttribute('aria-sort', k !== by ? 'none' : descending ? 'descending' : 'ascending'));
    const {value} = columns[by];
    const sorted = [...rows].sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      const order = typeof x === 'string' ? x.localeCompare(y) : x - y;
      return descending ? -order : order;
    });
    replace(body, sorted.map((row) => el('tr', {}, columns.map((column, k) => el(k ? 'td' : 'th', {scope: k ? undefined : 'row', class: column.number ? 'number' : ''}, column.cell(row))))));
  };
  draw();
  return el('div', {class: 'table-box', tabindex: 0, role: 'region', 'aria-label': caption},
    el('table', {class: 'sortable'}, el('caption', {class: quiet ? 'offscreen' : ''}, caption), el('thead', {}, el('tr', {}, heads)), body));
}
