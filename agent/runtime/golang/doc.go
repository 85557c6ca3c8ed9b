// Package golang reads what the kernel side must know of a Go program to link
// its requests without a uprobe: where the program's own types keep what links,
// and where its functions keep their pointers. All of it comes from tables that
// Go's runtime itself needs, and that are in stripped and in position
// independent binaries too: moduledata, types, itabs, functions and their stack
// maps. Neither DWARF nor a table of versions is used: a shape is recognised,
// or the mechanism that needs it is refused with a reason, and the others go on.
//
// What is read is another program's, so nothing of it is trusted: every address
// is looked up in the segments of the executable, every length is bounded.
//
// The package tells where things are. It attaches nothing, and follows no
// request.
package golang
