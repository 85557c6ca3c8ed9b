// Package packaging has what is published of Tare, and its tests: build.sh makes packages and
// images, nfpm's descriptions and systemd's units are beside it. It is a module of its own, so
// that only who publishes downloads what that needs.
package packaging
