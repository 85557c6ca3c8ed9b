// Command go is the service of package polyglot in Go: net/http and go-redis, with the request's context.
package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	at := func(port string) string { return os.Getenv("HOST") + ":" + os.Getenv(port) }
	backend := http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
	store := redis.NewClient(&redis.Options{Addr: at("REDIS"), Protocol: 2, DisableIdentity: true, MaxActiveConns: 256})
	handler := http.NewServeMux()
	handler.HandleFunc("/n/", func(w http.ResponseWriter, r *http.Request) {
		number := strings.TrimPrefix(r.URL.Path, "/n/")
		told, err := ask(r, &backend, "http://"+at("BACKEND")+"/n/"+number)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		kept, err := store.Get(r.Context(), "n:"+number).Result()
		if err != nil && err != redis.Nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		_, _ = fmt.Fprintf(w, "%s %s", told, kept)
	})
	server := http.Server{Addr: at("PORT"), Handler: handler, ReadHeaderTimeout: time.Minute}
	log.Fatal(server.ListenAndServe())
}

func ask(r *http.Request, client *http.Client, url string) (string, error) {
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	answer, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	return string(text), err
}
