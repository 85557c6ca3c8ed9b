// Package guard says who is let in and who was not: it refuses configurations
// that listen to the network unprotected, and logs every request and connection
// that was refused, where the framework and its components do not.
//
// It authenticates nobody itself.
package guard
