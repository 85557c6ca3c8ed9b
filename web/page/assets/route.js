// Views are addressed by the fragment: #/traces?service=shop. So links can be
// shared, the back button works, and the server knows one document only.

// parse splits a fragment into its parts and its query.
export function parse(hash) {
  const text = hash.replace(/^#\/?/, '');
  const at = text.indexOf('?');
  const path = at < 0 ? text : text.slice(0, at);
  const parts = path.split('/').filter(Boolean).map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part; // a stray %: as it stands
    }
  });
  return {parts, query: new URLSearchParams(at < 0 ? '' : text.slice(at + 1))};
}

// href writes a fragment; empty values are left out, lists repeat their key.
export function href(path, query = {}) {
  const params = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    for (const v of Array.isArray(value) ? value : [value]) {
      if (v !== undefined && v !== null && v !== '' && v !== false) params.append(key, v);
    }
  }
  const text = params.toString();
  return `#/${path}${text ? `?${text}` : ''}`;
}

export const traceHref = (id, span) => href(`trace/${encodeURIComponent(id)}`, {span});
// withQuery is a query as href takes it, with some keys changed.
export const withQuery = (query, changes) => ({...Object.fromEntries([...new Set(query.keys())].map((key) => [key, query.getAll(key)])), ...changes});

// The search that was shown last, and how far it was scrolled: other views lead back to it.
const last = {hash: '#/traces', scrolled: 0};
export const leaveSearch = (hash, scrolled) => Object.assign(last, {hash, scrolled});
export const searchHref = () => last.hash;
export const scrolledIn = (hash) => (hash === last.hash ? last.scrolled : 0);

export const compareHref = (a, b) => href('compare', {a, b});
export const go = (to) => { location.hash = to; };

// rewrite changes the address without a new entry in the history and without
// drawing the view again.
export function rewrite(to) {
  try {
    history.replaceState(history.state, '', to);
  } catch {
    // Browsers limit how often; the address is right again after the next move.
  }
}
