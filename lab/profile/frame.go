package profile

import "strings"

// frame is a function of a stack, with the rules that apply to it.
type frame struct {
	pkg, name string
	category  string // neutral: the caller's
	api       bool   // of OpenTelemetry
	collector bool
	wrapped   bool
	transport bool
}

func frameOf(function string) frame {
	f := frame{}
	f.pkg, f.name = split(function)
	switch {
	case f.pkg == "runtime":
		f.collector = begins(f.name, collector)
	case f.pkg == "":
		f.collector = f.name == "gcWriteBarrier" // in assembly
	case f.pkg == "net/http":
		f.wrapped = begins(f.name, wrapped)
		if begins(f.name, server) {
			f.category = HTTPServer
		}
	default:
		f.category, f.api = categoryOfPackage(f.pkg)
	}
	f.transport = begins(f.name, transports[f.pkg])
	return f
}

func categoryOfPackage(pkg string) (category string, api bool) {
	for _, o := range owners {
		if within(pkg, o.path) {
			return o.category, false
		}
	}
	for _, p := range apis {
		if within(pkg, p) {
			return neutral, true
		}
	}
	first, _, _ := strings.Cut(pkg, "/")
	if strings.Contains(first, ".") {
		return Other, false
	}
	return neutral, false // of the standard library, or no Go function
}

// within: pkg is path or below it.
func within(pkg, path string) bool {
	return strings.HasPrefix(pkg, path) && (len(pkg) == len(path) || pkg[len(path)] == '/')
}

func begins(name string, with []string) bool {
	for _, w := range with {
		if strings.HasPrefix(name, w) {
			return true
		}
	}
	return false
}

// split takes a symbol of Go apart: "a.b/c.(*T[…]).M" is package a.b/c and (*T[…]).M.
// A symbol without a dot is an assembly or C function and has no package; nor have
// the functions that the compiler makes of types (type:.eq.…, type:.hash.…), which
// are as neutral.
func split(symbol string) (pkg, name string) {
	if strings.HasPrefix(symbol, "type:") {
		return "", symbol
	}
	path := symbol
	if i := strings.IndexAny(path, "[("); i >= 0 { // type arguments have slashes of their own
		path = path[:i]
	}
	slash := strings.LastIndexByte(path, '/') + 1
	dot := strings.IndexByte(path[slash:], '.')
	if dot < 0 {
		return "", symbol
	}
	// The compiler escapes dots in the last element of a path.
	return strings.ReplaceAll(symbol[:slash+dot], "%2e", "."), symbol[slash+dot+1:]
}
