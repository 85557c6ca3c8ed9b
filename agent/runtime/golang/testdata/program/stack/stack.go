// Package stack tells where the goroutine's stack is.
package stack

// High is the end of the goroutine's stack, g.stack.hi.
func High() uintptr

// Frame is the caller's frame pointer.
func Frame() uintptr
