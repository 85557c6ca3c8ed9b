// A server that asks by a library in C: gocgo LISTEN gets what each path ends with from redis
// at the port REDIS. A function of C that is called has a stack of its own, on a goroutine's
// thread.
package main

/*
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>

static int dial(int port) {
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	return fd >= 0 && !connect(fd, (struct sockaddr *)&to, sizeof(to)) ? fd : -1;
}

static int ask(int fd, const char *question, int size) {
	char answer[64];
	return send(fd, question, size, 0) == size && recv(fd, answer, sizeof(answer), 0) > 0;
}
*/
import "C"

import (
	"fmt"
	"log"
	"net/http"
	"os"
	"path"
	"strconv"
	"time"
	"unsafe"
)

func main() {
	port, err := strconv.Atoi(os.Getenv("REDIS"))
	if err != nil {
		log.Fatal(err)
	}
	free := make(chan C.int, 8)
	for range cap(free) {
		fd := C.dial(C.int(port))
		if fd < 0 {
			log.Fatal("redis is not there")
		}
		free <- fd
	}
	srv := &http.Server{Addr: os.Args[1], ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := "n:" + path.Base(r.URL.Path)
		question := fmt.Appendf(nil, "*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", len(key), key)
		fd := <-free
		ok := C.ask(fd, (*C.char)(unsafe.Pointer(&question[0])), C.int(len(question)))
		free <- fd
		if ok == 0 {
			http.Error(w, "redis does not answer", http.StatusBadGateway)
		}
	})}
	log.Fatal(srv.ListenAndServe())
}
