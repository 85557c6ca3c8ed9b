// Package gate lets the exports of an exporter run until it is shut down. Shutting
// it waits for the exports under way, and cancels them when the time is over.
//
// It also joins the two contexts that end an export, the caller's and the
// exporter's own.
package gate
