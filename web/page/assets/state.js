// What the collector found out about a trace, as a badge.

import {el} from './dom.js';
import {whyIncomplete, whyUnlinked} from './reasons.js';

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
