package discover

import (
	"cmp"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// program is what a process is called where nothing else names it: an interpreter by its
// script, anything else by its executable, or by the link to that by which it was started.
func (p *process) program() string {
	if p.name == nil {
		name := strings.Clone(p.findProgram()) // and not all of the arguments that it is a part of
		p.name = &name
	}
	return *p.name
}

func (p *process) findProgram() string {
	exe := path.Base(p.exe)
	if interpreterOf(exe) != nil {
		cwd, _ := os.Readlink(filepath.Join(p.dir, "cwd")) // "" if it cannot be read: it names nothing
		if name := scriptOf(exe, p.args(), cwd); name != "" && len(name) <= maxName {
			return name
		}
	}
	if called := p.called(); called != "" && called != p.exe && interpreterOf(exe) == nil && p.linked(called) {
		return path.Base(called)
	}
	return exe
}

// interpreter is how a program's script stands among its arguments.
type interpreter struct {
	name *regexp.Regexp // of the executable
	// Options with a value of their own, in the next argument; others have none, or behind a "=".
	values []string
	// Options whose value is code, or which read it elsewhere: there is no script.
	code []string
	// Options whose value is what runs: a file, a module, a class.
	runs []string
	// Suffixes of scripts.
	suffixes []string
	// Scripts that run an application, which they are told of in these options, or else as module:object or
	// module. Without any, the working directory has its name.
	launchers map[string][]string
	// The name is a class or a module: its last part is its name.
	class bool
}

var appOptions = []string{"-A", "--app"}

var interpreters = []interpreter{
	{
		name:   regexp.MustCompile(`^(python|pypy)[0-9.]*$`),
		values: []string{"-W", "-X", "--check-hash-based-pycs"}, code: []string{"-c"}, runs: []string{"-m"},
		suffixes: []string{".py", ".pyc", ".pyz"},
		launchers: map[string][]string{"gunicorn": nil, "uvicorn": nil, "hypercorn": nil, "daphne": nil, "granian": nil, "waitress-serve": nil,
			"celery": appOptions, "flask": appOptions},
	},
	{
		name:   regexp.MustCompile(`^node(js)?$`),
		values: []string{"-r", "--require", "--import", "--loader", "--experimental-loader", "-C", "--conditions"},
		code:   []string{"-e", "--eval", "-p", "--print", "-pe", "-i"}, suffixes: []string{".js", ".mjs", ".cjs", ".ts"},
	},
	{
		name: regexp.MustCompile(`^java$`),
		values: []string{"-cp", "-classpath", "--class-path", "-p", "--module-path", "--upgrade-module-path", "--add-modules",
			"--add-opens", "--add-exports", "--add-reads", "--patch-module", "--limit-modules", "--enable-native-access"},
		runs: []string{"-jar", "-m", "--module"}, suffixes: []string{".jar", ".war", ".java"}, class: true,
	},
	{
		name:   regexp.MustCompile(`^ruby[0-9.]*$`),
		values: []string{"-r", "-I", "-C", "-E", "-F"}, code: []string{"-e"}, suffixes: []string{".rb", ".ru"},
		launchers: map[string][]string{"puma": nil, "unicorn": nil, "rails": nil, "rackup": nil, "thin": nil, "sidekiq": nil},
	},
	{
		name:   regexp.MustCompile(`^php[0-9.]*$`),
		values: []string{"-c", "-d", "-z", "-S", "-t"}, code: []string{"-r", "-R", "-B", "-a"}, runs: []string{"-f"},
		suffixes: []string{".php", ".phar"},
	},
	{
		name:   regexp.MustCompile(`^perl[0-9.]*$`),
		values: []string{"-I"}, code: []string{"-e", "-E"}, suffixes: []string{".pl", ".psgi"},
	},
	{
		name:   regexp.MustCompile(`^dotnet$`),
		values: []string{"--additionalprobingpath", "--depsfile", "--runtimeconfig", "--fx-version", "--roll-forward"}, suffixes: []string{".dll"},
	},
}

func interpreterOf(exe string) *interpreter {
	i := slices.IndexFunc(interpreters, func(i interpreter) bool { return i.name.MatchString(exe) })
	if i < 0 {
		return nil
	}
	return &interpreters[i]
}

// unspecific are the names of scripts, modules, classes and directories that say nothing of the program: what is above
// them may.
var unspecific = map[string]bool{
	"__main__": true, "main": true, "index": true, "app": true, "application": true, "server": true, "start": true, "run": true,
	"wsgi": true, "asgi": true, "manage": true, "artisan": true, "console": true, "bootstrap": true, "launcher": true, "startup": true,
	"bin": true, "build": true, "code": true, "current": true, "dist": true, "home": true, "html": true, "lib": true, "local": true,
	"opt": true, "out": true, "public": true, "release": true, "releases": true, "root": true, "share": true, "src": true, "srv": true,
	"target": true, "tmp": true, "usr": true, "var": true, "workspace": true, "www": true, "com": true, "org": true, "io": true, "net": true,
}

func specific(name string) bool {
	return name != "" && name != "." && name != ".." && name != "/" && strings.Trim(name, "0123456789") != "" && !unspecific[strings.ToLower(name)]
}

// scriptOf is the name of the application that an interpreter runs, by its script, module or class, or by the directory
// of these where they are called like everybody's; "" if the executable is no interpreter, or it cannot be told.
func scriptOf(exe string, args []string, cwd string) string {
	i := interpreterOf(exe)
	if i == nil || len(args) == 0 {
		return ""
	}
	if !slices.ContainsFunc(args[1:], func(arg string) bool { return arg != "" }) { // a title, by which it has replaced them
		return i.title(args[0], cwd)
	}
	args = args[1:]
	for n := 0; n < len(args); n++ {
		arg := args[n]
		switch {
		case slices.Contains(i.code, arg):
			return ""
		case slices.Contains(i.runs, arg):
			if n+1 == len(args) {
				return ""
			}
			return i.script(args[n+1], args[n+2:], cwd, arg == "-m" || arg == "--module")
		case slices.Contains(i.values, arg):
			n++
		case arg == "--" && n+1 < len(args):
			return i.script(args[n+1], args[n+2:], cwd, false)
		case arg == "-" || arg == "--" || arg == "":
			return ""
		case arg[0] != '-' && arg[0] != '@':
			return i.script(arg, args[n+1:], cwd, false)
		}
	}
	return ""
}

// title reads what a program has written over its arguments: "puma 6.4 (tcp://[::]:80) [shop]", "gunicorn: worker
// [shop.wsgi]", "unicorn master -c x", "node /srv/shop/index.js".
func (i *interpreter) title(text, cwd string) string {
	if from := strings.LastIndexByte(text, '['); from >= 0 && strings.HasSuffix(text, "]") {
		if name := text[from+1 : len(text)-1]; reference.MatchString(name) {
			return named(strings.Split(name, "."), cwd)
		}
	}
	words := strings.Fields(text)
	if len(words) < 2 {
		return ""
	}
	if _, ok := i.launchers[strings.TrimSuffix(words[0], ":")]; ok {
		return named(nil, cwd)
	}
	if i.name.MatchString(path.Base(words[0])) {
		return scriptOf(path.Base(words[0]), words, cwd)
	}
	return ""
}

// reference is module, or module:object: what a launcher runs.
var reference = regexp.MustCompile(`^[A-Za-z_][\w-]*(\.[A-Za-z_]\w*)*(:[A-Za-z_].*)?$`)

// version is behind the name of a Java archive.
var version = regexp.MustCompile(`[-_.]v?[0-9]+(\.[0-9]+)*([-.](SNAPSHOT|RELEASE|Final|GA|(RC|M|alpha|beta)[0-9.]*))?([-.](jar-with-dependencies|all|boot|exec|fat|runner|shaded|standalone))?$`)

// script names what runs. A module of Python keeps its name whole.
func (i *interpreter) script(arg string, args []string, cwd string, module bool) string {
	name := path.Base(strings.TrimRight(arg, "/"))
	if options, ok := i.launchers[name]; ok {
		if app := named(strings.Split(launched(args, options), "."), cwd); specific(app) {
			return app
		}
		return name
	}
	if module && !i.class {
		return strings.TrimRight(arg, "/")
	}
	if !path.IsAbs(arg) && cwd != "" {
		arg = path.Join(cwd, arg)
	}
	if project, _, ok := strings.Cut(arg, "/node_modules/"); ok {
		return cmp.Or(named(nil, project), name)
	}
	for _, suffix := range i.suffixes {
		if short, ok := strings.CutSuffix(name, suffix); ok && short != "" {
			if i.class {
				short = cmp.Or(version.ReplaceAllString(short, ""), short)
			}
			return named([]string{short}, path.Dir(arg))
		}
	}
	if i.class {
		return named(strings.Split(name, "."), "")
	}
	return named([]string{name}, path.Dir(arg))
}

// launched is the module that a launcher runs, "" if its arguments do not tell.
func launched(args, options []string) string {
	found := ""
	for n, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		switch {
		case slices.Contains(options, key) && ok:
			found = value
		case slices.Contains(options, arg) && n+1 < len(args):
			found = args[n+1]
		case len(options) > 0 || arg == "" || arg[0] == '-' || !reference.MatchString(arg):
			continue
		case strings.Contains(arg, ":"):
			found = arg
		case found == "" && (n == 0 || !strings.HasPrefix(args[n-1], "-") || strings.Contains(args[n-1], "=")):
			found = arg
			continue // module:object would be better
		default:
			continue
		}
		break
	}
	found, _, _ = strings.Cut(found, ":")
	return found
}

// named is the last specific of the parts of a name, or of the directories above; or the last part.
func named(parts []string, dir string) string {
	for n := len(parts) - 1; n >= 0; n-- {
		if specific(parts[n]) {
			return parts[n]
		}
	}
	for dir != "" && dir != "." && dir != "/" && path.Dir(dir) != "/home" {
		if specific(path.Base(dir)) {
			return path.Base(dir)
		}
		dir = path.Dir(dir)
	}
	if len(parts) > 0 {
		return parts[len(parts)-1]
	}
	return ""
}
