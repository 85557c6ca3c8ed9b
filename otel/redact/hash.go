package redact

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"os"
	"strings"
	"sync"
)

const (
	tokenPrefix  = "hmac-"
	checkBytes   = 2
	minKeyBytes  = 16
	maxIDBytes   = 8
	defaultBits  = 96
	minTokenBits = 64
)

// hasher makes tokens and recognises its own.
type hasher struct {
	macs   sync.Pool // of hash.Hash, keyed
	prefix string    // hmac- or hmac-id-
	bytes  int
}

func newHasher(c Hashing) (*hasher, error) {
	key, err := c.key()
	if err != nil {
		return nil, err
	}
	bits := c.Bits
	if bits == 0 {
		bits = defaultBits
	}
	if bits < minTokenBits || bits > 8*sha256.Size || bits%8 != 0 {
		return nil, fmt.Errorf("hash: bits %d: want a multiple of 8 between %d and %d", bits, minTokenBits, 8*sha256.Size)
	}
	h := &hasher{prefix: tokenPrefix, bytes: bits / 8}
	if c.ID != "" {
		for i := range len(c.ID) {
			if b := c.ID[i]; !isDigit(b) && (b < 'a' || b > 'z') {
				return nil, fmt.Errorf("hash: id %q: want lower-case letters and digits", c.ID)
			}
		}
		if len(c.ID) > maxIDBytes {
			return nil, fmt.Errorf("hash: id %q: longer than %d characters", c.ID, maxIDBytes)
		}
		h.prefix += c.ID + "-"
	}
	h.macs.New = func() any { return hmac.New(sha256.New, key) }
	return h, nil
}

func (c Hashing) key() ([]byte, error) {
	n := 0
	for _, s := range []string{c.Key, c.KeyEnv, c.KeyFile} {
		if s != "" {
			n++
		}
	}
	if n != 1 {
		return nil, errors.New("hash: give the key by exactly one of key, key_env and key_file")
	}
	key, from := c.Key, "key"
	switch {
	case c.KeyEnv != "":
		key, from = strings.TrimSpace(os.Getenv(c.KeyEnv)), "key_env "+c.KeyEnv
	case c.KeyFile != "":
		b, err := os.ReadFile(c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("hash: key_file: %w", err)
		}
		key, from = strings.TrimSpace(string(b)), "key_file "+c.KeyFile
	}
	if len(key) < minKeyBytes {
		return nil, fmt.Errorf("hash: %s holds %d bytes, want at least %d random ones", from, len(key), minKeyBytes)
	}
	return []byte(key), nil
}

// appendToken appends the token of value. The check is the start of the MAC of
// the token itself, under a label, so that nobody without the key can write a
// value that passes for a token.
func (h *hasher) appendToken(dst []byte, value string) []byte {
	var sum [sha256.Size]byte
	mac := h.macs.Get().(hash.Hash)
	defer h.macs.Put(mac)
	mac.Reset()
	mac.Write([]byte(value))
	mac.Sum(sum[:0])
	dst = append(dst, h.prefix...)
	dst = hex.AppendEncode(dst, sum[:h.bytes])
	check := h.check(mac, sum[:h.bytes])
	return hex.AppendEncode(dst, check[:])
}

func (h *hasher) check(mac hash.Hash, token []byte) (out [checkBytes]byte) {
	var sum [sha256.Size]byte
	mac.Reset()
	mac.Write([]byte("redact token\x00"))
	mac.Write(token)
	copy(out[:], mac.Sum(sum[:0]))
	return out
}

// token returns the length of the token that s begins with, 0 if it is none.
func (h *hasher) token(s string) int {
	n := len(h.prefix) + hex.EncodedLen(h.bytes+checkBytes)
	if len(s) < n || !strings.HasPrefix(s, h.prefix) || len(s) > n && isAlnum(s[n]) {
		return 0
	}
	var raw [sha256.Size + checkBytes]byte
	if _, err := hex.Decode(raw[:], []byte(s[len(h.prefix):n])); err != nil {
		return 0
	}
	mac := h.macs.Get().(hash.Hash)
	defer h.macs.Put(mac)
	check := h.check(mac, raw[:h.bytes])
	if !hmac.Equal(check[:], raw[h.bytes:h.bytes+checkBytes]) {
		return 0
	}
	return n
}
