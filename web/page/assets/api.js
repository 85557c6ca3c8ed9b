// The JSON API, /api/v1. Addresses are relative to the page.

// APIError is a response without the requested data. hint says what to do.
class APIError extends Error {
  constructor(text, status, hint) {
    super(text);
    this.status = status;
    this.hint = hint;
  }
}

function hintFor(status) {
  if (status === 400) return 'Change what the message names, and search again.';
  if (status === 401) return 'Reload the page and sign in.';
  if (status === 403) return 'This account, or this host name, may not read here. The log of tare says what was refused.';
  if (status === 404) return 'It may have expired: the store keeps traces for a limited time. Or it was not sampled.';
  if (status === 429) return 'Other tabs, or programs at this address, ask at the same time. Try again when they are done.';
  if (status === 503 || status === 504) return 'The server is busy. A shorter time range or a service asks less of it.';
  return 'The log of tare says more.';
}

// get reads base/path with a query; lists in it repeat their key, empty values
// are left out.
export async function get(path, query = {}, signal) {
  const url = new URL(`api/v1/${path}`, document.baseURI);
  url.hash = '';
  for (const [key, value] of Object.entries(query)) {
    for (const v of Array.isArray(value) ? value : [value]) {
      if (v !== undefined && v !== null && v !== '') url.searchParams.append(key, v);
    }
  }
  let answer;
  try {
    answer = await fetch(url, {signal, headers: {Accept: 'application/json'}});
  } catch (err) {
    if (err.name === 'AbortError') throw err;
    throw new APIError('The server does not answer.', 0, 'Is tare still running? This page tries again when you do.');
  }
  let body;
  try {
    body = await answer.json();
  } catch (err) {
    if (err.name === 'AbortError') throw err;
    throw new APIError(`The server answered ${answer.status} with something that is not JSON.`, answer.status, hintFor(answer.status));
  }
  if (!answer.ok) throw new APIError(body?.error || `The server answered ${answer.status}.`, answer.status, hintFor(answer.status));
  return body;
}

// otlpPath is where a trace can be downloaded.
export const otlpPath = (id) => `api/v1/traces/${encodeURIComponent(id)}/otlp`;
