// GET /n/5 is passed on by gRPC to a server in the same process, over one connection; what serves it there, a
// thread of gRPC's, asks the backend and redis.
#include <grpcpp/grpcpp.h>

#include <thread>

#include "ask.hpp"
#include "asker.grpc.pb.h"

inline bool running() { return false; }
inline void await(int, unsigned) { abort(); } // sockets block

struct Server : Asker::Service {
	grpc::Status Ask(grpc::ServerContext *, const Number *number, Answer *answer) override
	{
		thread_local Peers peers;
		answer->set_text(peers.ask(number->n()));
		return grpc::Status::OK;
	}
};

static void serve(int fd, Asker::Stub *asker)
{
	Connection client(fd);
	for (string n; !(n = client.number()).empty();) {
		grpc::ClientContext context;
		Number number;
		Answer answer;
		number.set_n(n);
		if (!asker->Ask(&context, number, &answer).ok())
			return;
		client.say(answer.text());
	}
}

int main()
{
	Server server;
	int port = 0, listener = listening();
	grpc::ServerBuilder builder;
	builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
	builder.RegisterService(&server);
	auto running = builder.BuildAndStart();
	auto channel = grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials());
	auto asker = Asker::NewStub(channel);
	for (;;)
		std::thread(serve, accept(listener, 0, 0), asker.get()).detach();
}
