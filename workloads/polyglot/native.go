package polyglot

func nativeServices() []Service {
	native := func(name, runtime, framework, client string, worker Worker, today Linking, by string, argv ...string) Service {
		return Service{
			Name: name, Runtime: runtime, Framework: framework, Worker: worker, Client: client, Today: today, By: by,
			Built: argv[:1], Part: name[:len(name)-len(framework)-1],
			argv: func(p *Place) []string { return append([]string{p.built(argv[0])}, argv[1:]...) },
		}
	}
	return []Service{
		native("cpp-threads", "C++", "threads", "sockets", Thread, Linked, "", "cpp-service", "threads"),
		native("cpp-pool", "C++", "pool", "sockets", Pool, Unlinked, "nothing known", "cpp-service", "pool"),
		native("cpp-ucontext", "C++", "ucontext", "sockets", Coroutine, Unlinked, "nothing known", "cpp-service", "coroutines"),
		native("rust-axum", "Rust", "axum", "reqwest", Task, Unlinked, "nothing known", "rust-service"),
	}
}
