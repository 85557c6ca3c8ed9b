package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const events = `{"Action":"run","Package":"tare/integration","Test":"TestSlow"}
{"Action":"attr","Package":"tare/integration","Test":"TestSlow/one","Key":"waited","Value":"1.500 the agent traces"}
{"Action":"attr","Package":"tare/integration","Test":"TestSlow/two","Key":"waited","Value":"2.000 load"}
{"Action":"attr","Package":"tare/integration","Test":"TestSlow/two","Key":"waited","Value":"1.000 the agent traces"}
{"Action":"attr","Package":"tare/integration","Test":"TestSlow","Key":"cpu","Value":"0.860 the agent"}
{"Action":"attr","Package":"tare/integration","Test":"TestSlow","Key":"owner","Value":"nobody"}
{"Action":"pass","Package":"tare/integration","Test":"TestSlow/two","Elapsed":4}
{"Action":"pass","Package":"tare/integration","Test":"TestSlow","Elapsed":9.25}
{"Action":"run","Package":"tare/store","Test":"TestHangs"}
{"Action":"pass","Package":"tare/store","Test":"TestQuick","Elapsed":0.5}
{"Action":"pass","Package":"tare/store","Elapsed":0.5}
`

func TestTable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tests.json")
	require.NoError(t, os.WriteFile(file, []byte(events), 0o600))
	for _, tt := range []struct {
		least float64
		want  string
	}{
		{0, `seconds  CPU s  test                  result       waited for
9.2      0.9    integration.TestSlow  pass         2.5 the agent traces, 2.0 load
0.5      0.0    store.TestQuick       pass         
0.0      0.0    store.TestHangs       did not end  
9.8      0.9    all 3 tests                        0 of less than 0 s are left out
`},
		{1, `seconds  CPU s  test                  result  waited for
9.2      0.9    integration.TestSlow  pass    2.5 the agent traces, 2.0 load
9.8      0.9    all 3 tests                   2 of less than 1 s are left out
`},
	} {
		var out bytes.Buffer
		require.NoError(t, run([]string{file}, tt.least, &out))
		assert.Equal(t, tt.want, out.String(), "of %g seconds and more", tt.least)
	}
}

func TestBadFiles(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken.json")
	require.NoError(t, os.WriteFile(broken, []byte("FAIL\n"), 0o600))
	for _, files := range [][]string{nil, {"/nonexistent.json"}, {broken}} {
		assert.Error(t, run(files, 0, &bytes.Buffer{}), "%v", files)
	}
}
