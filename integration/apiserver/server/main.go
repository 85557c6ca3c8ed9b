// Command server is Kubernetes' API server with an etcd in the same process: for tests. It
// runs until it is told to end; what is in its directory is there again when it is started again.
//
//	server -dir DIRECTORY -address ADDRESS -port PORT -tokens FILE
//
// FILE has a token, a user, an id and groups in each line: kube-apiserver's --token-auth-file.
// The certificate to check it by is DIRECTORY/apiserver.crt.
package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	dir := flag.String("dir", "", "")
	address := flag.String("address", "", "")
	port := flag.Int("port", 0, "")
	tokens := flag.String("tokens", "", "")
	flag.Parse()
	if err := run(*dir, *address, *port, *tokens); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

func run(dir, address string, port int, tokens string) error {
	if dir == "" || address == "" || port == 0 || tokens == "" {
		return errors.New("usage: server -dir DIRECTORY -address ADDRESS -port PORT -tokens FILE")
	}
	etcd, err := startEtcd(filepath.Join(dir, "etcd"))
	if err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	defer etcd.Close()
	key, err := signingKey(filepath.Join(dir, "service-accounts.key"))
	if err != nil {
		return err
	}
	command := app.NewAPIServerCommand()
	command.SetArgs([]string{
		"--etcd-servers=http://" + etcd.Clients[0].Addr().String(),
		"--bind-address=" + address, "--advertise-address=" + address, "--secure-port=" + strconv.Itoa(port), "--cert-dir=" + dir,
		"--endpoint-reconciler-type=none",
		"--authorization-mode=RBAC", "--token-auth-file=" + tokens,
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-signing-key-file=" + key, "--service-account-key-file=" + key,
		"--service-cluster-ip-range=10.96.0.0/16",
		"--allow-privileged=true",
		"--shutdown-delay-duration=0s",
	})
	// It ends at a signal by itself.
	if status := cli.Run(command); status != 0 {
		return fmt.Errorf("kube-apiserver: status %d", status)
	}
	return nil
}

// startEtcd takes ports that are free, or those of the time before.
func startEtcd(dir string) (*embed.Etcd, error) {
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.LogLevel = "error"
	cfg.UnsafeNoFsync = true // the machine's end may lose what a test has written
	var urls [2][]url.URL
	for i := range urls {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		urls[i] = []url.URL{{Scheme: "http", Host: l.Addr().String()}}
		if err := l.Close(); err != nil {
			return nil, err
		}
	}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = urls[0], urls[0]
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = urls[1], urls[1]
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, err
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return etcd, nil
	case err := <-etcd.Err():
		return nil, err
	case <-time.After(time.Minute):
		etcd.Close()
		return nil, errors.New("not ready after a minute")
	}
}

// signingKey is a file with the key that tokens of service accounts are signed by.
func signingKey(file string) (string, error) {
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return "", err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	return file, os.WriteFile(file, text, 0o600)
}
