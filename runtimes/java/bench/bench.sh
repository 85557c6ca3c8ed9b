#!/bin/bash -eu
# bench.sh [JDK...]: what the agent costs, on each JDK, without it and with it.
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
agent=$(../build.sh "$work/tare-java.jar" 2>/dev/null)
javac -d "$work" -cp "$agent" Bench.java
[[ $# -gt 0 ]] || set -- "$(dirname "$(dirname "$(realpath "$(command -v java)")")")"
for jdk; do
	echo "without the shim"
	"$jdk/bin/java" -cp "$work" Bench
	echo "with the shim"
	"$jdk/bin/java" -javaagent:"$agent" -cp "$work" Bench 2>/dev/null
done
