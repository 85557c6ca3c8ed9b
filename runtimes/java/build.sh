#!/bin/bash -eu
# build.sh [OUT.jar]: builds the agent with the JDK's tools (17 or newer; JAVA_HOME chooses) and ASM, which Maven fetches.
# The same JDK gives the same bytes.
cd "$(dirname "$0")"
out=$(realpath -m "${1:-../../bin/tare-java.jar}")
bin=${JAVA_HOME:+$JAVA_HOME/bin/}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Of org.ow2.asm. asm-commons moves packages while this is built, and is not in the jar.
ASM=9.9
declare -A SHA256=(
	[asm]=03d99a74ad1ee5c71334ef67437f4ef4fe3488caa7c96d8645abc73c8e2017d4
	[asm-commons]=db2f6f26150bbe7c126606b4a1151836bcc22a1e05a423b3585698bece995ff8
)
for a in asm asm-commons; do
	jar=$HOME/.m2/repository/org/ow2/asm/$a/$ASM/$a-$ASM.jar
	[[ -e $jar ]] || mvn -q dependency:get -Dartifact=org.ow2.asm:$a:$ASM -Dtransitive=false
	echo "${SHA256[$a]}  $jar" | sha256sum --check --quiet
	cp "$jar" "$work/$a.jar"
done

"${bin}javac" --release 17 -nowarn -Xlint:-options -d "$work/classes" -cp "$work/asm.jar" src/tare/shim/*.java
"${bin}java" -cp "$work/asm.jar:$work/asm-commons.jar" build/Shade.java "$work/classes" "$work/asm.jar" "$work/jar"
cat >"$work/manifest" <<-END
	Premain-Class: tare.shim.Agent
	Agent-Class: tare.shim.Agent
	Can-Redefine-Classes: true
	Can-Retransform-Classes: true
END
(cd "$work/jar" && find . -name '*.class' -printf '%P\n' | LC_ALL=C sort >"$work/list")
mkdir -p "$(dirname "$out")"
(cd "$work/jar" && "${bin}jar" --create --file "$out" --manifest "$work/manifest" --date 1980-01-01T00:00:02Z @"$work/list")
echo "$out"
