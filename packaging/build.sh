#!/usr/bin/env bash
# Builds what is published, of this commit: static binaries, and of them for each architecture a tarball, a Debian and an
# RPM package, with units, manual pages, completion and a list of what they are made of (CycloneDX); and an image for all
# architectures. The same commit gives the same bytes.
#   packaging/build.sh DIRECTORY ARCHITECTURE…     such as dist amd64 arm64; PACKAGES="tare-agent" leaves out the other
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=$(realpath -m "$1")
shift
packages=${PACKAGES:-tare-agent tare}
VERSION=$(sed -n 's/^var Version = "\(.*\)"$/\1/p' agent/version.go)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export VERSION SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
vcs=$(git rev-parse HEAD >/dev/null 2>&1 && echo true || echo false)

tool() { go tool -modfile=packaging/go.mod "$@"; }

declare -A units=([tare-agent]='tare-agent.service' [tare]='tare.service tare-collector.service')

# maintainer_scripts PACKAGE: what is run when it is installed and removed.
maintainer_scripts() {
	local to=$BUILT/scripts/$1 s
	mkdir -p "$to"
	for s in postinstall preremove postremove; do
		{ echo '#!/bin/sh' && echo "UNITS='${units[$1]}'" && tail -n +2 "packaging/$s.sh"; } >"$to/$s.sh"
	done
}

# program PACKAGE FILE FLAG…: without gRPC's own traces (golang.org/x/net/trace), which nothing here shows and which take 370 KB.
program() { GOOS=linux GOARCH=$arch CGO_ENABLED=0 go build -trimpath -tags grpcnotrace "-buildvcs=$vcs" -ldflags '-s -w' -o "$2" "${@:3}" "./cmd/$1"; }

# documents PACKAGE: manual pages and completion, by its own commands.
documents() {
	mkdir -p "$BUILT/man/$1" "$BUILT/completion"
	go run -trimpath -tags man "./cmd/$1" man "$BUILT/man/$1"
	[[ $1 != tare ]] || rm -f "$BUILT/man/tare/tare-agent"* # those of the other package
	gzip -9n "$BUILT/man/$1"/*.1
	for shell in bash zsh fish; do
		local file=$1.$shell
		[[ $shell != zsh ]] || file=_$1
		go run -trimpath "./cmd/$1" completion "$shell" >"$BUILT/completion/$file"
	done
}

# tarball PACKAGE: for who installs without a package manager.
tarball() {
	local name=$1_${VERSION}_linux_$arch
	local root=$out/build/$name
	mkdir -p "$root"/{man,completion,systemd}
	cp "$BUILT/$1" "$BUILT/sbom/$1.cdx.json" packaging/agent.yaml deploy/tare.example.yaml LICENSE NOTICE "$BUILT/licences.txt" CHANGELOG.md "$root"
	cp "$BUILT/man/$1"/* "$root/man"
	cp "$BUILT"/completion/{"$1".bash,"$1".fish,"_$1"} "$root/completion"
	for u in ${units[$1]}; do cp "packaging/systemd/$u" "$root/systemd"; done
	tar -C "$out/build" --sort=name --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw --mtime="@$SOURCE_DATE_EPOCH" -c "$name" |
		gzip -9n >"$out/$name.tar.gz"
}

rm -rf "$out"
mkdir -p "$out"
for arch in "$@"; do
	export BUILT=$out/build/$arch
	mkdir -p "$BUILT/sbom"
	go run ./internal/notice -texts "$BUILT/licences.txt"
	for name in $packages; do
		echo "$name for $arch"
		program "$name" "$BUILT/$name"
		tool cyclonedx-gomod bin -json -std -noserial -notimestamp -output "$BUILT/sbom/$name.cdx.json" "$BUILT/$name"
		documents "$name"
		maintainer_scripts "$name"
		sed "s|\${BUILT}|$BUILT|; s|\${GOARCH}|$arch|; s|\${VERSION}|$VERSION|" "packaging/$name.nfpm.yaml" >"$BUILT/$name.nfpm.yaml"
		for format in deb rpm; do
			tool nfpm package --config "$BUILT/$name.nfpm.yaml" --packager $format --target "$out/"
		done
		tarball "$name"
		# The image's agent runs in a cluster (docs/adr/0036).
		[[ $name != tare-agent ]] || program "$name" "$BUILT/$name" -tags kubernetes,grpcnotrace
	done
done
for name in $packages; do
	go -C packaging run ./image -name "$name" -version "$VERSION" -out "$out/${name}_${VERSION}_oci.tar" \
		$(for arch in "$@"; do echo "$arch=$out/build/$arch/$name"; done)
done
rm -rf "$out/build"
(cd "$out" && sha256sum -- *.deb *.rpm *.tar.gz *.tar >SHA256SUMS)
ls -sh "$out"
