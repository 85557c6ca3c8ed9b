// Package limit bounds what receivers pass on: names, keys and values of telemetry, and how many of them a span has.
// Whoever can send may otherwise choose the size of every key, dictionary entry and label behind the receiver. It wraps
// the factories of receivers, so that it is done once, before anything stores, indexes or journals what arrives, and
// no configuration can leave it out. What it cuts is marked where a reader sees it, and counted.
//
// It also rejects spans without ids, which nobody could find. The answer to their sender is the receiver's, see
// [Watch].
package limit
