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

// slowMemcached passes commands on to a memcached and its answers back, late where
// DELAY says so: memcached itself cannot be slowed for some requests. One connection
// to it for each that it accepts, and one goroutine for both. It understands what
// the services say: commands of one line that are answered by VALUE lines and END,
// or by one line.
func (n *node) slowMemcached(ctx context.Context) error {
	n.role = n.env.String("DELAYED", n.role)
	to, err := n.address("MEMCACHED")
	if err != nil {
		return err
	}
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
				if err := n.pass(client, to); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
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

// pass serves one connection to its end.
func (n *node) pass(client net.Conn, to string) error {
	server, err := net.Dial("tcp", to)
	if err != nil {
		return err
	}
	defer server.Close()
	commands, answers := bufio.NewReader(client), bufio.NewReader(server)
	for {
		command, err := commands.ReadBytes('\n')
		if err != nil {
			return err
		}
		if number, ok := trailing(command); ok {
			if d := n.delays.Of(n.role, number); d > 0 {
				time.Sleep(d)
			}
		}
		if _, err := server.Write(command); err != nil {
			return err
		}
		answer, err := readAnswer(answers)
		if err != nil {
			return err
		}
		if _, err := client.Write(answer); err != nil {
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

// readAnswer reads "VALUE key flags bytes[ cas]" with its data as often as it comes,
// and the line that ends an answer.
func readAnswer(r *bufio.Reader) ([]byte, error) {
	var answer []byte
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		answer = append(answer, line...)
		fields := bytes.Fields(line)
		if len(fields) < 4 || string(fields[0]) != "VALUE" {
			return answer, nil
		}
		size, err := strconv.Atoi(string(fields[3]))
		if err != nil || size < 0 || size > 1<<20 {
			return nil, fmt.Errorf("memcached answers %q", line)
		}
		data := make([]byte, size+2)
		if _, err := io.ReadFull(r, data); err != nil {
			return nil, err
		}
		answer = append(answer, data...)
	}
}
