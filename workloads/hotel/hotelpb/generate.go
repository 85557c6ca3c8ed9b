// Package hotelpb is the messages of tare-hotel, generated from hotel.proto and
// committed: a build needs no protoc. It holds nothing written by hand.
//
// To generate it again: protoc 3.21 (Debian package protobuf-compiler), and in PATH
// protoc-gen-go of this module's google.golang.org/protobuf.
package hotelpb

//go:generate protoc --go_out=. --go_opt=paths=source_relative hotel.proto
