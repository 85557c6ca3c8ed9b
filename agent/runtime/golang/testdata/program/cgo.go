package main

// static int one(void) { return 1; }
import "C"

func init() { cgo = C.one() == 1 }
