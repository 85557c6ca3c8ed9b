package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"github.com/tare-trace/tare/lab/analysis"
	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/report"
)

// maxUnpacked bounds what a packed file of records may hold: the longest experiment
// that was measured has 4 MB of them, and a file of a few kilobytes could have terabytes.
const maxUnpacked = 1 << 30

// pack compresses the records of a finished experiment, and removes what `tare bench
// report` makes again from them. All that cannot be made again stays. Nothing is removed
// before what replaces it is on the disk.
func pack(dir string) (err error) {
	d, err := lockDir(dir) // before it is read: runs that came later would be lost
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	m, runs, err := Read(dir)
	if err != nil {
		return err
	}
	if len(runs) == 0 || m.End.IsZero() {
		return fmt.Errorf("the experiment in %s is not finished: go on with `tare bench run --resume --out %s`", dir, dir)
	}
	if err := d.compactManifest(); err != nil {
		return err
	}
	if err := d.packRuns(runs); err != nil {
		return err
	}
	s, err := analysis.Analyse(m, runs)
	if err != nil {
		return err
	}
	if err := report.WritePage(dir, m, s); err != nil {
		return err
	}
	for _, name := range append(report.Rest(), resultsFile) {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// compactManifest takes the white space out of the manifest, which is nearly half of it.
func (d *directory) compactManifest() error {
	path := filepath.Join(d.Path, manifestFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return record.WriteFile(path, append(bytes.TrimSpace(b.Bytes()), '\n'))
}

// packRuns writes the packed records. Records of before numbers were rounded are rounded.
func (d *directory) packRuns(runs []record.Run) error {
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	if err != nil {
		return err
	}
	for i := range runs {
		runs[i].Shorten()
		line, err := marshalLine(&runs[i])
		if err == nil {
			_, err = w.Write(line)
		}
		if err != nil {
			return errors.Join(err, w.Close())
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return record.WriteFile(filepath.Join(d.Path, packedFile), b.Bytes())
}

// unpack puts the plain file in the place of a packed one.
func (d *directory) unpack() error {
	plain, packed := filepath.Join(d.Path, resultsFile), filepath.Join(d.Path, packedFile)
	if _, err := os.Stat(plain); err == nil {
		return nil
	}
	runs, err := readPacked(packed)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var b bytes.Buffer
	for i := range runs {
		line, lineErr := marshalLine(&runs[i])
		err = errors.Join(err, lineErr)
		b.Write(line)
	}
	if err != nil {
		return err
	}
	if err := record.WriteFile(plain, b.Bytes()); err != nil {
		return err
	}
	return os.Remove(packed)
}

func readPacked(path string) ([]record.Run, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	z, err := zstd.NewReader(f, zstd.WithDecoderMaxMemory(maxUnpacked), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	return decodeRuns(&bounded{z, maxUnpacked}, path)
}

// bounded fails where a reader has more than it may. io.LimitReader would end there as if
// that were all.
type bounded struct {
	io.Reader
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, fmt.Errorf("more than %d bytes of records", maxUnpacked)
	}
	return n, err
}
