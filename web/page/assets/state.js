// What agent and collector found out about a trace, as badges.

import {el} from './dom.js';
import {count} from './format.js';
import {whyIncomplete, whyKept, whyRetro, whyUnlinked} from './reasons.js';

export function stateBadge(trace) {
  switch (trace.state) {
    case 'complete':
      return el('span', {class: 'badge good', tip: 'One root, every parent, and every call to a traced service has that service’s span.'}, 'complete');
    case 'unlinked':
      return el('span', {class: 'badge', tip: 'Nothing is missing of what can be linked. The rest of what this request caused is in traces of its own.'}, whyUnlinked(trace.reason));
    case 'incomplete':
      return el('span', {class: 'badge warn', tip: trace.reason || 'no reason was given'}, `incomplete: ${whyIncomplete(trace.reason)}`);
    case 'damaged':
      return el('span', {class: 'badge bad', tip: 'It is stored, but cannot be read: tare store check says what is damaged.'}, 'damaged');
    default: // nobody checked it
      return '';
  }
}

// keptBadges say why a trace was kept, and how many it stands for.
export function keptBadges(trace) {
  const badges = [];
  if (trace.retro) badges.push(el('span', {class: 'badge retro', tip: 'Head sampling did not choose this trace: the agent kept it afterwards. It counts in no estimate.'}, `retro: ${whyRetro(trace.retro)}`));
  const why = trace.retro && trace.keep === 'retro' ? '' : whyKept(trace.keep);
  if (why) badges.push(el('span', {class: 'badge', tip: trace.keep}, `kept: ${why}`));
  if (trace.weight > 1.005) badges.push(el('span', {class: 'badge', tip: 'By its sampling probability.'}, `stands for ${trace.weight < 10 ? trace.weight.toFixed(1) : count(trace.weight)} traces`));
  return badges;
}
