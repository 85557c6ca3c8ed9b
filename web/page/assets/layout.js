// A layered layout of a directed graph, after Sugiyama, Tagawa and Toda (1981):
// cycles are broken, nodes get the rank of their longest path, edges that span
// several ranks get places in between, the order within a rank comes from the
// barycentres of the neighbours. Every edge has a place of its own half way,
// for its label, so that labels do not cover each other (as dagre does it).
//
// "Along" is the axis from caller to callee, "across" the other one.

const SWEEPS = 12;
const SHIFTS = 24;

// orient reverses the edges that would close a cycle, so that ranks exist.
// Search begins at nodes that nobody calls.
function orient(n, edges) {
  const out = Array.from({length: n}, () => []);
  const callers = new Array(n).fill(0);
  edges.forEach((e, k) => {
    if (e.from === e.to) return;
    out[e.from].push(k);
    callers[e.to]++;
  });
  const state = new Uint8Array(n); // 1: on the path, 2: done
  const reversed = new Array(edges.length).fill(false);
  const visit = (start) => {
    const stack = [[start, 0]];
    state[start] = 1;
    while (stack.length) {
      const top = stack.at(-1);
      const k = out[top[0]][top[1]++];
      if (k === undefined) {
        state[top[0]] = 2;
        stack.pop();
        continue;
      }
      const {to} = edges[k];
      if (state[to] === 1) reversed[k] = true;
      else if (state[to] === 0) {
        state[to] = 1;
        stack.push([to, 0]);
      }
    }
  };
  const order = [...Array(n).keys()].sort((a, b) => callers[a] - callers[b] || a - b);
  for (const i of order) if (!state[i]) visit(i);
  return reversed;
}

// ranksOf is the longest path from a node without callers.
function ranksOf(n, arcs) {
  const left = new Array(n).fill(0);
  const out = Array.from({length: n}, () => []);
  for (const [a, b] of arcs) {
    out[a].push(b);
    left[b]++;
  }
  const rank = new Array(n).fill(0);
  const ready = [...Array(n).keys()].filter((i) => !left[i]);
  for (let k = 0; k < ready.length; k++) {
    for (const b of out[ready[k]]) {
      rank[b] = Math.max(rank[b], rank[ready[k]] + 1);
      if (!--left[b]) ready.push(b);
    }
  }
  return rank;
}

function mean(list, at) {
  let sum = 0;
  for (const j of list) sum += at[j];
  return sum / list.length;
}

// order sorts every layer by the barycentres of the layer before, to and fro.
function order(layers, before, behind) {
  const at = [];
  const note = (layer) => layer.forEach((i, k) => { at[i] = k; });
  layers.forEach(note);
  for (let s = 0; s < SWEEPS; s++) {
    const down = s % 2 === 0;
    const sequence = down ? layers : [...layers].reverse();
    const near = down ? before : behind;
    for (const layer of sequence) {
      const key = new Map(layer.map((i) => [i, near[i].length ? mean(near[i], at) : at[i]]));
      layer.sort((a, b) => key.get(a) - key.get(b) || at[a] - at[b]);
      note(layer);
    }
  }
}

// place moves every node towards its neighbours, and keeps the order and the
// room between.
function place(layers, size, gap, before, behind) {
  const at = [];
  for (const layer of layers) {
    let y = 0;
    for (const i of layer) {
      at[i] = y + size[i] / 2;
      y += size[i] + gap;
    }
    for (const i of layer) at[i] -= y / 2;
  }
  for (let s = 0; s < SHIFTS; s++) {
    for (const layer of s % 2 ? [...layers].reverse() : layers) {
      const wish = layer.map((i) => {
        const near = s < SHIFTS - 4 ? (s % 2 ? behind[i] : before[i]) : [...before[i], ...behind[i]];
        return near.length ? mean(near, at) : at[i];
      });
      // Blocks that would overlap become one, at the mean of their wishes.
      const blocks = [];
      layer.forEach((i, k) => {
        let block = {from: k, to: k, size: size[i] + gap, sum: wish[k] - (size[i] + gap) / 2, n: 1};
        while (blocks.length) {
          const last = blocks.at(-1);
          if (last.sum / last.n + last.size <= block.sum / block.n) break;
          blocks.pop();
          block = {from: last.from, to: block.to, size: last.size + block.size, sum: last.sum + block.sum - last.size * block.n, n: last.n + block.n};
        }
        blocks.push(block);
      });
      for (const block of blocks) {
        let y = block.sum / block.n;
        for (let k = block.from; k <= block.to; k++) {
          const i = layer[k];
          at[i] = y + (size[i] + gap) / 2;
          y += size[i] + gap;
        }
      }
    }
  }
  return at;
}

// layout places n nodes. edges are {from, to} by number. sizes: along and
// across of a node and of a label, gap between ranks and within one. The
// answer has nodes [{along, across}] (centres), edges [{points, label,
// reversed, loop}] with points from caller to callee, and the size of it all.
export function layout(n, edges, sizes) {
  const reversed = orient(n, edges);
  const arcs = edges.map((e, k) => (reversed[k] ? [e.to, e.from] : [e.from, e.to]));
  const rank = ranksOf(n, arcs.filter(([a, b]) => a !== b)).map((r) => 2 * r);
  const size = new Array(n).fill(sizes.node.across);
  const before = Array.from({length: n}, () => []);
  const behind = Array.from({length: n}, () => []);
  const chains = arcs.map(([a, b]) => {
    if (a === b) return [a];
    const chain = [a];
    const middle = rank[a] + 2 * Math.floor((rank[b] - rank[a]) / 4) + 1;
    for (let r = rank[a] + 1; r < rank[b]; r++) {
      const i = rank.length;
      rank.push(r);
      size.push(r === middle ? sizes.label.across : sizes.line);
      before.push([]);
      behind.push([]);
      chain.push(i);
    }
    chain.push(b);
    for (let k = 1; k < chain.length; k++) {
      behind[chain[k - 1]].push(chain[k]);
      before[chain[k]].push(chain[k - 1]);
    }
    chain.label = chain[middle - rank[a]];
    return chain;
  });
  const layers = [];
  rank.forEach((r, i) => (layers[r] ??= []).push(i));
  for (let r = 0; r < layers.length; r++) layers[r] ??= [];
  order(layers, before, behind);
  const across = place(layers, size, sizes.gap, before, behind);
  const low = Math.min(...across.map((a, i) => a - size[i] / 2), 0);
  const high = Math.max(...across.map((a, i) => a + size[i] / 2), 0);
  const step = (sizes.node.along + sizes.label.along) / 2 + sizes.between;
  const spot = (i) => ({along: sizes.node.along / 2 + rank[i] * step, across: across[i] - low});
  return {
    nodes: [...Array(n).keys()].map(spot),
    edges: chains.map((chain, k) => {
      const points = chain.map(spot);
      return {points: reversed[k] ? points.reverse() : points, label: chain.label === undefined ? undefined : spot(chain.label), reversed: reversed[k], loop: chain.length === 1};
    }),
    along: sizes.node.along + Math.max(0, layers.length - 1) * step,
    across: high - low,
  };
}
