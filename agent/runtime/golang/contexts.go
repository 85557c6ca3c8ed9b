package golang

import "strings"

const contextInterface = "context.Context"

// contexts finds every type that the program holds as a context.Context, and
// where it has its parent.
func (d *deriver) contexts() Refusal {
	m, l := d.m, d.layout
	c := d.fork()
	cancel := d.structs("*context.cancelCtx", "context")
	value := d.structs("*context.valueCtx", "context")
	if len(cancel) != 1 || len(value) != 1 {
		return Refusal{NoType, "context.cancelCtx"}
	}
	l.CancelErr = c.off(cancel[0], "err", kindInterface, kindStruct) // an atomic.Value since Go 1.25
	l.ValueKey = c.off(value[0], "key", kindInterface)
	l.ValueVal = c.off(value[0], "val", kindInterface)
	if c.refused() {
		return c.refusal
	}
	var request typ // net/http's, which has a context, and which contexts of frameworks have
	if r := d.structs("*http.Request", "net/http"); len(r) > 0 {
		request = r[0]
	}
	isContext := map[uint64]bool{}
	for itab := range m.allItabs() {
		inter := m.pointer(itab)
		known, ok := isContext[inter]
		if !ok {
			if len(isContext) >= maxInterfaces {
				clear(isContext)
			}
			t, valid := m.typeAt(inter)
			known = valid && t.kind == kindInterface && m.name(t) == contextInterface && m.pkg(t) == "context"
			isContext[inter] = known
		}
		if !known {
			continue
		}
		t, ok := m.typeAt(m.pointer(itab + 8))
		if !ok {
			continue
		}
		x := Context{Itab: itab, Type: named(m.rawName(t)), Via: -1, Parent: -1}
		s := m.target(t)
		switch m.name(s) {
		case "context.valueCtx":
			x.Kind = ContextValue
		case "context.cancelCtx", "context.timerCtx", "context.afterFuncCtx":
			if f, ok := m.field(s, "Context"); m.pkg(s) == "context" && (ok && f.off == 0 || m.name(s) != "context.cancelCtx") {
				x.Kind = ContextCancel
			}
		}
		if m.pkg(s) != "context" {
			x.Kind = ContextOther
		}
		x.Via, x.Parent = m.parentOf(s, request, 0)
		l.Contexts = append(l.Contexts, x)
		if len(l.Contexts) == maxContexts {
			break
		}
	}
	if len(l.Contexts) == 0 {
		return Refusal{NoType, contextInterface}
	}
	return Refusal{}
}

const (
	maxContexts   = 1024
	maxInterfaces = 4096 // that are remembered to be contexts, or none
	maxType       = 64   // bytes of a context's name
)

func named(name []byte) string { return string(name[:min(len(name), maxType)]) }

// target is the type of what an interface's data word points to: it is a pointer
// itself, or something that is as large as one, or else the value is behind it.
func (m *module) target(t typ) typ {
	for depth := 0; depth < 4; depth++ {
		switch {
		case t.kind == kindPointer:
			e, _ := m.elem(t)
			return e
		case t.kind == kindStruct && t.size == 8:
			var only typ
			for f := range m.fields(t) {
				only = f.typ
				break
			}
			if only.kind != kindPointer && only.kind != kindStruct {
				return t
			}
			if only.kind == kindStruct && only.size != 8 {
				return t
			}
			t = only
		default:
			return t
		}
	}
	return t
}

// parentOf finds where a context has its parent: the first field that is a
// context.Context, in embedded structs too, else in a struct that an embedded
// pointer points to, else the context of a request.
func (m *module) parentOf(t, request typ, depth int) (via, parent int32) {
	if depth > 4 || t.size > 1<<16 {
		return -1, -1
	}
	for f := range m.fields(t) {
		if f.typ.kind == kindInterface && m.name(f.typ) == contextInterface {
			return -1, int32(f.off)
		}
	}
	for f := range m.fields(t) {
		if !f.embedded || f.typ.kind != kindStruct {
			continue
		}
		if v, p := m.parentOf(f.typ, request, depth+1); v >= 0 {
			return v + int32(f.off), p
		} else if p >= 0 {
			return -1, p + int32(f.off)
		}
	}
	for f := range m.fields(t) {
		if f.typ.kind != kindPointer {
			continue
		}
		e, _ := m.elem(f.typ)
		if !f.embedded && (e.addr != request.addr || request.addr == 0) {
			continue
		}
		if v, p := m.parentOf(e, request, depth+1); v < 0 && p >= 0 {
			return int32(f.off), p
		}
	}
	return -1, -1
}

// allItabs yields the addresses of the itabs that the linker made. Those that
// the program makes while it runs, by assertions to an interface, are not among
// them.
func (m *module) allItabs() func(yield func(uint64) bool) {
	return func(yield func(uint64) bool) {
		for i := range m.itablinks.len {
			if at := m.pointer(m.itablinks.addr + 8*i); at == 0 || !yield(at) {
				return
			}
		}
		n := 0
		for at := m.itabs; at < m.eitabs && n < maxItabs; n++ {
			inter, ok := m.typeAt(m.pointer(at))
			if !ok || inter.kind != kindInterface || !yield(at) {
				return
			}
			methods := uint64(1)
			if m.word(at+24) != 0 {
				methods = max(1, m.word(inter.addr+64))
			}
			if methods > 1<<16 {
				return
			}
			at += 24 + 8*methods
		}
	}
}

// under says that a package is the one, or a copy of it: vendored, or forked.
func under(pkg, suffix string) bool {
	rest, ok := strings.CutSuffix(pkg, suffix)
	return ok && (rest == "" || rest[len(rest)-1] == '/')
}
