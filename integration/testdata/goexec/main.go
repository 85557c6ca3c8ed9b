// A server that has programs ask: goexec LISTEN BACKEND runs bash for each request, which asks the backend for what
// the path ends with.
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"strconv"
	"time"
)

const script = `exec 3<>/dev/tcp/$0/$1; printf 'GET /n/%s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n' "$2" >&3; read -r <&3`

func main() {
	host, port, err := net.SplitHostPort(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	srv := &http.Server{Addr: os.Args[1], ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(path.Base(r.URL.Path))
		if err == nil {
			err = exec.CommandContext(r.Context(), "bash", "-c", script, host, port, strconv.Itoa(n)).Run()
		}
		if err != nil {
			http.Error(w, fmt.Sprint(err), http.StatusBadGateway)
		}
	})}
	log.Fatal(srv.ListenAndServe())
}
