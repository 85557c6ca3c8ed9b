// What the collector's words mean. A word that is not listed is shown as it is.

const incomplete = {
  no_root: 'the first span is missing',
  several_roots: 'more than one span has no parent',
  parent_missing: 'a span’s parent did not come',
  server_missing: 'a call to a traced service has no span of that service',
  call_missing: 'a service made more calls than came',
  request_open: 'of a request some events came, and not all',
  id_conflict: 'two different spans have one id',
  cycle: 'spans are each other’s ancestors',
  span_limit: 'it has more spans than are kept together',
  memory: 'given out early, to make room',
  shutdown: 'given out early, as the collector ended',
};

const kept = {
  error: 'something failed',
  slow: 'it was slow',
  rare: 'its path is rare',
  rule: 'a rule wants it',
  incomplete: 'it is incomplete',
  share: 'in the share of the rest',
};

export const lost = {
  ring_full: 'a record found no room: the agent did not read in time',
  requests_full: 'too many sampled requests at once',
  storage_full: 'no memory for the state of a socket or thread',
  tag_no_room: 'a tag’s byte was acknowledged without the tag ever written',
  tag_queue_full: 'more than four unacknowledged tags on a connection',
  tag_stale: 'a tag for bytes that were read already',
  tag_overflow: 'more than four pending tags on a connection',
  record_malformed: 'a record that could not be decoded',
  record_orphaned: 'bytes of a span whose start was lost',
  service_unknown: 'a record of a service that is not known',
  open_spans_full: 'a span closed early to make room (max_spans)',
  span_unanswered: 'a span without a response after 5 minutes, or when the agent ended',
  queue_full: 'the receiver does not keep up, or is away',
  export_failed: 'refused, or given up after 2 minutes of retries',
  rejected: 'the receiver took a batch but not this span',
  shutdown: 'not sent within 10 s when the agent ended',
};

export const unlinked = {
  runtime: 'the service cannot be linked',
  stale: 'the request was over, or the event loop had slept',
  overflow: 'too many requests waited on one thread',
};

export const tagsIgnored = {
  untrusted: 'from an address outside the trusted networks',
  malformed: 'not one of ours, or damaged',
  replayed: 'seen before',
};

// explain is a word's meaning, '' for one that is not listed.
export const explain = (word, table) => (Object.hasOwn(table, word) ? table[word] : '');

const words = (text, table) => text.split(',').map((w) => w.trim()).filter(Boolean)
  .map((w) => explain(w, table) || w.replaceAll('_', ' ')).join('; ');

export const whyIncomplete = (reason) => words(reason || '', incomplete) || 'no reason was given';
export const whyKept = (reason) => words(reason || '', kept);

// What marks on spans mean; the legend and the tooltips say the same.
export const marks = {
  missing_parent: 'Parent missing: this span names a parent that did not come.',
  missing_server: 'Server missing: the peer is traced, but its span did not come.',
  late: 'Late: this span came after its trace was given out.',
  clock: 'Clock corrected: the clock of this span’s host differs from the caller’s.',
  linked: 'Linked by sequence: no tag came through; both ends of the connection agree on the place in its stream.',
  gap: 'Gap: no span covers this time.',
};
