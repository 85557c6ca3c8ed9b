package workloads

import (
	"embed"
	"os"
	"strconv"
)

//go:embed shop/*.conf shop/service.py
var shopFiles embed.FS

// shopPlan: an nginx in front of a threaded Python service that asks redis,
// memcached and a second nginx. Request 7 is /item/7; the service gets item:7
// from both stores and asks for /stock/7.
var shopPlan = plan{
	requires: []Requirement{nginxPackage, pythonPackage, redisPackage, memcachedPackage},
	truth:    shopShape.Always(),
	path:     "/item/",
	services: []string{"proxy", "shop", "redis", "memcached", "stock"},
	specs:    shopSpecs,
}

var shopShape = serve("proxy", "/item/",
	call("proxy", "/item/", serve("shop", "/item/",
		call("shop", "GET item:", serve("redis", "GET item:")),
		call("shop", "get item:", serve("memcached", "get item:")),
		call("shop", "/stock/", serve("stock", "/stock/")))))

func shopSpecs(b *builder) ([]spec, error) {
	proxy, err := b.nginx(shopFiles, "shop/proxy.conf", "proxy", "shop")
	if err != nil {
		return nil, err
	}
	stock, err := b.nginx(shopFiles, "shop/stock.conf", "stock", "")
	if err != nil {
		return nil, err
	}
	shop, err := pythonShop(b)
	if err != nil {
		return nil, err
	}
	redis, err := redisServer(b, b.service("redis"))
	if err != nil {
		return nil, err
	}
	memcached, err := memcachedServer(b.service("memcached"), "-t", "2", "-m", "16")
	if err != nil {
		return nil, err
	}
	return []spec{proxy, shop, redis, memcached, stock}, nil
}

func pythonShop(b *builder) (spec, error) {
	// The distribution's, if it is there: users have other interpreters on
	// their path, whose start is slow and whose build is unknown.
	python := "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		if python, err = executable("python3"); err != nil {
			return spec{}, err
		}
	}
	program, err := b.file(shopFiles, "shop/service.py")
	if err != nil {
		return spec{}, err
	}
	s := b.service("shop")
	s.linking = "thread"
	// -I -S: nothing of the user's environment.
	s.argv = []string{
		python, "-I", "-S", program,
		"--host", s.host,
		"--port", strconv.Itoa(s.port),
		"--redis", strconv.Itoa(b.ports["redis"]),
		"--memcached", strconv.Itoa(b.ports["memcached"]),
		"--stock", strconv.Itoa(b.ports["stock"]),
	}
	return s, nil
}

func memcachedServer(s spec, flags ...string) (spec, error) {
	exe, err := executable("memcached")
	if err != nil {
		return spec{}, err
	}
	s.argv = append([]string{exe, "-l", s.host, "-p", strconv.Itoa(s.port), "-U", "0"}, flags...)
	if os.Geteuid() == 0 {
		s.argv = append(s.argv, "-u", "root") // it refuses to be root by accident
	}
	return s, nil
}
