// What the collector's words mean. A word that is not listed is shown as it is.

const incomplete = {
  no_root: 'the first span is missing',
  several_roots: 'more than one span has no parent',
  parent_missing: 'the parent of a span did not arrive',
  server_missing: 'a call to a traced service has no span of that service',
  call_missing: 'a service made more calls than arrived here',
  request_open: 'some events of a request did not arrive',
  id_conflict: 'two different spans have the same id',
  cycle: 'spans are each other’s ancestors',
  span_limit: 'it has too many spans and was emitted in parts',
  memory: 'emitted early, because memory was full',
  shutdown: 'emitted early, because the collector ended',
};

// Of a trace that is a part of what its request caused; the service stands behind "=", where it is known.
const partly = {
  ends_at: (service) => `ends at ${service || 'a service'}: its calls are not linked`,
  may_end_at: (service) => `may end at ${service || 'a service'}: some of its calls are not linked`,
  begins_behind: (service) => `begins behind ${service || 'a service'}, whose calls are not linked`,
};

const kept = {
  retro: 'the agent kept it retroactively',
  error: 'something failed',
  slow: 'it was slow',
  rare: 'its path is rare',
  rule: 'a rule keeps it',
  incomplete: 'it is incomplete',
  share: 'by the probability for all other traces',
};

// Why the agent kept a trace that head sampling did not choose; also the choices of the search.
export const retro = {
  error: 'something failed',
  slow: 'it was slow',
  no_response: 'a request had no response',
  reset: 'a connection was reset',
  open: 'a request stayed open',
  outside: 'it was asked for by its id',
  capture: 'its service was captured',
};

export const lost = {
  ring_full: 'the ring buffer was full: the agent did not read in time',
  retro_full: 'a record of a request that was not sampled found no room: its CPU has no place in the memory of retroactive sampling',
  retro_triggers_full: 'more requests failed or were slow in a tenth of a second than the agent can be told of: their traces are not kept',
  requests_full: 'too many sampled requests in flight',
  storage_full: 'no memory for the state of a socket or thread',
  tag_no_room: 'the first byte of a request was acknowledged before its tag could be written',
  tag_no_path: 'tag: ip, and the path to the peer is not known to pass IP options on',
  tag_queue_full: 'more than four unacknowledged tags on a connection',
  tag_stale: 'a tag arrived after its bytes were read',
  tag_overflow: 'more than four pending tags on a connection',
  record_malformed: 'a record that could not be decoded',
  record_orphaned: 'bytes of a span whose start was lost',
  service_unknown: 'a record of a service that is not known',
  queue_full: 'the receiver is too slow, or unreachable',
  refused: 'the pipeline in the same process refused the span',
  export_failed: 'refused, or dropped after 2 minutes of retries',
  rejected: 'the receiver took a batch but not this span',
  shutdown: 'not sent within 10 s when the agent ended',
  http2_given_up: 'an HTTP/2 connection could not be followed any more: its further requests have no spans',
  http2_headers: 'the headers of an HTTP/2 connection could not be decoded any more: its spans have no names',
  unix_given_up: 'a connection over a unix socket could not be followed any more: its further requests have no spans',
  hook_missed: 'the kernel skipped a run of a kernel program, since another run on the same CPU was interrupted',
};

export const unlinked = {
  runtime: 'the service’s runtime is not linked, or its configuration says so',
  overlap: 'the service’s threads receive requests while they work for others',
  handed_over: 'the service’s threads answer requests that other threads received',
  stack: 'the service’s threads run coroutines that cannot be told apart',
  epoll: 'sent on a socket that an event loop watches',
  no_request: 'sent by a thread that works for no request',
  child_thread: 'sent by a thread or a process that a request started, and that may be a pool’s',
  stale: 'sent after the response, or after the event loop slept',
  overflow: 'too many requests waited on one thread',
  ambiguous: 'several requests that waited look the same',
  no_match: 'no request that waited looks like it',
  loop: 'the service’s threads are event loops',
  task: 'which task or virtual thread ran could not be read, or not yet',
  shared: 'sent on a connection whose previous request was not answered',
  unproven: 'nothing yet shows that the service’s threads work for one request at a time',
  unwatched: 'a name was looked up, or an event loop began to use UDP or unix sockets, before that was watched',
  quic: 'a QUIC connection was begun',
  header: 'several requests have the value of its correlation header',
  http2: 'sent over HTTP/2 by a runtime whose streams are not told apart',
};

export const tagsIgnored = {
  untrusted: 'from an address outside the trusted networks',
  malformed: 'not Tare’s, or damaged',
  replayed: 'seen before',
};

export const leftOut = {
  addresses: 'networks of this host’s addresses that are not trusted',
  sockets: 'connections that were open before the agent, and are not traced',
  processes: 'processes that are not traced',
};

// explain is a word's meaning, '' for one that is not listed.
export const explain = (word, table) => (Object.hasOwn(table, word) ? table[word] : '');

const words = (text, table) => text.split(',').map((w) => w.trim()).filter(Boolean)
  .map((w) => explain(w, table) || w.replaceAll('_', ' ')).join('; ');

export const whyIncomplete = (reason) => words(reason || '', incomplete) || 'no reason was given';
export const whyUnlinked = (reason) => (reason || '').split(',').filter(Boolean).map((word) => {
  const [kind, service] = word.split(/=(.*)/s);
  return Object.hasOwn(partly, kind) ? partly[kind](service) : word;
}).join('; ') || 'no reason was given';
export const whyKept = (reason) => words(reason || '', kept);
export const whyRetro = (reason) => words(reason || '', retro);

// What marks on spans mean; the legend and the tooltips say the same.
export const marks = {
  missing_parent: 'Parent missing: the parent of this span did not arrive.',
  hidden_parent: 'Parent left out: the parent of this span is of a service that you may not see.',
  missing_server: 'Server missing: the peer is traced, but its span did not arrive.',
  late: 'Late: this span arrived after its trace was emitted.',
  clock: 'Clock corrected: the clock of this span’s host differs from the caller’s.',
  linked: 'Linked by sequence: no tag passed; the spans of both ends begin at the same position of the connection’s stream.',
  unlinked: 'Not linked: calls that the service made meanwhile are not below this span.',
  behind: 'Begins here: the service that asked cannot link what it sends.',
  gap: 'Gap: no span covers this time.',
};
