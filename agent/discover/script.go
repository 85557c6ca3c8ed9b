package discover

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// program is what a process is called where nothing else names it: an interpreter by its
// script, anything else by its executable, or by the link to that by which it was started.
func (p *process) program() string {
	exe := path.Base(p.exe)
	if name := scriptOf(exe, p.args()); name != "" {
		return name
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
	// Names of scripts that say nothing: the directory is the program's name.
	common []string
	// The name is a class or a module: its last part is its name.
	class bool
}

var interpreters = []interpreter{
	{
		name:   regexp.MustCompile(`^(python|pypy)[0-9.]*$`),
		values: []string{"-W", "-X", "--check-hash-based-pycs"}, code: []string{"-c"}, runs: []string{"-m"},
		suffixes: []string{".py", ".pyc", ".pyz"}, common: []string{"__main__"},
	},
	{
		name:   regexp.MustCompile(`^node(js)?$`),
		values: []string{"-r", "--require", "--import", "--loader", "--experimental-loader", "-C", "--conditions"},
		code:   []string{"-e", "--eval", "-p", "--print", "-pe", "-i"}, suffixes: []string{".js", ".mjs", ".cjs", ".ts"}, common: []string{"index"},
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
	},
	{
		name:   regexp.MustCompile(`^php[0-9.]*$`),
		values: []string{"-c", "-d", "-z", "-S", "-t"}, code: []string{"-r", "-R", "-B", "-a"}, runs: []string{"-f"},
		suffixes: []string{".php", ".phar"}, common: []string{"index"},
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

// scriptOf is the name of the script, module or class that an interpreter runs, as
// OpenTelemetry's resource detectors name a service where they find one; "" if the executable is
// no interpreter, or it cannot be told.
func scriptOf(exe string, args []string) string {
	i := interpreterOf(exe)
	if i == nil || len(args) < 2 {
		return ""
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
			return i.script(args[n+1], arg == "-m" || arg == "--module")
		case slices.Contains(i.values, arg):
			n++
		case arg == "--" && n+1 < len(args):
			return i.script(args[n+1], false)
		case arg == "-" || arg == "--" || arg == "":
			return ""
		case arg[0] != '-' && arg[0] != '@':
			return i.script(arg, false)
		}
	}
	return ""
}

// script names what runs. A module of Python keeps its name whole.
func (i *interpreter) script(arg string, module bool) string {
	name := strings.TrimRight(arg, "/")
	if module && !i.class {
		return name
	}
	name = path.Base(name)
	for _, suffix := range i.suffixes {
		if short, ok := strings.CutSuffix(name, suffix); ok && short != "" {
			if dir := path.Base(path.Dir(arg)); slices.Contains(i.common, short) && dir != "." && dir != "/" && dir != ".." {
				return dir
			}
			return short
		}
	}
	if i.class {
		name = name[strings.LastIndexByte(name, '.')+1:]
	}
	return name
}
