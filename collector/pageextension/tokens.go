package pageextension

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.yaml.in/yaml/v3"

	"github.com/tare-trace/tare/store"
)

const (
	maxTokens    = 1 << 20     // bytes of the file
	tokensFresh  = time.Second // how long the file is not looked at again
	readerHeader = `Basic realm="tare", charset="UTF-8"`
)

// entry is a token in the file.
type entry struct {
	Name         string
	SHA256       string   `yaml:"sha256"` // of the token, hexadecimal
	Services     []string // patterns of names; all three as in store.Scope
	Namespaces   []string
	Environments []string
}

// reader is who has a token.
type reader struct {
	name  string
	scope *store.Scope // nil: everything
}

// tokens are the readers by the hashes of their tokens, as they are in a file. The file is read again when it has
// changed.
type tokens struct {
	path string
	log  *zap.Logger
	now  func() time.Time

	mu     sync.Mutex
	looked time.Time
	info   os.FileInfo
	byHash map[[sha256.Size]byte]reader
}

// openTokens reads the file, which must be right.
func openTokens(path string, log *zap.Logger) (*tokens, error) {
	t := &tokens{path: path, log: log, now: time.Now}
	if err := t.read(); err != nil {
		return nil, fmt.Errorf("`tokens`: %w", err)
	}
	return t, nil
}

// find returns who has the token.
func (t *tokens) find(token string) (reader, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.now(); now.Sub(t.looked) >= tokensFresh {
		t.looked = now
		t.refresh()
	}
	r, ok := t.byHash[sha256.Sum256([]byte(token))]
	return r, ok
}

// refresh reads the file if it has changed. One that cannot be used changes nothing.
func (t *tokens) refresh() {
	info, err := os.Stat(t.path)
	if err == nil && os.SameFile(info, t.info) && info.ModTime().Equal(t.info.ModTime()) && info.Size() == t.info.Size() && info.Mode() == t.info.Mode() {
		return
	}
	if err = t.read(); err != nil {
		t.log.Error("the file of tokens has changed and cannot be used: the tokens before are still valid", zap.Error(err))
		return
	}
	t.log.Info("the file of tokens was read again", zap.Int("tokens", len(t.byHash)))
}

func (t *tokens) read() (err error) {
	f, err := os.Open(t.path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it is only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", t.path)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s can be read by others than its owner (%v): chmod 0600 %s", t.path, info.Mode(), t.path)
	case info.Size() > maxTokens:
		return fmt.Errorf("%s has %d bytes, at most %d are read", t.path, info.Size(), maxTokens)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxTokens))
	if err != nil {
		return err
	}
	byHash, err := parseTokens(b)
	if err != nil {
		return fmt.Errorf("%s: %w", t.path, err)
	}
	t.info, t.byHash = info, byHash
	return nil
}

// parseTokens reads the content of a file of tokens.
func parseTokens(b []byte) (map[[sha256.Size]byte]reader, error) {
	var file struct{ Tokens []entry }
	d := yaml.NewDecoder(strings.NewReader(string(b)))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		// The text may quote the file, in which somebody may have put a token in place of its hash.
		return nil, errors.New("it is no YAML with a list `tokens` of name, sha256, services, namespaces, environments")
	}
	byHash, names := map[[sha256.Size]byte]reader{}, map[string]bool{}
	for i, e := range file.Tokens {
		var hash [sha256.Size]byte
		n, err := hex.Decode(hash[:], []byte(e.SHA256[:min(len(e.SHA256), 2*len(hash))]))
		_, twice := byHash[hash]
		scope := &store.Scope{Services: e.Services, Namespaces: e.Namespaces, Environments: e.Environments}
		switch {
		case e.Name == "":
			return nil, fmt.Errorf("token %d has no `name`, by which the audit log calls its readers", i+1)
		case names[e.Name]:
			return nil, fmt.Errorf("two tokens have the name %q", e.Name)
		case err != nil || n != len(hash) || len(e.SHA256) != 2*len(hash):
			return nil, fmt.Errorf("token %q: `sha256` is not the SHA-256 of a token, in 64 hexadecimal digits", e.Name)
		case hash == sha256.Sum256(nil):
			return nil, fmt.Errorf("token %q: `sha256` is that of no token at all", e.Name)
		case twice:
			return nil, fmt.Errorf("token %q: another has the same `sha256`", e.Name)
		}
		if err := scope.Validate(); err != nil {
			return nil, fmt.Errorf("token %q: `services`: %w", e.Name, err)
		}
		if len(e.Services) == 1 && e.Services[0] == "*" && len(e.Namespaces)+len(e.Environments) == 0 {
			scope = nil
		}
		names[e.Name] = true
		byHash[hash] = reader{e.Name, scope}
	}
	return byHash, nil
}

type asking struct{}

// asker is who asks, as far as the page knows it.
type asker struct{ name, token string }

// authenticate lets requests pass that have a token, as a bearer's (RFC 6750) or as the password of any user (RFC 7617),
// which is what browsers can send. What they see is what the token allows.
func (t *tokens) authenticate(next http.Handler, refuse func(w http.ResponseWriter, r *http.Request, reason string, status int)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := presented(r)
		if token == "" {
			refuse(w, r, "no token", http.StatusUnauthorized)
			return
		}
		who, ok := t.find(token)
		if !ok {
			refuse(w, r, "unknown token", http.StatusUnauthorized)
			return
		}
		ctx := context.WithValue(r.Context(), asking{}, asker{who.name, token})
		if who.scope != nil {
			ctx = store.WithScope(ctx, who.scope)
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// presented is the token that a request has; "": none.
func presented(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	_, token, _ = r.BasicAuth()
	return token
}
