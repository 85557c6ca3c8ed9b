package runtime

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"

	"github.com/tare-trace/tare/agent/runtime/elffile"
)

// What debug/buildinfo calls the build info of an executable: 16 bytes, which two words or,
// since Go 1.18, the version and the modules follow 16 bytes later, each behind its length.
const (
	infoMagic   = "\xff Go buildinf:"
	infoAlign   = 16
	infoFlags   = 15
	infoHeader  = 32
	infoInline  = 2 // a flag: the strings follow
	maxVersion  = 64
	before118   = "go1.17 or older"
	searchPiece = 256 << 10
)

// goVersion is the version of Go that built an executable, "" for another compiler's.
// debug/buildinfo tells the same, and holds whatever a file says that it has.
func goVersion(r io.ReaderAt) string {
	f, err := elffile.New(r)
	if err != nil {
		return ""
	}
	var at, size uint64
	if s, ok := f.Section(".go.buildinfo"); ok {
		at, size = s.Offset, s.Size
	} else if f.HasSections() {
		return "" // Go's linker makes that section, and strip keeps it
	} else {
		for _, p := range f.Progs {
			if p.Type == elf.PT_LOAD && p.Flags&(elf.PF_X|elf.PF_W) == elf.PF_W {
				at, size = p.Off, p.Filesz
				break
			}
		}
	}
	if at+size < at || at+size >= 1<<62 {
		return ""
	}
	info := findInfo(io.NewSectionReader(r, int64(at), int64(size)))
	if info == nil {
		return ""
	}
	if info[infoFlags]&infoInline == 0 {
		return before118
	}
	n, k := binary.Uvarint(info[infoHeader:])
	if text := info[infoHeader+max(k, 0):]; k > 0 && n <= maxVersion && n <= uint64(len(text)) {
		return string(text[:n])
	}
	return ""
}

// findInfo finds build info, as far as the version; nil if there is none.
func findInfo(r *io.SectionReader) []byte {
	const whole = infoHeader + binary.MaxVarintLen64 + maxVersion
	buf := make([]byte, min(r.Size(), searchPiece))
	for off := int64(0); ; off += searchPiece - infoAlign {
		n, err := r.ReadAt(buf, off)
		for o := 0; ; {
			i := bytes.Index(buf[o:n], []byte(infoMagic))
			if i < 0 {
				break
			}
			if o += i; (off+int64(o))%infoAlign == 0 {
				info := make([]byte, whole)
				have, _ := r.ReadAt(info, off+int64(o))
				if have > infoHeader {
					return info[:have]
				}
			}
			o++
		}
		if err != nil || n < searchPiece {
			return nil
		}
	}
}
