# SPDX-License-Identifier: Apache-2.0
# mcpscope: a line per target around the go tool. `make help` lists them.
SHELL := /bin/sh
GO ?= go
BIN := bin
# tests of the product's parts, and of the tests' own: what has not changed since they passed is not run again (go help test)
UNIT = $$($(GO) list ./... | grep -v -e /test/ -e /tools/ -e /internal/server/guard$$ -e /internal/settings/raw$$) ./test/arch ./tools/ablation ./test/bed ./test/host ./test/pace ./test/escape ./test/message ./test/unprivileged
# what runs without the Go runtime, and so without the race detector's
RAW := ./internal/server/guard ./internal/settings/raw
# the promises from outside, in worlds of their own, the longest first: of these test/escape/core.txt lists the core
WORLDS := ./test/systemd ./test/week ./test/e2e ./test/gateway ./test/journal ./test/selection ./test/script ./test/kills ./test/documents
SLICED := $(WORLDS) ./test/gateway/systemd ./test/limits ./test/fault
# a test of these takes a machine, an hour, or packages of registries
LONG := ./test/gateway/systemd ./test/limits ./test/fault ./test/soak ./test/install ./test/prometheus ./test/shells
# what is installed runs in the worlds alone, and these install it themselves (make test-installed)
ifdef TESTS_INSTALLED
PACKAGES ?= $(filter-out ./test/week ./test/documents,$(WORLDS))
endif
KIND ?= deb
FLAGS ?= -p=3
TIMEOUT ?= 15m
SUITES ?= trixie+containers trixie trixie+slurm bookworm+init bookworm bookworm+hybrid forky
# slice K/N of what the core leaves out: each commit has the next
SLICES := 20
SLICE ?= $(shell git rev-list --count HEAD 2>/dev/null || echo 0)/$(SLICES)
IMAGES = printf '%s\n' $(SUITES) | xargs -P 2 -n 1 test/vm/image >/dev/null
PREFIX ?= /usr/local
# cmd/mcpscope refuses to be built with cgo, which the race detector needs
export CGO_ENABLED := $(if $(RACE),1,0)
CYCLES ?= 10000
KILLS ?= 3000
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.1.4
GOTESTSUM := gotest.tools/gotestsum@v1.13.0
DEADCODE := golang.org/x/tools/cmd/deadcode@v0.52.0
# what raw code calls, which an assembler function of the runtime's start enters
ENTERED := cmd/mcpscope/early|internal/(server/(guard|page|decide)|settings/raw)/
ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
NFPM := github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.4
LEAKS_GO := github.com/grafana/mcp-grafana/cmd/mcp-grafana@v1.6.3 github.com/mark3labs/mcp-go/examples/everything@v1.2.1
DIST ?= dist
PROCESSORS ?= amd64 arm64
FORMATS ?= deb rpm npm arch homebrew
NPM ?= npm
EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null)
COMMIT ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null)
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS := -s -w -X github.com/mcpscope/mcpscope/internal/programs.release=$(VERSION) -X github.com/mcpscope/mcpscope/internal/programs.commit=$(COMMIT)

.PHONY: help build man reference site install uninstall packages spdx demo clients test test-slice test-changed test-full test-hermetic test-install test-installed test-vm test-arm64 test-tried test-soak release-check bench leaks session screen dashboard ablation lint fuzz cross deps clean

help: ## print this
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile

build: ## build bin/mcpscope and bin/mcpscopectl, with their man pages and completions
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/...
	@$(MAKE) --no-print-directory man

man: ## write man pages and completions below bin, by the program that is there
	@mkdir -p $(BIN)/man $(BIN)/completions && rm -f $(BIN)/man/* && $(BIN)/mcpscopectl man $(BIN)/man
	@for shell in bash zsh fish; do $(BIN)/mcpscopectl completion $$shell >$(BIN)/completions/$$shell || exit 1; done

reference: ## write docs/reference/commands.md and settings.md from the help texts
	@$(GO) run ./cmd/mcpscopectl man --reference docs/reference

site: ## build README and docs into one static site with a search, .cache/site; dead links are an error
	@tools/site/build .cache/site

install: ## install what make build has built below $(DESTDIR)$(PREFIX)
	@DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' packaging/install '$(BIN)'

uninstall: ## remove it again: first mcpscope unwrap, and units --remove
	@DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' packaging/uninstall

packages: ## make archives and packages of the version of the tag in dist/: PROCESSORS="amd64 arm64" FORMATS="deb rpm npm arch homebrew"
	@rm -rf $(DIST) && GO='$(GO)' NFPM='$(GO) run $(NFPM)' NPM='$(NPM)' LDFLAGS='$(LDFLAGS)' VERSION='$(VERSION)' COMMIT='$(COMMIT)' SOURCE_DATE_EPOCH='$(EPOCH)' \
		PROCESSORS='$(PROCESSORS)' FORMATS='$(FORMATS)' packaging/build '$(DIST)'
	@cd $(DIST) && ls -l

demo: ## kill an agent with real servers, without mcpscope and with it: half a minute, the first time some minutes
	@demo/run

test: deps ## the core of the tests: PACKAGES=./test/e2e RUN=TestEscape/cgroup/hop/kill for some of them; RACE=-race; COUNT=-count=1 runs what has not changed, too
	@TESTS_CLIENTS=go test/e2e/clients/setup
ifdef PACKAGES
	@.ci/gotest $(if $(TESTS_INSTALLED),installed,some) $(FLAGS) -count=1 $(RACE) -timeout $(TIMEOUT) $(if $(value RUN),-run '$(value RUN)') $(PACKAGES)
else
	@status=0; .ci/gotest unit $(COUNT) $(RACE) -timeout $(TIMEOUT) $(UNIT) || status=$$?; \
	.ci/gotest worlds $(FLAGS) -count=1 -timeout $(TIMEOUT) $(WORLDS) $(RAW) || status=$$?; exit $$status
endif

clients: deps # the SDKs' clients and servers, from npm
	test/e2e/clients/setup

test-slice: clients ## what the core leaves out, a part of it: SLICE=K/N
	@.ci/deps more
	@TESTS_SLICE=$(SLICE) .ci/gotest slice $(FLAGS) -count=1 -timeout $(TIMEOUT) $(SLICED)

test-changed: deps ## each test that has changed since a commit, ten times: SINCE=COMMIT, by default in the last 12 hours
	@TESTS_CLIENTS=go test/e2e/clients/setup
	@.ci/deps more
	@.ci/changed $(SINCE)

test-full: clients ## everything that runs on this machine, whole: about an hour
	@.ci/deps more
	@.ci/deps extra
	@GOBIN=$(CURDIR)/.cache/bin $(GO) install $(NFPM)
	@TESTS_NFPM=$(CURDIR)/.cache/bin/nfpm TESTS_FULL=1 .ci/gotest full -p=1 -count=1 -timeout 60m $(WORLDS) $(LONG)

test-install: deps ## packages, their installation, upgrade and removal, and the commands of the README
	@GOBIN=$(CURDIR)/.cache/bin $(GO) install $(NFPM)
	@TESTS_NFPM=$(CURDIR)/.cache/bin/nfpm .ci/gotest install -p=1 -count=1 -timeout $(TIMEOUT) ./test/install

test-installed: ## the worlds of make test against what a package has installed in a copy of this machine: KIND=make for make install; PACKAGES and RUN as for make test
	@test/installed/run $(KIND) $(MAKE) --no-print-directory test

test-tried: deps ## gateways and agents of the registries below mcpscope gateway, 5.9 GB of them: about 10 minutes
	@TESTS_FULL=1 TESTS_TRIED=1 test/e2e/clients/setup
	@TESTS_FULL=1 TESTS_TRIED=1 .ci/gotest tried -p=1 -count=1 -timeout 60m -run '^TestTried' ./test/gateway

test-vm: deps ## the tests that depend on the kernel and systemd, in VMs of other ones: SUITES="bookworm trixie+containers"; VM_CORE=1 for a few cells, VM_WHOLE=1 for every end on every backend of each
	@.ci/deps vm
	@$(IMAGES) || : # the suite that needs one that failed fails
	@mkdir -p .cache/results
	@status=0; $(GO) run $(GOTESTSUM) --format pkgname-and-test-fails --format-hide-empty-pkg --hide-summary all \
		--jsonfile .cache/results/vm.json --raw-command -- sh -c 'exec test/vm/run "$$@" 2>.cache/vm/stderr' sh $(SUITES) || status=$$?; \
	cat .cache/vm/stderr; exit $$status

test-hermetic: deps ## a part of the core in each of the surroundings that a machine may have: ROWS="umask settings"; CORE=whole
	@TESTS_CLIENTS=go test/e2e/clients/setup
	@CORE='$(CORE)' test/hermetic $(ROWS)

release-check: lint test test-full test-hermetic test-installed test-vm test-arm64 test-tried test-soak fuzz bench ## before a tag, and nightly: everything, three hours
	@$(MAKE) --no-print-directory test-installed KIND=make
	@$(GO) run $(GOVULNCHECK) ./...

test-arm64: ## every way to stay alive against three ends, and the start of a gateway, on an emulated arm64 machine: about 5 minutes; CELLS=REGEXP
	@.ci/deps arm64
	@CELLS='$(CELLS)' test/vm/arm64

test-soak: deps ## ten thousand servers with ends drawn at random, a thousand at once, three thousand each whose launcher, guard or client is killed while they start, and three thousand of the kill table on each backend: CYCLES=10000 SEED=N KILLS=3000
	@rm -f .cache/soak
	@status=0; mkdir -p .cache; TESTS_FULL=1 TESTS_SOAK_CYCLES=$(CYCLES) TESTS_SOAK_SEED=$(SEED) TESTS_KILLS=$(KILLS) TESTS_TABLE=$(CURDIR)/.cache/soak \
		$(GO) run $(GOTESTSUM) --format pkgname-and-test-fails --hide-summary all -- -count=1 -timeout 60m -p 1 \
		-run 'TestSoak|TestMany|TestStopOfAHuge|TestKilledWhileItStarts|TestKillTable' ./test/soak ./test/kills ./test/systemd ./test/e2e || status=$$?; \
	cat .cache/soak 2>/dev/null; exit $$status

bench: deps ## start, kill and idle cost beside bwrap and systemd-run; published servers that are frozen, here and in a VM with memory.reclaim: some 10 minutes
	@.ci/deps-bench
	@LAYERS=disk test/installed/run deb $(GO) test -run '^$$' -bench . -benchtime 1x -timeout 30m ./tools/bench
	@mkdir -p .cache/idle && cp test/idle/package.json .cache/idle
	@cd .cache/idle && npm install --offline=false --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null
	@NODE_MODULES=$(CURDIR)/.cache/idle/node_modules $(GO) test -run '^$$' -bench . -benchtime 1x -timeout 60m ./test/idle
	@.ci/deps vm
	@test/vm/idle .cache/idle/node_modules

leaks: deps ## count the processes that published servers and agents leave behind, without mcpscope and with it, for docs/dev/leaks.md: some 45 minutes, 8 GB of packages; ONLY=REGEXP
	@TESTS_FULL=1 TESTS_TRIED=1 test/e2e/clients/setup
	@mkdir -p .cache/leaks && cp tools/leaks/package.json tools/leaks/client.mjs .cache/leaks
	@cd .cache/leaks && npm install --offline=false --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null
	@for module in $(LEAKS_GO); do GOBIN=$(CURDIR)/.cache/leaks/bin $(GO) install $$module || exit 1; done
	@TESTS_LEAKS=$(CURDIR)/.cache/leaks $(GO) test -run '^$$' -bench '$(or $(ONLY),.)' -benchtime 1x -timeout 120m ./tools/leaks

session: ## record the picture of the README with make demo
	@demo/run -picture docs/session.svg

screen: ## record the picture of top in the README, with published servers on this host
	@tools/screen/record >.cache/top.svg
	@mv .cache/top.svg docs/top.svg

dashboard: deps ## draw the dashboard of docs/reference/metrics.md by a Prometheus in a virtual machine: about ten minutes
	@.ci/deps extra
	@.ci/deps vm
	@test/prometheus/record >.cache/dashboard.svg
	@mv .cache/dashboard.svg docs/reference/prometheus/dashboard.svg

ablation: deps ## build mcpscope without each mechanism in turn, and write what goes red to tools/ablation/README.md: about an hour; ONLY=REGEXP
	@TESTS_ABLATION='$(CURDIR)/tools/ablation/README.md' TESTS_ABLATION_ONLY='$(ONLY)' $(GO) test -count=1 -timeout 180m -v -run 'TestAblation$$' ./tools/ablation

lint: deps cross ## gofmt, vet, staticcheck, deadcode, actionlint; manifests for Kubernetes; links, length, commands and picture of documents
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'make lint: these files need gofmt'; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	$(GO) run $(DEADCODE) ./cmd/... >.cache/unreached
	@! grep -Ev '^($(ENTERED))' .cache/unreached || { echo 'make lint: no program calls these: was a call lost?'; exit 1; }
	$(GO) run $(ACTIONLINT)
	cd tools/manifests && $(GO) run . ../../packaging/kubernetes/*.yaml
	$(GO) test ./demo ./test/documents/pages

cross: ## what is not Linux says so in one line; other processors build
	GOOS=darwin $(GO) build -o /dev/null ./cmd/mcpscope
	GOOS=darwin $(GO) build -o /dev/null ./cmd/mcpscopectl
	@for processor in arm64; do \
		echo "GOOS=linux GOARCH=$$processor $(GO) build ./cmd/..."; GOOS=linux GOARCH=$$processor CGO_ENABLED=0 $(GO) build -o .cache/cross/$$processor/ ./cmd/... || exit 1; done

fuzz: ## every fuzz target for 30 s
	@for p in ./internal/settings ./internal/settings/raw ./internal/gateway/mcp ./internal/name ./internal/kernel/proc ./internal/gateway ./cgroup ./internal/kernel/systemd ./internal/server/protocol ./internal/clientconfig/wrapping; do for f in $$($(GO) test -list '^Fuzz' $$p | grep ^Fuzz); do \
		echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime 30s $$p || exit 1; done; done

spdx: ## put the line with the identifier of our license into source files that lack it
	@.ci/spdx

deps: ## install what the tests need and the machine lacks (Debian)
	@.ci/deps

clean: ## remove what was built
	rm -rf bin .cache
