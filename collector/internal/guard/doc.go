// Package guard protects a collector's listeners: it rejects configurations whose
// receivers listen on the network without TLS, and logs each refused request and
// connection where the framework and its components do not.
//
// It does not authenticate.
package guard
