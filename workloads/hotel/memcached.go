package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/tare-trace/tare/workloads/internal/service"
)

// lateMemcached stands in a memcached's place, which itself cannot be slowed for
// some requests: it answers late where DELAY says so. It has nothing in memory, as
// memcached has nothing for a key that is one request's alone.
func (n *node) lateMemcached(ctx context.Context) error {
	l, err := service.Listen(n.env)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s listens on %s\n", n.role, l.Addr())
	var open sync.Map // net.Conn of clients
	serve := func() error {
		for {
			client, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			if err != nil {
				return err
			}
			open.Store(client, nil)
			go func() {
				defer open.Delete(client)
				defer client.Close()
				if err := n.miss(client); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
					fmt.Fprintf(os.Stderr, "%s: %v\n", n.role, err)
				}
			}()
		}
	}
	stop := func(context.Context) error {
		err := l.Close()
		open.Range(func(client, _ any) bool { client.(net.Conn).Close(); return true })
		return err
	}
	return service.Until(ctx, serve, stop, func(context.Context) error { return nil })
}

// miss serves one connection to its end.
func (n *node) miss(client net.Conn) error {
	commands := bufio.NewReader(client)
	for {
		command, err := commands.ReadBytes('\n')
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(command, []byte("get")) {
			return fmt.Errorf("this stands in for a memcached that is only asked, not told %q", command)
		}
		if number, ok := trailing(command); ok {
			if d := n.delays.Of(n.role, number); d > 0 {
				time.Sleep(d)
			}
		}
		if _, err := io.WriteString(client, "END\r\n"); err != nil {
			return err
		}
	}
}

// trailing is the number at the end of a command.
func trailing(command []byte) (uint64, bool) {
	line := bytes.TrimRight(command, "\r\n")
	i := len(line)
	for i > 0 && '0' <= line[i-1] && line[i-1] <= '9' {
		i--
	}
	number, err := strconv.ParseUint(string(line[i:]), 10, 64)
	return number, err == nil
}
