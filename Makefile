# `make help` lists what there is. Nothing here needs root but what says so.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CHAIN    ?= shop
# A number of runs and not a time: at the end of a time, go test may report its own deadline as a failure.
FUZZTIME ?= 50000x
COUNT    ?= 1
SOAK     ?= 1h

GOLANGCI_VERSION := v2.5.0
GOLANGCI := bin/golangci-lint-$(GOLANGCI_VERSION)/golangci-lint

# Runs `go test -json`, prints the tests and keeps their events in TESTS, which `make test-times` reads.
GOTESTSUM_VERSION := v1.13.0
GOTESTSUM := $(CURDIR)/bin/gotestsum-$(GOTESTSUM_VERSION)/gotestsum
TESTS := $(CURDIR)/bin/tests

# Root already, or by sudo.
SUDO := $(if $(filter-out 0,$(shell id -u)),sudo)
# In all that is built, for binaries that are alike wherever they are built, and so that nothing is compiled twice.
export GOFLAGS := $(filter-out -trimpath,$(GOFLAGS)) -trimpath

# The race detector needs a C compiler.
RACE := $(if $(shell command -v gcc || command -v clang),-race)

# Tests of this name work through much data. With the race detector they take ten times as long, so they run without it;
# the same code under concurrent use is tested by others, with it.
HEAVY := ^TestHeavy
HEAVY_IN = $(sort $(dir $(shell grep -rl --include='*_test.go' 'func TestHeavy' .)))

# The commit in the binary, for the manifests of tare bench; not where git refuses.
VCS := $(if $(shell git rev-parse HEAD 2>/dev/null),-buildvcs=true,-buildvcs=false)

# What measurements are of, as it was before they wrote their first file.
COMMIT := $(shell git describe --always --dirty 2>/dev/null)

# Packages without tests are not built with the race detector: those that link all of the collector's components
# take a quarter of an hour. integration/ runs them.
WITH_TESTS := {{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}

# The libraries for services are a Go module of their own, and so is what only who publishes needs.
MODULES  := . otel packaging

C_FILES  := $(wildcard bpf/*.h bpf/*.c)
# What is built of them; see go generate in bpf/bpf.go.
OBJECTS  := bpf/claim_x86_bpfel.go bpf/claim_x86_bpfel.o bpf/claim_arm64_bpfel.go bpf/claim_arm64_bpfel.o bpf/tare_x86_bpfel.go bpf/tare_x86_bpfel.o bpf/tare_arm64_bpfel.go bpf/tare_arm64_bpfel.o
# The chains and sampling rates that `make cost` measures.
COST_RUNS := nginx:0.01 nginx:1 shop:0.01 shop:1

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: check-go
check-go:
	@command -v go >/dev/null || { \
		echo "go was not found in PATH. Tare is built with Go 1.26 or newer: https://go.dev/doc/install" >&2; \
		echo "Under sudo, PATH may lack it: run make as yourself, it asks for sudo where it needs root." >&2; exit 1; }
	@go list -m >/dev/null || { \
		echo "this is $$(go version); Tare is built with Go 1.26 or newer (from 1.21 on, go fetches it by itself)" >&2; exit 1; }

# Before minutes of compiling what could not be started.
.PHONY: check-root
check-root:
	@[[ -z "$(SUDO)" ]] || command -v sudo >/dev/null || { \
		echo "this needs root, and sudo was not found: become root with su, keep go in PATH, and run make again" >&2; exit 1; }

# Where binaries go; `make test-kernels` has those of other architectures elsewhere.
BIN ?= bin

.PHONY: build
build: check-go ## build bin/tare, the small bin/tare-agent, and the services of the laboratory; no clang is needed
	@[[ -e $(BIN)/tare ]] || echo "building: the first time, go fetches what is imported, and compiles for minutes"
	go build $(VCS) -o $(BIN)/tare ./cmd/tare
	go build $(VCS) -o $(BIN)/tare-agent ./cmd/tare-agent
	go build -o $(BIN)/tare-thesis ./workloads/thesis
	go build -o $(BIN)/tare-counter ./workloads/counter
	go build -o $(BIN)/tare-hotel ./workloads/hotel
	go build -o $(BIN)/tare-plain-collector ./collector/internal/plain

# Those of dist.
DIST_ARCHS ?= amd64 arm64

.PHONY: dist
dist: check-go ## build what is published into dist/: packages, images, tarballs (DIST_ARCHS="amd64 arm64"); docs/install.md
	packaging/build.sh dist $(DIST_ARCHS)

# Where docs/kubernetes.md pushes them from; those of Tare itself are dist's.
.PHONY: thesis-images
thesis-images: check-go ## build dist/tare-thesis_*_oci.tar and dist/tare-hey_*_oci.tar, which deploy/kubernetes/thesis runs
	@mkdir -p dist/build
	@version=$$(sed -n 's/^var Version = "\(.*\)"$$/\1/p' agent/version.go); export SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) CGO_ENABLED=0; \
	for arch in $(DIST_ARCHS); do \
		GOARCH=$$arch go build -ldflags '-s -w' -o dist/build/tare-thesis-$$arch ./workloads/thesis; \
		GOARCH=$$arch go build -C packaging -trimpath -ldflags '-s -w' -o ../dist/build/tare-hey-$$arch github.com/rakyll/hey; \
	done; \
	for name in tare-thesis tare-hey; do \
		go -C packaging run ./image -name $$name -version $$version -out ../dist/$${name}_$${version}_oci.tar \
			$$(for arch in $(DIST_ARCHS); do echo $$arch=../dist/build/$$name-$$arch; done); \
	done
	@rm -rf dist/build

.PHONY: manifests
manifests: check-go ## render deploy/kubernetes/base/tare.yaml of the Helm chart
	@go -C deploy/render run . chart >deploy/kubernetes/base/tare.yaml.new && mv deploy/kubernetes/base/tare.yaml.new deploy/kubernetes/base/tare.yaml

# A module of its own: Helm and Kustomize take two minutes to compile.
.PHONY: test-manifests
test-manifests: check-go ## the chart, what is rendered of it, and the overlay, by Helm's and Kustomize's libraries
	go -C deploy/render vet ./...
	go -C deploy/render test ./...

# A module of its own, which compiles for a quarter of an hour the first time. APISERVER is built once, and again when its module changes.
APISERVER := bin/tare-apiserver

.PHONY: test-cluster
test-cluster: build $(APISERVER) bin/tare-agent-kubernetes ## manifests and agent against a real API server of Kubernetes with etcd (root; a quarter of an hour the first time)
	go build -C deploy/render -o ../../bin/tare-render .
	go -C integration/apiserver test -vet=off -count=1 -timeout 20m -v ./...

$(APISERVER): integration/apiserver/go.mod $(wildcard integration/apiserver/server/*.go) | check-go
	go build -C integration/apiserver -o ../../$@ ./server

# As in the image.
.PHONY: bin/tare-agent-kubernetes
bin/tare-agent-kubernetes: check-go
	go build -tags kubernetes -o $@ ./cmd/tare-agent

.PHONY: test-dist
test-dist: check-go ## build the agent's packages twice and look at them
	packaging/check.sh

# Says how it went, never how fast a machine would be: the guest is emulated.
.PHONY: test-install
test-install: check-go ## install, upgrade under load and remove the packages in a fresh Debian 12 with systemd, emulated (a quarter of an hour)
	packaging/build.sh dist amd64
	@go build -o bin/tare-kernels ./integration/kernels
	bin/tare-kernels -kernels 6.1-amd64 -system -exec packaging/walk.sh

.PHONY: shims
shims: ## build bin/tare-java.jar (JDK 17 or newer; Maven fetches ASM); the shims of Node.js and Python need no build
	@runtimes/java/build.sh $(CURDIR)/$(BIN)/tare-java.jar

# With the versions in PATH; the READMEs in runtimes/ say how to run others. What all shims have in common is tested by
# test-unit (runtimes/kernel).
.PHONY: test-shims
test-shims: ## tests of the shims for Node.js and Python, in their languages
	cd runtimes/node && node --test test/*.test.js
	cd runtimes/python/tests && python3 -m unittest

# What links all of the collector's components: two thousand packages of others, none of which knows architectures.
DISTRIBUTION := /tare/(collector|run|cmd/tare)$$|/internal/plain$$

.PHONY: cross
cross: check-go ## build everything for arm64, too
	@for m in $(MODULES); do (cd $$m && GOARCH=arm64 go build ./...); done

.PHONY: cross-own
cross-own: check-go ## the same without what links the collector's distribution, which takes minutes
	@for m in $(MODULES); do (cd $$m && GOARCH=arm64 go build $$(go list -f '{{if .GoFiles}}{{.ImportPath}}{{end}}' ./... | grep -vE '$(DISTRIBUTION)')); done

.PHONY: demo
demo: check-root build ## trace a chain of real services and measure the cost (root or sudo); CHAIN=nginx, ARGS="--sample 0.01"
	$(SUDO) bin/tare demo --chain $(CHAIN) $(ARGS)

.PHONY: polyglot
polyglot: check-go ## get and build a service of every runtime and framework (workloads/polyglot), and say what is missing and why (root: installs packages)
	@mkdir -p bin
	@go run ./workloads/polyglot/build -bin bin

# Go repeats the result of a package's unit tests while nothing changes that they read; CI_ALL=1 runs them again.
FRESH := $(if $(CI_ALL),-count=1)

.PHONY: test
test: test-unit ## unit tests with the race detector; as root, integration tests too (half an hour on two cores)
	@if [[ $$(id -u) == 0 ]]; then $(MAKE) --no-print-directory test-integration; else \
		echo "not root: integration tests were left out; run them with: sudo env PATH=\"\$$PATH\" make test-integration"; fi

# Without vet, which is lint's: it would walk all that the packages import.
.PHONY: test-unit
test-unit: check-go $(GOTESTSUM) ## unit tests only
	@[[ -n "$(RACE)" ]] || echo "no C compiler: tests run without the race detector, and without those of bpf/hosttest"
	@echo "unit tests: the first time, what they import is compiled for minutes before the first of them can run"
	@mkdir -p $(TESTS)
	@for m in $(MODULES); do (cd $$m && $(GOTESTSUM) --format pkgname --hide-summary skipped --jsonfile $(TESTS)/unit-$${m/./tare}.json -- \
		-vet=off -timeout 30m $(FRESH) $(RACE) $(if $(RACE),-skip '$(HEAVY)') $$(go list -f '$(WITH_TESTS)' ./... | grep -v /integration$$)); done
	@[[ -z "$(RACE)" ]] || $(GOTESTSUM) --format pkgname --hide-summary skipped --jsonfile $(TESTS)/unit-heavy.json -- \
		-vet=off -timeout 30m $(FRESH) -run '$(HEAVY)' $(HEAVY_IN)

# They run what build made, and are compiled with its flags, so that nothing is compiled for them again. In the
# package's own directory, go test passes on what they say while they run.
.PHONY: test-integration
test-integration: build $(GOTESTSUM) ## real services under load, against the ground truth (root); AT_ONCE=8 runs eight at once; RUN and SKIP are regular expressions of tests
	@echo "integration tests: real servers under load in front of an agent; all of them take 20 minutes on two cores"
	@mkdir -p $(TESTS)
	@cd integration && $(GOTESTSUM) --format testname --hide-summary skipped --jsonfile $(TESTS)/integration$(if $(RUN),-run).json -- \
		-vet=off -count=1 -timeout 60m $(if $(AT_ONCE),-parallel $(AT_ONCE)) $(if $(RUN),-run '$(RUN)') $(if $(SKIP),-skip '$(SKIP)')

.PHONY: test-all
test-all: ## all that CI runs, whether or not it changed since it passed (root, Debian 12; an hour)
	CI_ALL=1 bash .ci/run

.PHONY: test-times
test-times: check-go ## what each test of the last run took, slowest first: seconds, CPU seconds, what it waited for
	@go run ./internal/testtimes $(wildcard $(TESTS)/*.json)

.PHONY: test-long
test-long: build ## integration tests that take long: experiments as a whole, floods, all builds of Go, coroutines (root; twenty minutes)
	go -C integration test -vet=off -count=1 -timeout 60m -v -run '^Test(Bench|CollectorFlood|GoBuilds|Coroutines)' . -args -long

.PHONY: test-polyglot
test-polyglot: build polyglot ## trace a service of every runtime and framework: is linked what is expected, and nothing wrongly (root; ten minutes)
	go -C integration test -vet=off -count=1 -timeout 60m -v -run '^TestPolyglot$$' . -args -polyglot

# Toolchains that are not there come from Go's proxy.
.PHONY: test-go-matrix
test-go-matrix: check-go ## what is read of Go programs: every toolchain from 1.21 on, stripped, PIE, trimpath, cgo (an hour)
	go test -vet=off -timeout 4h -v -run '^TestMatrix$$' ./agent/runtime/golang -matrix

.PHONY: go-calls
go-calls: build ## a million calls of services in Go, in every way: which are linked, and to what (root; ten minutes)
	go -C integration test -vet=off -count=1 -timeout 60m -v -run '^TestGoCalls$$' . -args -record-calls $(CURDIR)/docs/results/go-calls.json -calls-commit "$(COMMIT)"
	@$(MAKE) --no-print-directory go-report

.PHONY: go-report
go-report: ## write the targets of linking Go in docs/cost.md, and its ways in docs/runtimes.md, again from docs/results
	go run ./lab/costdoc go docs/results/go-calls.json docs/results docs/runtimes.md docs/cost.md

# Runs a profile of an experiment, and puts its results, packed, in the place of those before.
define record
@rm -rf docs/results/$(2).new && $(SUDO) bin/tare bench run $(1) --profile $(3) --out docs/results/$(2).new
@$(SUDO) bin/tare bench pack docs/results/$(2).new
@rm -rf docs/results/$(2) && mv docs/results/$(2).new docs/results/$(2)
endef

.PHONY: runtimes
runtimes: build polyglot ## measure which runtimes and frameworks are linked, and what that costs them (root; an hour and a half)
	$(call record,runtimes,runtimes,quick)
	$(call record,runtimes,runtimes-ways,ways)
	@$(MAKE) --no-print-directory runtimes-report

.PHONY: runtimes-report
runtimes-report: ## write the tables of runtimes and frameworks in docs/linking.md and docs/runtimes.md again from docs/results
	go run ./lab/costdoc runtimes docs/results/runtimes docs/results/runtimes-ways docs/linking.md docs/runtimes.md

.PHONY: shims-cost
shims-cost: build polyglot ## measure what shims cost beside OpenTelemetry's instrumentation (root; a quarter of an hour)
	$(call record,shims,shims,quick)
	@$(MAKE) --no-print-directory shims-report

.PHONY: shims-report
shims-report: ## write docs/runtimes.md's table of what shims cost again from docs/results
	go run ./lab/costdoc shims docs/results/shims docs/runtimes.md

.PHONY: soak
soak: build ## an hour of comings and goings around one chain and its agent: nothing wrong, nothing lost in silence, nothing grows (root); SOAK=8h
	go -C integration test -vet=off -count=1 -timeout 48h -v -run '^TestSoak$$' . -args -soak $(SOAK)

.PHONY: test-takeover
test-takeover: build ## have 20 agents take over from each other under load, twice; writes docs/results/takeover.jsonl, four minutes
	@rm -f docs/results/takeover.jsonl
	cd integration && TARE_TAKEOVER_RESULTS=$(CURDIR)/docs/results/takeover.jsonl go test -vet=off -count=1 -v -run '^TestTakenOver$$' . -args -long

# With all tests, docs/kernels.md gets the columns of the kernels that ran. EXEC runs a shell command in place of tests.
.PHONY: test-kernels
test-kernels: check-go ## boot kernels that people run, emulated, and run tests in them (an hour; KERNELS="6.1-amd64 6.12-arm64" TESTS="TLS|doctor")
	@go build -o bin/tare-kernels ./integration/kernels
	@status=0; bin/tare-kernels -kernels "$(KERNELS)" -tests "$(TESTS)" -exec '$(EXEC)' -parallel $(PARALLEL) -record docs/results/kernels.json || status=$$?; \
	[[ -n "$(TESTS)$(EXEC)" ]] || $(MAKE) --no-print-directory kernels-report; exit $$status

# Guests at once: each has one processor, of a machine that is emulated.
PARALLEL ?= 2

.PHONY: kernels-report
kernels-report: ## write docs/kernels.md's table again from docs/results/kernels.json
	go run ./lab/costdoc kernels docs/results/kernels.json docs/kernels.md

.PHONY: fuzz
fuzz: check-go ## every fuzz test, FUZZTIME runs each (50000x; 10s for a time)
	@mkdir -p bin
	@grep -rE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*\(' . | sed -E 's/^(.*)\/[^/]*:func (Fuzz[A-Za-z0-9_]*).*/\1 \2/' | sort \
	| while read -r dir name; do \
		echo "$$dir $$name"; \
		if [[ "$$dir" != "$${built:-}" ]]; then \
			go -C "$$dir" test -c -fuzz . -o $(CURDIR)/bin/fuzz.test .; corpus=$$(go env GOCACHE)/fuzz/$$(go -C "$$dir" list .); built=$$dir; \
		fi; \
		(cd "$$dir" && $(CURDIR)/bin/fuzz.test -test.run '^$$' -test.fuzz "^$$name\$$" -test.fuzztime $(FUZZTIME) \
			-test.fuzzminimizetime 100x -test.fuzzcachedir "$$corpus" </dev/null 2>&1) | { grep -vE '^(fuzz: elapsed|ok|PASS)' || true; }; \
	done

.PHONY: bench
bench: check-go ## all benchmarks, COUNT times; compare two outputs with benchstat
	@for m in $(MODULES); do (cd $$m && go test -run '^$$' -bench . -benchmem -count $(COUNT) $$(go list ./... | grep -v /integration$$)); done

# What readers stumbled over in documents.
RIDDLES := says so|said so|say so|meanwhile|whoever|refuses to|unasked

.PHONY: lint
lint: check-go $(GOLANGCI) ## gofmt, golangci-lint (go vet and staticcheck among others), words of documents, clang-format
	@out=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); [[ -z "$$out" ]] || { echo "gofmt -w: $$out" >&2; exit 1; }
	@for m in $(MODULES); do (cd $$m && $(CURDIR)/$(GOLANGCI) run ./...); done
	@! git grep -nwE '$(RIDDLES)' -- '*.md' ':!docs/adr' ':!docs/results' || { echo "say it in plain English: subject, verb, object (CONTRIBUTING.md)" >&2; exit 1; }
	@command -v clang-format-19 >/dev/null || { echo "clang-format-19 is missing: apt-get install clang-format-19" >&2; exit 1; }
	clang-format-19 --dry-run -Werror $(C_FILES)

$(GOTESTSUM): | check-go
	GOBIN=$(@D) go install gotest.tools/gotestsum@$(GOTESTSUM_VERSION)

$(GOLANGCI): | check-go
	GOBIN=$(CURDIR)/$(@D) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)

.PHONY: generate
generate: check-go ## build the kernel programs again (clang-19, llvm-19, libbpf-dev)
	@for tool in clang-19 llvm-strip-19; do command -v $$tool >/dev/null || { \
		echo "$$tool is missing: apt-get install clang-19 llvm-19 libbpf-dev" >&2; exit 1; }; done
	@[[ -e /usr/include/bpf/bpf_helpers.h ]] || { echo "libbpf's headers are missing: apt-get install libbpf-dev" >&2; exit 1; }
	go generate ./bpf

.PHONY: notice
notice: ## write NOTICE and docs/dependencies.md: what the programs are made of, and under which licences
	go run ./internal/notice

# The database is that of GOVULNDB, by default https://vuln.go.dev.
GOVULNCHECK ?= golang.org/x/vuln/cmd/govulncheck@v1.9.0
.PHONY: vulnerabilities
vulnerabilities: ## ask Go's database of vulnerabilities about every module (network)
	go run $(GOVULNCHECK) $(if $(GOVULNDB),-db $(GOVULNDB)) ./...
	go -C otel run $(GOVULNCHECK) $(if $(GOVULNDB),-db $(GOVULNDB)) ./...

.PHONY: check-generated
check-generated: generate ## build them again and fail unless they are what is committed
	git diff --exit-code --stat -- $(OBJECTS)

EXPERIMENT ?= null
PROFILE    ?= quick

.PHONY: bench-run
bench-run: check-root build ## run an experiment of the laboratory (root or sudo for all of it): EXPERIMENT=coroot PROFILE=smoke
	$(SUDO) bin/tare bench run $(EXPERIMENT) --profile $(PROFILE) $(ARGS)

# Experiments in the order in which they are measured. Those that a document's tables are made of have targets of their own:
# weight, runtimes, shims, collector-cost.
RESULTS := null thesis adaptive payload strategies privacy coroot storage kyma chainscope-nginx chainscope-hotel chainscope-rootcause placement pipelines

.PHONY: results
results: build ## make docs/results anew: the quick profile of every experiment (root or sudo; seven hours, on an idle machine); RESULTS="payload coroot" chooses
	@status=0; for e in $(RESULTS); do \
		rm -rf docs/results/$$e.new; \
		if $(SUDO) bin/tare bench run $$e --profile quick --out docs/results/$$e.new && $(SUDO) bin/tare bench pack docs/results/$$e.new; then rm -rf docs/results/$$e && mv docs/results/$$e.new docs/results/$$e; \
		else echo "$$e was not measured: what there is of it is in docs/results/$$e.new"; status=1; fi; \
	done; $(MAKE) --no-print-directory results-report && exit $$status

.PHONY: results-report
results-report: ## write docs/results/README.md, the answers of all experiments, again
	go run ./lab/costdoc results docs/results docs/results/README.md

.PHONY: screenshots
screenshots: build ## take the picture of README.md again, of a real chain (root; redis-server, memcached, chromium)
	@mkdir -p docs/images
	go -C integration test -vet=off -count=1 -run '^TestScreenshots$$' . -args -screenshots $(CURDIR)/docs/images

.PHONY: cost
cost: build ## measure what README.md and docs/cost.md show (root or sudo; 20 minutes, on an idle machine)
	@mkdir -p docs/cost && echo "$(COMMIT)" >docs/cost/commit
	@for run in $(COST_RUNS); do \
		raw="docs/cost/$${run/:/-}.json"; \
		$(SUDO) bin/tare demo --chain "$${run%:*}" --sample "$${run#*:}" --requests 100000 --rounds 14 --json $(ARGS) >"$$raw.new"; \
		mv "$$raw.new" "$$raw"; \
	done
	$(SUDO) bin/tare demo --chain nginx --sample 1 --requests 1000000 --rounds 0 --json >docs/cost/nginx-1-soak.json.new
	@mv docs/cost/nginx-1-soak.json.new docs/cost/nginx-1-soak.json
	@$(MAKE) --no-print-directory cost-report

.PHONY: cost-report
cost-report: ## write the tables again from the results in docs/cost/
	go run ./lab/costdoc agent docs/cost docs/cost.md README.md

.PHONY: weight
weight: build ## measure what each stage of the agent weighs (root; a quarter of an hour, on an idle machine)
	$(call record,weight,weight,quick)
	@$(MAKE) --no-print-directory weight-report

.PHONY: weight-report
weight-report: ## write docs/cost.md's table of stages again from docs/results
	go run ./lab/costdoc weight docs/results/weight docs/cost.md

# Two runs are the same on an idle machine, with PARALLEL=1. AGAINST=COMMIT shows what changed since then, and records nothing.
EXACT_KERNELS ?= 6.18-amd64 6.12-amd64 6.1-amd64
EXACT = bin/tare-kernels -count -parallel $(PARALLEL) -kernels "$(EXACT_KERNELS)" $(if $(CONNECTIONS),-connections $(CONNECTIONS))
.PHONY: weight-exact
weight-exact: build ## count the instructions of a request in emulated kernels, by part (20 minutes; AGAINST=COMMIT TOP=30 EXACT_KERNELS=6.12-amd64 CONNECTIONS=1)
	@go build -o bin/tare-kernels ./integration/kernels
ifdef AGAINST
	@rm -rf bin/against && git worktree prune && git worktree add -q --detach $(CURDIR)/bin/against $(AGAINST)
	@cd bin/against && go build -o ../against-tare-agent ./cmd/tare-agent; status=$$?; git worktree remove --force $(CURDIR)/bin/against; exit $$status
	$(EXACT) -against bin/against-tare-agent $(if $(TOP),-top $(TOP))
else
	$(EXACT) -record docs/results/instructions.json $(if $(TOP),-top $(TOP))
	@$(MAKE) --no-print-directory weight-exact-report
endif

.PHONY: weight-exact-report
weight-exact-report: ## write docs/cost.md's table of instructions again from docs/results
	go run ./lab/costdoc instructions docs/results/instructions.json docs/cost.md

.PHONY: check-weight
check-weight: build ## count what tracing at 1% adds to the instructions of a request, and fail if that is more than what is committed (two minutes)
	@go build -o bin/tare-kernels ./integration/kernels
	bin/tare-kernels -count -parallel 1 -kernels 6.12-amd64 -connections 1 -check docs/results/instructions.json

# The benchmarks of the libraries that their README shows: package, pattern, numbers of CPUs.
OTEL_BENCHMARKS := \
	lean:SetAttributes|TypedSetters|UnsampledRoot|UnsampledChild:2 \
	lean/leanhttp:Handler:2 lean/leanredis:Command:2 lean/otlphttp:Export:2 \
	adaptive:ShouldSample$$:1,2,8 ratelimit:Decision/.*/root:2 contextaware:Decision/.*/root$$:2 \
	keep:Trace:2 redact:Rules|Configs:2

.PHONY: otel-cost
otel-cost: check-go ## run the libraries' benchmarks in interleaved rounds and write otel/README.md's table (10 minutes, on an idle machine)
	@mkdir -p bin/otel && rm -f bin/otel/benchmarks.txt
	@echo "commit: $(COMMIT)" >bin/otel/benchmarks.txt
	@for b in $(foreach b,$(OTEL_BENCHMARKS),'$(b)'); do p=$${b%%:*}; go -C otel test -c -o $(CURDIR)/bin/otel/$${p//\//-}.test ./$$p; done
	@for round in $$(seq 10); do \
		echo "round $$round of 10"; \
		for b in $(foreach b,$(OTEL_BENCHMARKS),'$(b)'); do \
			IFS=: read -r p pattern cpus <<<"$$b"; \
			(cd otel/$$p && $(CURDIR)/bin/otel/$${p//\//-}.test -test.run '^$$' -test.bench "$$pattern" -test.benchtime 50ms -test.benchmem -test.cpu $$cpus) >>bin/otel/benchmarks.txt; \
		done; \
	done
	@gzip -9n <bin/otel/benchmarks.txt >docs/results/otel-benchmarks.txt.gz
	@$(MAKE) --no-print-directory otel-cost-report

.PHONY: otel-cost-report
otel-cost-report: ## write otel/README.md's table again from docs/results
	go run ./lab/costdoc otel docs/results/otel-benchmarks.txt.gz docs/results otel/README.md

# Of the store: package, pattern. The search runs over TARE_STORE_SPANS spans.
STORE_ROUNDS ?= 10

FAULTS ?= 1000
.PHONY: store-faults
store-faults: check-go ## damage the files of a store in FAULTS ways; SEED=N repeats from one (half an hour for 1000)
	TARE_STORE_FAULTS=$(FAULTS) TARE_STORE_SEED=$(SEED) go test -count=1 -timeout 3h -run '^TestFaults$$' -v ./store

ROUNDS ?= 10
.PHONY: durable-cost
durable-cost: check-go ## what sync costs in the store and through tare_tracer: ROUNDS interleaved rounds, by benchstat (10 minutes, on an idle machine)
	@mkdir -p out && rm -f out/durable.txt
	for i in $$(seq $(ROUNDS)); do go test -run '^$$' -bench '^(BenchmarkCommit|BenchmarkDurable)$$' -benchtime 1s ./store ./collector/tracerprocessor >> out/durable.txt || exit 1; done
	go run golang.org/x/perf/cmd/benchstat -col /mode out/durable.txt

.PHONY: store-cost
store-cost: check-go ## run the store's benchmarks over 10,000,000 spans (10 minutes, on an idle machine)
	@mkdir -p bin/store && echo "commit: $(COMMIT)" >bin/store/benchmarks.txt
	@go test -c -o bin/store/store.test ./store
	cd store && TARE_STORE_SPANS=10000000 $(CURDIR)/bin/store/store.test -test.run '^$$' -test.bench 'Cost' -test.timeout 60m \
		-test.benchtime 1x -test.cpu 1 -test.count $(STORE_ROUNDS) >>$(CURDIR)/bin/store/benchmarks.txt
	@gzip -9n <bin/store/benchmarks.txt >docs/results/store-benchmarks.txt.gz

.PHONY: flood-cost
flood-cost: build ## what a flood does to a collector (root; two minutes, on an idle machine)
	@mkdir -p bin/store && echo "{\"commit\": \"$(COMMIT)\"}" >bin/store/flood.jsonl
	TARE_FLOOD_RESULTS=$(CURDIR)/bin/store/flood.jsonl go test -vet=off -count=1 -v -run 'TestCollectorFlood' ./integration/ -args -long
	@mv bin/store/flood.jsonl docs/results/collector-flood.jsonl

.PHONY: discovery-cost
discovery-cost: build ## what containers that come and go cost the agent, and how soon they are traced (root; three minutes, on an idle machine)
	TARE_DISCOVERY_COST=$(CURDIR)/docs/results/discovery.json go test -count=1 -v -run 'TestContainersComeAndGo' -timeout 20m ./integration/

.PHONY: collector-cost
collector-cost: build store-cost flood-cost ## measure what docs/collector.md and docs/cost.md show of it (root; half an hour, on an idle machine)
	$(call record,collector,collector,quick)
	@$(MAKE) --no-print-directory collector-cost-report

.PHONY: collector-cost-report
collector-cost-report: ## write the tables of docs/collector.md and docs/cost.md again from docs/results
	go run ./lab/costdoc collector docs/results/store-benchmarks.txt.gz docs/results/collector-flood.jsonl docs/results docs/collector.md docs/cost.md

.PHONY: clean
clean: ## remove what was built
	rm -rf bin
