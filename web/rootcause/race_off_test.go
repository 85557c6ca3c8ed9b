//go:build !race

package rootcause

const raced = false
