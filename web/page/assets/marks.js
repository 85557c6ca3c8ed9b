// What is wrong or special with a span, as the API tells it.

import {count, duration, plural} from './format.js';
import {marks as words, unlinked, explain as meant} from './reasons.js';

// Order is importance; symbol stands before the name, word in texts.
export const kinds = [
  {key: 'error', symbol: '✕', word: 'error', cls: 'bad', of: (s) => s.status === 'error'},
  {key: 'missing_parent', symbol: '↥', word: 'parent missing', cls: 'warn', of: (s) => s.missing_parent},
  {key: 'hidden_parent', symbol: '↥', word: 'parent left out', cls: 'note', of: (s) => s.hidden_parent},
  {key: 'missing_server', symbol: '↧', word: 'server missing', cls: 'warn', of: (s) => s.missing_server},
  {key: 'unlinked', symbol: '⊣', word: 'not linked', cls: 'warn', of: (s) => Boolean(s.unlinked)},
  {key: 'behind', symbol: '⊢', word: 'begins here', cls: 'note', of: (s) => Boolean(s.behind)},
  {key: 'late', symbol: '◷', word: 'late', cls: 'warn', of: (s) => s.late},
  {key: 'clock', symbol: '⇄', word: 'clock corrected', cls: 'note', of: (s) => Boolean(s.clock_offset_ns)},
  {key: 'linked', symbol: '⋈', word: 'linked by sequence', cls: 'note', of: (s) => Boolean(s.linked_by)},
];

// counted: 2 errors, 3 late.
export const counted = (kind, n) => (kind.key === 'error' ? plural(n, 'error') : `${count(n)}${'\u00a0'}${kind.word}`);

export const marksOf = (span) => kinds.filter((kind) => kind.of(span));

// explain says what a mark means for this span.
export function explain(kind, span) {
  if (kind.key === 'error') return `Error${span.status_message ? `: ${span.status_message}` : '.'}`;
  if (kind.key === 'clock') return `${words.clock} ${span.clock_offset_ns > 0 ? '+' : ''}${duration(span.clock_offset_ns)} were added to its times.`;
  if (kind.key === 'unlinked') return `${words.unlinked} Why: ${meant(span.unlinked, unlinked) || span.unlinked}.`;
  if (kind.key === 'behind') return `Begins here: ${span.behind} asked, and cannot link what it sends.`;
  return words[kind.key];
}

export const meaning = (kind) => (kind.key === 'error' ? 'Error: the span’s status is error.' : words[kind.key]);
