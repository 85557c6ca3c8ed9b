// Package bound limits what a receiver of the collector decodes. Decoders of the
// framework recurse as deep as a message is nested, which ends the process when the stack
// is full, and allocate an object for two bytes of a message. So each message is read
// once before it is decoded: its depth is limited, the memory that decoding takes is
// estimated, and the estimates of all messages that are being received have a common
// budget. What is refused is counted and logged, at a bounded rate.
//
// It wraps the factories of receivers, so that no configuration has to name it, and uses
// the framework's middlewares: an http.Handler, and options of the gRPC server.
package bound
