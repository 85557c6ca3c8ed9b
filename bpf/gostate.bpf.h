/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is known of programs in Go (agent/runtime/golang), remembered of their connections and
 * goroutines, and noted while contexts are followed.
 */
#ifndef TARE_GOSTATE_H
#define TARE_GOSTATE_H

#define GO_ENTRIES 64
#define GO_COPIES  2 /* of HTTP/2: in net/http, and golang.org/x/net/http2 */

#define GO_STACK   512 /* words from the stack pointer on that are searched for contexts */
#define GO_FOUND   32  /* contexts of them that are followed */
#define GO_PARENTS 32  /* of a context that are followed */
#define GO_STEPS   512 /* of all of them */
#define GO_SERVING 192 /* words at the end of a stack, with the frame of conn.serve */
#define GO_DEAD	   6   /* runtime._Gdead */
#define GO_SHAKING 4   /* connections on whose stacks one context is remembered */
#define GO_GROUPS  256 /* of a map that are searched for a stream */
#define GO_PIECE   64  /* bytes of a table that are read at once */
#define GO_LEADS   12  /* contexts of a stack that lead somewhere, of which one is to be in use */
#define GO_LOOKS   8   /* receives over HTTP/2 until one is by the goroutine that reads frames */

/* What a goroutine is for, by the function that its first one calls. */
enum go_place {
	GO_ELSEWHERE = 0,
	GO_SERVE,      /* net/http.(*conn).serve: the slot has the conn */
	GO_WRITE_LOOP, /* net/http.(*persistConn).writeLoop: the transportRequest that it writes */
	GO_GRPC_CALL,  /* grpc.(*Server).handleStream: the ServerStream */
	GO_GRPC_WRITE, /* transport.(*loopyWriter).run: the loopyWriter */
	GO_HTTP2_ASK,  /* http2.(*clientStream).doRequest: the clientStream */
	GO_HTTP2_CALL, /* http2.(*serverConn).runHandler: its responseWriter, or another pointer */
	GO_HTTP2_READ, /* http2.(*serverConn).readFrames: the serverConn */
	GO_HTTP2,      /* a function that works for requests over HTTP/2 which are not told apart */
};

/*
 * A call by a goroutine's first function. Distances are in bytes from the stack's end. Only with the
 * first function it is sure: stacks are used again, with what lay there.
 */
struct go_entry {
	u64 start; /* the first function */
	u64 pc;	   /* the word at this distance while the call lasts */
	u32 at;
	u32 slot; /* where the called function keeps a pointer */
	u32 place;
	u32 copy; /* of the package: in go_program.http2_server */
};

/* From a net.Conn to its descriptor. */
struct go_tcp {
	u64 type;  /* of a *net.TCPConn */
	u32 netfd; /* in it: a pointer */
	u32 fd;	   /* in what that points to, 4 bytes */
};

struct go_grpc_server {
	s32 via;    /* where a ServerStream points to what has its id; -1: it has it itself */
	u32 id;	    /* 4 bytes */
	u32 server; /* an interface: the http2Server */
	u32 conn;   /* of that: a net.Conn */
};

/* From the responseWriter of an HTTP/2 server to the stream, and to its connection. */
struct go_http2_server {
	u32 state;	       /* in the responseWriter: a pointer */
	u32 stream;	       /* in what that points to: a pointer to the stream */
	u32 id, context, conn; /* in a stream: 4 bytes; an interface; a pointer to the serverConn */
	u32 socket;	       /* in that: a net.Conn */
	u32 base;	       /* likewise, the context of which those of its streams are derived */
	u32 streams;	       /* likewise, a map of ids to streams; 0: it cannot be searched */
};

/* From the loopyWriter to the http2Client, to a stream's context. */
struct go_grpc_client {
	u32 closure; /* in the loopyWriter: a closure, whose second word is the http2Client */
	u32 framer, loopy, streams; /* in the http2Client */
	u32 loopy_framer;	    /* in the loopyWriter: the same framer */
	s32 via;		    /* as in go_grpc_server */
	u32 id, context, client;    /* in a stream */
	u32 method;		    /* likewise: a string */
	u64 keys[6];		    /* round keys of the map's hash */
};

/* Offsets, in bytes, and addresses of one process. What it does not have is 0. */
struct go_program {
	u64 itab_low, itab_high; /* of contexts, inclusive */
	u64 key_type;	 /* type of the keys that net/http puts into a connection's context */
	u64 stream_type; /* type of the value in a context that is a gRPC call's stream */
	u32 stack;	 /* runtime.g.stack: its lowest address, and its end */
	u32 id;		 /* runtime.g.goid */
	u32 start;	 /* runtime.g.startpc: its first function */
	u32 status;	 /* runtime.g.atomicstatus: GO_DEAD once it has ended */
	u32 started;	 /* runtime.g.parentGoid: by whom */
	u32 pad;
	u32 cancelled;	/* cancelCtx.err: a word that is 0 until then */
	u32 key, value; /* of a valueCtx: interfaces */
	struct go_tcp tcp;
	struct go_grpc_server grpc_server;
	struct go_grpc_client grpc_client;
	struct go_http2_server http2_server[GO_COPIES];
	u32 stream_id, stream_context; /* of an HTTP/2 client's stream */
	u32 conn_cancel;     /* http.conn.cancelCtx: a closure, whose second word is the context */
	u32 request_context; /* of a transportRequest, or of the Request in it */
	s32 request_via;     /* where a transportRequest points to that Request; -1: it is itself */
	/* Addresses: of its code, its table of functions, its other tables, and its maps of frames. */
	u64 text, functions, pctab, gofunc;
	u64 asked_at; /* when the agent was last asked to read some of them; ns */
	u32 nfunc;    /* how many functions */
	u32 pad2;
	struct go_entry entry[GO_ENTRIES]; /* up to the first without a place */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32); /* process */
	__type(value, struct go_program);
} go_programs SEC(".maps");

/* A number or an address that means something in one process. */
struct go_key {
	u64 word;
	u32 tgid;
	u32 pad;
};

enum go_context_kind {
	GO_CONTEXT_OTHER = 0,
	GO_CONTEXT_VALUE = 1,
	GO_CONTEXT_CANCEL = 2,
};

struct go_context {
	s32 via;    /* where the context points to what has its parent; -1: it has it itself */
	s32 parent; /* an interface; -1: none */
	u32 kind;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct go_key); /* an itab, the first word of such a context */
	__type(value, struct go_context);
} go_contexts SEC(".maps");

/*
 * The goroutine of a connection. The kernel keeps a socket for longer than the program does: what
 * belongs to the goroutine is its own only while it lives.
 */
struct go_server {
	u64 id;
	u64 g; /* address of its runtime.g, which is never freed */
};

/* Accepted connections, while they are open. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct go_key); /* the id of the goroutine that serves it */
	__type(value, struct context);
} go_requests SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct go_key); /* its context */
	__type(value, struct go_server);
} go_connections SEC(".maps");

/*
 * While conn.serve is in a TLS handshake, its connection has no context yet, and it may read the
 * first request with the end of the handshake. What will be that context's parent is a variable of
 * conn.serve by then. These are all that may be it, for a stack has words of other connections, too:
 * it is if the goroutine lives, and the context below it is the connection's when somebody asks.
 */
struct go_handshake {
	struct go_server of;
	u64 conn; /* address */
};

struct go_handshakes {
	u64 n; /* how many there were; the last ones are kept */
	struct go_handshake last[GO_SHAKING];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct go_key);
	__type(value, struct go_handshakes);
} go_handshakes SEC(".maps");

/* Accepted connections of HTTP/2, while they are open. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);   /* address of the struct sock */
	__type(value, u64); /* http2.id */
} go_sockets SEC(".maps");

/* Those whose frames a goroutine of net/http or golang.org/x/net/http2 reads, while they are open. */
struct go_http2_conn {
	struct go_server reader;
	u64 conn; /* address of the serverConn */
	u64 copy;
	u64 connection; /* http2.id */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct go_key); /* serverConn.baseCtx */
	__type(value, struct go_http2_conn);
} go_http2_conns SEC(".maps");

enum go_lead {
	GO_NOWHERE,
	GO_REQUEST,  /* to the one that a goroutine serves */
	GO_STREAM,   /* to the one of a stream */
	GO_CONN,     /* to the stream of a connection that has this context */
	GO_FINISHED, /* to one that is over, though something still has its context */
	GO_FOREIGN,  /* to one that is not followed: HTTP/2, gRPC */
};

struct go_walk {
	u64 itab, data;
	u64 copy;  /* GO_CONN: its package's */
	u64 began; /* the context of the stack that this came from */
	u64 child; /* whose parent this is, if that can be cancelled */
	u64 grandchild;
	u64 id;			  /* GO_REQUEST: the goroutine; GO_CONN: the serverConn */
	struct stream_key stream; /* GO_STREAM; GO_CONN: its connection alone */
	u32 lead;
	u32 left; /* parents that may be followed yet; 0: the next context is due */
};

/* Parts of a map, as the program has them: a Swiss table, since Go 1.24. */
struct go_group {
	u64 control;
	struct {
		u64 key, value;
	} slot[8];
};

/* internal/runtime/maps.Map and table. */
struct go_map {
	u64 used, seed, directory, tables;
	u8 depth, shift, pad[6];
};

struct go_table {
	u64 counts, index, groups, mask;
};

/* Where in a map a search for a stream is. */
struct go_seek {
	u64 group, left; /* the next group of a table, and how many there are yet */
	u64 table;	 /* the next one */
	u64 stream;	 /* found; 0: not yet */
};

enum go_use {
	GO_UNUSED,
	GO_USED,
	GO_ASKED, /* not known: the agent was asked */
};

/* What is known of a word in a function's frame, while a call lasts that returns there. */
struct go_word_key {
	u64 returns;
	u32 tgid;
	s32 distance;
};

/* Which frame of the stack an address is in, and what its function says of it. */
struct go_frame {
	u64 at;	       /* the address */
	u64 arguments; /* where those of the called function begin */
	u64 end;       /* of the variables of the function */
	u64 returns;   /* to where in the function the called one will return */
	u64 called;    /* the same of the called one */
	u64 next;      /* arm64: to where its caller returns */
	u64 record;    /* of a function: its description */
	u64 table;     /* that is read */
	u64 target;    /* of the code that is sought, from its beginning on */
	u64 low, high; /* entries of the table of functions between which the sought one is */
	u32 begins;    /* the function, from the beginning of the code on */
	u32 tables;    /* how many it has */
	u8 maps;       /* likewise */
	u32 value;     /* of the table, at the code before low */
	u32 number;    /* of which shift bits were read */
	u32 shift;
	u32 of_code; /* it is how much code the value holds for */
	u32 found;
	u8 piece[GO_PIECE]; /* of the table */
	u8 use;		    /* enum go_use: what was found out */
	u32 half, entry[2]; /* that were read */
	u64 map;	    /* where a function has one */
	struct go_word_key word;
	struct control_record asks;
};

struct goroutine {
	u64 g, id, sp, high, start;
	u64 copy; /* of the package that has its place */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct go_word_key);
	__type(value, u8); /* enum go_use */
} go_words SEC(".maps");

struct go_scratch {
	u64 stack[GO_STACK + 2]; /* and one behind, which is no context's */
	u64 found[GO_FOUND];	 /* where in stack contexts are */
	u32 n, next;		 /* how many there are, and the one that is followed next */
	u32 tgid;
	u32 id; /* of a stream */
	struct go_key key;
	struct go_walk walk;
	struct goroutine goroutine;
	struct go_frame frame;
	u64 method[2];	   /* the string of the gRPC call that is sent; 0: not known */
	struct go_map map; /* what would be too large for the stack on Linux 6.1 */
	struct go_table table;
	struct go_group group;
	struct go_seek seek;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct go_scratch);
} go_scratches SEC(".maps");

INLINE struct go_scratch *go_scratch_of(u32 hook)
{
	return bpf_map_lookup_elem(&go_scratches, &hook);
}

INLINE u64 go_word(u64 address)
{
	u64 word = 0;
	bpf_probe_read_user(&word, sizeof(word), (void *)address);
	return word;
}

#endif
