package cli

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

const commandEnv = "TARE_CLI_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(commandEnv) != "" {
		os.Exit(Main(stuck()))
	}
	os.Exit(m.Run())
}

// stuck has commands that wait for what never comes, and one that ends orderly.
func stuck() *cobra.Command {
	say := func() { fmt.Println("runs") }
	root := &cobra.Command{Use: "tare", Run: func(*cobra.Command, []string) { say(); select {} }}
	root.AddCommand(&cobra.Command{Use: "read", RunE: func(*cobra.Command, []string) error {
		say()
		_, err := os.Open(os.Getenv(commandEnv)) // a named pipe that nobody writes
		return err
	}})
	group := Drains(&cobra.Command{Use: "serve"})
	group.AddCommand(&cobra.Command{Use: "all", RunE: func(cmd *cobra.Command, _ []string) error {
		say()
		<-cmd.Context().Done()
		time.Sleep(2 * grace)
		fmt.Println("sent what waited")
		return nil
	}})
	root.AddCommand(group)
	return root
}

// One signal ends every command within a second, whatever it waits for; one that drains has the time that it needs.
func TestSignalEnds(t *testing.T) {
	pipe := t.TempDir() + "/pipe"
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		signal syscall.Signal
		drains bool
	}{
		{nil, syscall.SIGTERM, false},
		{[]string{"read"}, syscall.SIGTERM, false},
		{[]string{"read"}, syscall.SIGINT, false},
		{[]string{"serve", "all"}, syscall.SIGTERM, true},
	} {
		cmd := exec.Command(os.Args[0], c.args...)
		cmd.Env = append(os.Environ(), commandEnv+"="+pipe)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		if !lines.Scan() || lines.Text() != "runs" {
			t.Errorf("%v does not begin", c.args)
		}
		if err := cmd.Process.Signal(c.signal); err != nil {
			t.Error(err)
		}
		// Far more than a second, as the machine may be busy; without a bound it would wait for ever.
		kill := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
		drained := lines.Scan() && lines.Text() == "sent what waited"
		err = cmd.Wait()
		if !kill.Stop() {
			t.Errorf("%v does not end", c.args)
		}
		if drained != c.drains || (err == nil) != c.drains {
			t.Errorf("%v: drained: %v, %v", c.args, drained, err)
		}
	}
}
