//go:build !race

package leanredis_test

const raceEnabled = false
