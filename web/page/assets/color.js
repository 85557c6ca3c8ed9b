// Colours of services: the same name has the same colour in every view. There
// are twelve, --s0 to --s11 in style.css; a name takes the one that its hash
// names or the next free one, and shares one when all are taken. The name is always shown
// beside the colour.

const SLOTS = 12;
const taken = new Map(); // name -> slot
const used = new Array(SLOTS).fill(0);

function hash(name) {
  let h = 2166136261; // FNV-1a
  for (let i = 0; i < name.length; i++) {
    h ^= name.charCodeAt(i);
    h = Math.imul(h, 16777619);
  }
  return h >>> 0;
}

// slot is the number of a service's colour.
export function slot(name) {
  const known = taken.get(name);
  if (known !== undefined) return known;
  const least = Math.min(...used);
  let at = hash(name) % SLOTS;
  while (used[at] > least) at = (at + 1) % SLOTS;
  used[at]++;
  taken.set(name, at);
  return at;
}

// color is the CSS value.
export const color = (name) => `var(--s${slot(name)})`;

// introduce gives colours in the order of the names, so that they are the same
// after a reload, whichever view comes first.
export function introduce(names) {
  for (const name of [...names].sort()) slot(name);
}
