// A trace as a tree of rows: which are visible, what lies where. Spans come
// depth-first, siblings by start; a span is known by its index, since ids may
// occur twice. Everything is linear in the number of spans, and an array, so
// that 100,000 spans are quick. Times are in ns from the trace's start.

export class Tree {
  constructor(trace) {
    const {spans} = trace;
    const n = spans.length;
    this.trace = trace;
    this.spans = spans;
    this.parent = new Int32Array(n).fill(-1);
    this.after = new Int32Array(n); // index after the last descendant
    this.position = new Int32Array(n); // among its siblings, from 1
    this.children = new Int32Array(n + 1); // number of them; the last: of tops
    this.collapsed = new Uint8Array(n);
    this.rowOf = new Int32Array(n); // -1: hidden
    this.only = undefined; // numbers of the services whose spans are shown, a Set; all without
    this.selfTimes = new Map();
    const open = [];
    for (let i = 0; i <= n; i++) {
      const depth = i < n ? spans[i].depth : 0;
      while (open.length && (i === n || spans[open.at(-1)].depth >= depth)) this.after[open.pop()] = i;
      if (i === n) break;
      const parent = open.length ? open.at(-1) : -1;
      this.parent[i] = parent;
      this.position[i] = ++this.children[parent < 0 ? n : parent];
      open.push(i);
    }
    // A span whose duration is wrong may end after the trace does; show it all the same.
    this.length = Math.max(trace.duration_ns, 1);
    this.layout();
  }

  siblings(i) {
    return this.children[this.parent[i] < 0 ? this.spans.length : this.parent[i]];
  }

  // layout lists the visible spans again, after a span was collapsed or expanded.
  layout() {
    const n = this.spans.length;
    const rows = new Int32Array(n);
    this.rowOf.fill(-1);
    let k = 0;
    for (let i = 0; i < n; i = this.collapsed[i] ? this.after[i] : i + 1) {
      if (this.only && !this.only.has(this.spans[i].service)) continue;
      this.rowOf[i] = k;
      rows[k++] = i;
    }
    this.rows = rows.subarray(0, k);
  }

  // setCollapsed hides or shows what is below a span; false: nothing changed.
  setCollapsed(i, collapsed) {
    if (!this.children[i] || Boolean(this.collapsed[i]) === collapsed) return false;
    this.collapsed[i] = collapsed ? 1 : 0;
    this.layout();
    return true;
  }

  // collapseAll hides everything below a depth; Infinity shows all.
  collapseAll(depth) {
    for (let i = 0; i < this.spans.length; i++) this.collapsed[i] = this.children[i] && this.spans[i].depth >= depth ? 1 : 0;
    this.layout();
  }

  // filter shows the spans of some services only, of all if the set is empty.
  filter(services) {
    this.only = services.size ? services : undefined;
    this.layout();
  }

  // reveal shows a span by expanding what it is below of, of whatever service it is.
  reveal(i) {
    let changed = false;
    if (this.only && !this.only.has(this.spans[i].service)) {
      this.only = undefined;
      changed = true;
    }
    for (let p = this.parent[i]; p >= 0; p = this.parent[p]) {
      if (this.collapsed[p]) changed = true;
      this.collapsed[p] = 0;
    }
    if (changed) this.layout();
    return changed;
  }

  // selfTime lists the times of a span that no child covers, [from, to, …].
  selfTime(i) {
    const known = this.selfTimes.get(i);
    if (known) return known;
    const span = this.spans[i];
    const end = span.start_ns + span.duration_ns;
    const times = [];
    let at = span.start_ns;
    for (let j = i + 1; j < this.after[i] && at < end; j = this.after[j]) {
      const child = this.spans[j];
      if (child.start_ns > at) times.push(at, Math.min(child.start_ns, end));
      at = Math.max(at, child.start_ns + child.duration_ns);
    }
    if (at < end) times.push(at, end);
    this.selfTimes.set(i, times);
    return times;
  }

  // find lists the spans whose words hold every word of the text.
  find(text, attributesOf) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return [];
    const {services} = this.trace;
    const found = [];
    this.spans.forEach((span, i) => {
      let all = `${services[span.service]?.name ?? ''} ${span.name} ${span.target ?? ''} ${span.id} ${span.kind} ${span.status === 'error' ? 'error' : ''} ${span.status_message ?? ''}`;
      for (const a of attributesOf?.(i) ?? []) all += ` ${a.key}=${a.value}`;
      const low = all.toLowerCase();
      if (words.every((word) => low.includes(word))) found.push(i);
    });
    return found;
  }
}
