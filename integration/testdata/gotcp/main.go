// A server without net/http: gotcp LISTEN UPSTREAM passes on bytes, one request at a
// time, over a connection of its own for each client.
package main

import (
	"io"
	"log"
	"net"
	"os"
)

func main() {
	l, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	for {
		client, err := l.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go pass(client, os.Args[2])
	}
}

func pass(client net.Conn, upstream string) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", upstream)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	go func() {
		// Read and written by the program itself: nobody splices.
		_, _ = io.Copy(struct{ io.Writer }{client}, struct{ io.Reader }{server})
		_ = client.Close()
	}()
	_, _ = io.Copy(struct{ io.Writer }{server}, struct{ io.Reader }{client})
}
