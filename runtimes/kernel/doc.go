// Package kernel stands for the kernel side in tests of the shims: testdata/kernel.c, which is preloaded into a service, sees each
// read and write of a socket, and judges what PROTOCOL.md would link. The tests drive services with a number in every request. It
// replaces no test with the kernel's own hooks: it sees what the C library is called for, and nothing below it.
package kernel
