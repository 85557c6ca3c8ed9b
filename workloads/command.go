package workloads

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Command is a service of the user's own. In Argv and in values of Env (and of
// Options.Env), {host} and {port} stand for the address that it must listen on.
type Command struct {
	Name string   // of the chain and its one service; "": "command"
	Argv []string // the program is looked for as a shell does
	Env  map[string]string
	// Health is the path that answers 2xx when the service is ready; "": it
	// is ready when it accepts connections.
	Health string
	Port   int    // 0: a free one is found, and {port} must tell it
	Path   string // of every request; "": /
}

// StartCommand starts a user's service, in the caller's working directory and
// environment, and waits until it is ready. Variables that begin with OTEL_
// are not inherited: whether a run is traced must be said in Env, not by
// the shell that the laboratory was started from. The service must stay in
// the foreground. In a network (Options.Network) it reaches nothing but the
// laboratory's side.
//
// An error has the end of what the service wrote, if it ended or did not
// become ready, or says who has its port.
func StartCommand(ctx context.Context, cmd Command, opts Options) (*Chain, error) {
	if cmd.Name == "" {
		cmd.Name = "command"
	}
	if opts.ReadyWithin == 0 {
		opts.ReadyWithin = time.Minute
	}
	if cmd.Path != "" {
		opts.Path = cmd.Path
	}
	p := plan{
		path: "/", fixed: true, choose: true, services: []string{cmd.Name}, reserved: []string{},
		specs: func(b *builder) ([]spec, error) {
			s, err := cmd.spec(b)
			return []spec{s}, err
		},
	}
	if err := errors.Join(cmd.valid(opts), p.accepts(opts)); err != nil {
		return nil, fmt.Errorf("command %s: %w", cmd.Name, err)
	}
	return startPlan(ctx, cmd.Name, p, opts)
}

func (cmd Command) valid(opts Options) error {
	switch {
	case strings.ContainsAny(cmd.Name, "/\x00") || strings.HasPrefix(cmd.Name, "."):
		return errors.New("its name must be able to name a file")
	case len(cmd.Argv) == 0 || cmd.Argv[0] == "":
		return errors.New("there is nothing to start: give a program and its arguments")
	case cmd.Health != "" && !strings.HasPrefix(cmd.Health, "/"):
		return fmt.Errorf("the health path %q must begin with a slash", cmd.Health)
	case cmd.Port < 0 || cmd.Port > 65535:
		return fmt.Errorf("port %d is none", cmd.Port)
	case cmd.Port == 0 && !cmd.mentions("{port}", opts.Env):
		return errors.New("it cannot know which port to listen on: put {port} into its command line or environment, or say which port it has")
	}
	return nil
}

// mentions reports whether the service is told what the placeholder stands for.
func (cmd Command) mentions(placeholder string, more map[string]string) bool {
	has := func(s string) bool { return strings.Contains(s, placeholder) }
	for _, env := range []map[string]string{cmd.Env, more} {
		for _, v := range env {
			if has(v) {
				return true
			}
		}
	}
	return slices.ContainsFunc(cmd.Argv, has)
}

func (cmd Command) spec(b *builder) (spec, error) {
	s := b.service(cmd.Name)
	s.health = cmd.Health
	if cmd.Port != 0 {
		s.port = cmd.Port
		if err := portFree(s.network, s.host, s.port); err != nil {
			return spec{}, err
		}
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
	for k, v := range cmd.Env {
		env[k] = place.Replace(v)
	}
	for k, v := range b.opts.Env {
		env[k] = place.Replace(v)
	}
	inherited := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "OTEL_") })
	s.env = environ(inherited, env)
	s.dir, err = os.Getwd()
	return s, err
}
