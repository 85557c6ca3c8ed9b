package logfile_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/otel/lean/logfile"
)

func TestWriter(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.jsonl")
	if _, err := logfile.NewWriter(logfile.Config{}); err == nil {
		t.Error("a writer without a path")
	}
	w, err := logfile.NewWriter(logfile.Config{Path: path, MaxFileBytes: 4096, MaxTotalBytes: 3 * 4096})
	require.NoError(t, err)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	for i := range 2000 {
		require.NoError(t, w.WriteLine(fmt.Appendf(nil, `{"n":%d}`, i)))
	}
	for name, line := range map[string][]byte{"two lines": []byte("a\nb"), "too large": make([]byte, 4096)} {
		assert.Error(t, w.WriteLine(line), name)
	}
	names := files(t, dir)
	var all []byte
	for _, name := range append(names[1:], names[0]) { // the file that is written sorts first
		b, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		all = append(all, b...)
	}
	if len(all) > 3*4096 || len(all) < 4096 {
		t.Errorf("%d bytes in %v", len(all), names)
	}
	lines := bytes.Split(bytes.TrimSpace(all), []byte("\n"))
	for i, l := range lines { // the newest, without a hole
		require.Equal(t, fmt.Sprintf(`{"n":%d}`, 2000-len(lines)+i), string(l))
	}
	for range 2 {
		assert.NoError(t, w.Close())
	}
	assert.ErrorIs(t, w.WriteLine(nil), logfile.ErrShutdown)
}
