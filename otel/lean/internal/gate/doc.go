// Package gate is the door of an exporter: exports pass until it is shut, and
// shutting it waits for those inside, then puts them out.
//
// It also joins the two contexts that end an export, the caller's and the
// exporter's own.
package gate
