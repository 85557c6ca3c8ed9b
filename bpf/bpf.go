// Package bpf holds the kernel side of the tracer: programs and maps in C, their
// compiled objects, and the Go types that are generated from them. It loads
// nothing by itself: package agent/kernel does.
package bpf

//go:generate go tool bpf2go -go-package bpf -target amd64,arm64 -cc clang-19 -strip llvm-strip-19 -type claim -output-stem claim Host claim.bpf.c -- -O2 -g -mcpu=v3 -Wall -Werror -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu
//go:generate go tool bpf2go -go-package bpf -target amd64,arm64 -cc clang-19 -strip llvm-strip-19 -type start_record -type data_record -type end_record -type published_record -type path_record -type publisher -type control_record -type measure_key -type measure -type counter -type record_type -type control_type -type role -type direction -type linking -type unlinked -type service_state -type start_flags -type data_flags -type end_reason -type protocol -type outcome -type go_place -type go_grpc_client -type go_http2_server -type go_context_kind -type task_program -type transport -type trust -type lookup_limit -type header_name -type hpack_tables -type retro_place -type retro_trigger -type retro_rule -type retro_reason -type retro_layout Tare tare.bpf.c -- -O2 -g -mcpu=v3 -Wall -Werror -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu
