package polyglot

import "slices"

var (
	boostPackage = Need{File: "/usr/include/boost/context/fiber.hpp", Package: "libboost-context-dev"}
	grpcPackages = []Need{
		{File: "/usr/include/grpcpp/grpcpp.h", Package: "libgrpc++-dev"},
		{File: "grpc_cpp_plugin", Package: "protobuf-compiler-grpc"},
		{File: "pkg-config", Package: "pkg-config"},
	}
)

func nativeServices() []Service {
	native := func(part, name, runtime, framework, client string, worker Worker, today Linking, by string, argv ...string) Service {
		return Service{
			Name: name, Runtime: runtime, Framework: framework, Worker: worker, Client: client, Today: today, By: by,
			Built: argv[:1], Part: part,
			argv: func(p *Place) []string { return append([]string{p.built(argv[0])}, argv[1:]...) },
		}
	}
	cpp := func(framework string, worker Worker, today Linking, by string, mode ...string) Service {
		return native("cpp", "cpp-"+framework, "C++", framework, "sockets", worker, today, by, append([]string{"cpp-service"}, mode...)...)
	}
	boost := func(stacks string, today Linking, by string) Service {
		s := native("cpp-boost", "cpp-boost-"+stacks, "C++", "Boost.Context", "sockets", Coroutine, today, by, "cpp-boost", stacks)
		s.Needs = []Need{boostPackage}
		return s
	}
	grpc := native("cpp-grpc", "cpp-grpc", "C++", "gRPC", "sockets", Pool, Unlinked, "nothing known", "cpp-grpc")
	grpc.Needs = slices.Clone(grpcPackages)
	const apart = "a stack that is a mapping of its own"
	return []Service{
		cpp("threads", Thread, Linked, "", "threads"),
		cpp("pool", Pool, Unlinked, "nothing known", "pool"),
		cpp("ucontext", Coroutine, Unlinked, apart, "coroutines"),
		cpp("ucontext-side", Coroutine, Unlinked, apart, "coroutines", "side"),
		cpp("ucontext-mapped", Coroutine, Linked, "", "coroutines", "mapped"),
		boost("protected", Linked, ""),
		boost("fixedsize", Unlinked, apart),
		boost("pooled", Unlinked, apart),
		grpc,
		native("go", "go-http", "Go", "net/http", "net/http", Goroutine, Linked, "", "go-service"),
		native("rust", "rust-axum", "Rust", "axum", "reqwest", Task, Unlinked, "nothing known", "rust-service"),
	}
}
