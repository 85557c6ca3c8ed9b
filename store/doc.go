// Package store keeps spans in one directory and finds them again: traces by
// id, traces by what their spans are like, latencies and calls by service. It
// is the default behind the collector for whoever runs no other trace store.
//
// # On disk
//
// The engine is Pebble. One [Store.Write] is one atomic batch and becomes one
// chunk: the spans sorted by trace, a few columns of fixed width (operation,
// start, duration, flags; per trace: id, times, place, weight), and the spans' own
// bytes, in OTLP's encoding, in compressed blocks of whole traces. A search
// scans columns and skips chunks by their bounds; a trace by id decompresses
// one block per chunk. Chunks are numbered upwards and never change, so that
// compactions of large ones move files instead of rewriting them. Small chunks,
// of little traffic, are merged in the background into larger ones.
//
// The weight of a trace that was kept retroactively (package weight) is stored so that
// stores written before there were any are read as they are, and earlier versions read
// those with it: storedWeight.
//
// Beside the engine's files a ledger says which chunks were acknowledged, merged and
// removed. When the store is opened, what the engine has is held against it: the engine
// takes a damaged end of its manifest or log for a write that a crash interrupted. What is
// missing is looked for in all tables and logs that are there, and restored; what is not
// found is lost, and [Store.Damage] says so. No file is removed until the ledger shows that
// it is useless.
//
// # Semantics
//
//   - A trace may come in several writes. It is one trace: [Store.Trace] joins
//     it, [Store.Search] counts it once. What is computed when spans arrive
//     (calls between services) sees the spans of one write; merging sees more.
//   - A span that is written twice is there twice.
//   - Only spans are kept: a resource or scope without spans is not.
//   - Times are unsigned nanoseconds since 1970, as in OTLP. A span that ends
//     before it starts has the duration 0.
//
// # What it refuses
//
// Spans without a trace id or a span id; a directory of another version; a
// directory that somebody else has open, or that its group or all users may write; a disk
// that is nearly full. If somebody
// else fills the disk while a write is in progress, that write waits for free
// space. The store neither judges traces nor changes spans: the collector does. It
// does not replicate, and one process at a time can open a directory.
package store
