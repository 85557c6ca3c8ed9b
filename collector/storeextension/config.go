package storeextension

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tare-trace/tare/internal/duration"
	"github.com/tare-trace/tare/store"
)

// Config is the extension's section of a collector's configuration.
type Config struct {
	// Directory of the store, created with mode 0700 if necessary. Default:
	// /var/lib/tare/store for root, else tare/store in $XDG_STATE_HOME (~/.local/state).
	Directory string `mapstructure:"directory"`
	// Sync (default) writes acknowledged spans so that they survive a power cut. Without
	// it they survive only a kill of the process, and writing costs less.
	Sync bool `mapstructure:"sync"`
	// Retention removes the oldest spans.
	Retention Retention `mapstructure:"retention"`
	_         struct{}
}

// Retention says how long spans are kept. Both limits apply; 0 is no limit.
type Retention struct {
	Age  duration.Duration `mapstructure:"age"`  // default 7d
	Size Size              `mapstructure:"size"` // on disk; default 10GiB
	// Services are ages, shorter than Age, by patterns of services' names.
	Services map[string]duration.Duration `mapstructure:"services"`
	Logs     Size                         `mapstructure:"logs"` // of the log records beside traces; default 1GiB, at most an eighth of size
	_        struct{}
}

// Validate reports values that make no sense.
func (c *Config) Validate() error {
	if c.Directory == "" {
		return errors.New("`directory` is empty, and this user has no home directory to take a default from")
	}
	if c.Retention.Age < 0 {
		return errors.New("`retention::age` is negative; 0 means no limit")
	}
	o := store.Options{Dir: c.Directory, MaxAge: c.Retention.Age.Std(), Services: c.Retention.services()}
	if err := o.Validate(); err != nil {
		return fmt.Errorf("`retention`: %w", err)
	}
	return nil
}

func (r *Retention) services() map[string]time.Duration {
	ages := make(map[string]time.Duration, len(r.Services))
	for p, age := range r.Services {
		ages[p] = age.Std()
	}
	return ages
}

func defaultDirectory() string {
	if os.Geteuid() == 0 {
		return "/var/lib/tare/store"
	}
	state := os.Getenv("XDG_STATE_HOME")
	if state == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "tare", "store")
}
