# mcpscope: a line per target around the go tool. `make help` lists them.
SHELL := /bin/sh
GO ?= go
BIN := bin/mcpscope
PACKAGES ?= ./...
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@latest
GOTESTSUM := gotest.tools/gotestsum@v1.13.0
LDFLAGS := -s -w -X main.version=$(shell git describe --tags --always --dirty 2>/dev/null || echo devel)

.PHONY: help build install demo test lint fuzz cross deps clean

help: ## print this
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile

build: ## build bin/mcpscope
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/mcpscope

install: build ## install it to $(DESTDIR)/usr/local/bin
	install -D -m 755 $(BIN) $(DESTDIR)/usr/local/bin/mcpscope

demo: deps ## show the main job: real servers and clients, bare and with mcpscope
	@demo/run

test: deps ## all fast tests, with the race detector
	test/e2e/clients/setup
	@rm -f .cache/tables
	@status=0; MCPSCOPE_E2E_TABLE=$(CURDIR)/.cache/tables $(GO) run $(GOTESTSUM) --format pkgname-and-test-fails \
		--format-hide-empty-pkg --hide-summary all --jsonfile .cache/test.json -- -race -count=1 -timeout 20m $(PACKAGES) || status=$$?; \
	cat .cache/tables 2>/dev/null; \
	$(GO) run $(GOTESTSUM) --format none --raw-command -- cat .cache/test.json; exit $$status

lint: deps cross ## gofmt, vet, staticcheck, govulncheck
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'make lint: these files need gofmt'; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	@GOBIN=$(CURDIR)/.cache/bin $(GO) install $(GOVULNCHECK) 2>/dev/null && .cache/bin/govulncheck ./...; \
		case $$? in 0) ;; 3) exit 1 ;; *) echo 'make lint: SKIP govulncheck: it or its database could not be had' ;; esac

cross: ## what is not Linux says so in one line; other processors build
	GOOS=darwin $(GO) build -o /dev/null ./cmd/mcpscope
	GOOS=linux GOARCH=arm64 $(GO) build -o /dev/null ./cmd/mcpscope

fuzz: ## every fuzz target for 30 s
	@for p in ./name ./proc ./cgroup; do for f in $$($(GO) test -list '^Fuzz' $$p | grep ^Fuzz); do \
		echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime 30s $$p || exit 1; done; done

deps: ## install what the tests need and the machine lacks (Debian)
	@.ci/deps

clean: ## remove what was built
	rm -rf bin .cache
