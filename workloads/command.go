package workloads

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// Command is a service of the user's own, which the chain "command" consists of.
// In Argv and in values of Options.Env, {host} and {port} stand for the address
// that it must listen on.
//
// It is started in the caller's working directory and environment. Variables that
// begin with OTEL_ are not inherited: whether a run is traced must be said in
// Options.Env, not by the shell that the laboratory was started from. The service
// must stay in the foreground. In a network (Options.Network) it reaches nothing
// but the laboratory's side. If it ends or does not become ready, the error has
// the end of what it wrote, or says who has its port.
type Command struct {
	Name string   // of the chain and its one service; "": "command"
	Argv []string // the program is looked for as a shell does
	// Health is the path that answers 2xx when the service is ready; "": it
	// is ready when it accepts connections.
	Health string
	Port   int // 0: a free one is found, and {port} must tell it
}

// commandPlan: one service of the user's own.
var commandPlan = plan{
	command:  true,
	path:     "/",
	fixed:    true,
	choose:   true,
	services: []string{commandName},
	reserved: []string{},
	specs: func(b *builder) ([]spec, error) {
		s, err := b.opts.Command.spec(b)
		return []spec{s}, err
	},
}

const commandName = "command"

func (cmd *Command) valid() error {
	switch {
	case strings.ContainsAny(cmd.Name, "/\x00") || strings.HasPrefix(cmd.Name, "."):
		return errors.New("its name must be able to name a file")
	case len(cmd.Argv) == 0 || cmd.Argv[0] == "":
		return errors.New("there is nothing to start: give a program and its arguments")
	case cmd.Health != "" && !strings.HasPrefix(cmd.Health, "/"):
		return fmt.Errorf("the health path %q must begin with a slash", cmd.Health)
	case cmd.Port < 0 || cmd.Port > 65535:
		return fmt.Errorf("port %d is none", cmd.Port)
	}
	return nil
}

// mentions reports whether the service is told what the placeholder stands for.
func (cmd *Command) mentions(placeholder string, env map[string]string) bool {
	has := func(s string) bool { return strings.Contains(s, placeholder) }
	return slices.ContainsFunc(cmd.Argv, has) || slices.ContainsFunc(slices.Collect(maps.Values(env)), has)
}

func (cmd *Command) spec(b *builder) (spec, error) {
	s := b.service(commandName)
	s.name = cmp.Or(cmd.Name, commandName)
	s.health = cmd.Health
	if cmd.Port != 0 {
		s.port = cmd.Port
		if err := portFree(s.network, s.host, s.port); err != nil {
			return spec{}, err
		}
	} else if !cmd.mentions("{port}", b.opts.Env) {
		return spec{}, errors.New("it cannot know which port to listen on: put {port} into its command line or environment, or say which port it has")
	}
	place := strings.NewReplacer("{host}", s.host, "{port}", strconv.Itoa(s.port))
	for _, a := range cmd.Argv {
		s.argv = append(s.argv, place.Replace(a))
	}
	// Here and not by nsenter, whose error would come too late and say less.
	exe, err := exec.LookPath(s.argv[0])
	if err != nil {
		return spec{}, fmt.Errorf("cannot start %q: %w", s.argv[0], err)
	}
	s.argv[0] = exe
	env := map[string]string{}
	for k, v := range b.opts.Env {
		env[k] = place.Replace(v)
	}
	inherited := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "OTEL_") })
	s.env = environ(inherited, env)
	s.dir, err = os.Getwd()
	return s, err
}
