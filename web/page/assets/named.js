// How spans are called: by the name and, beside it, what was asked for.

import {el} from './dom.js';

// titleOf is both as a text.
export const titleOf = (span) => [span.name || 'unnamed', span.target].filter(Boolean).join(' ');

// named is both as nodes.
export const named = (span) => [span.name || 'unnamed', span.target ? el('span', {class: 'target'}, ` ${span.target}`) : ''];
