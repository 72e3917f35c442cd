# healthd: `make help` lists what there is to make.

# A test run that is cut off must not look complete to what reads its output.
SHELL       = /bin/bash
.SHELLFLAGS = -o pipefail -c

PREFIX  ?= /usr/local
SYSCONF ?= /etc
DESTDIR ?=
GO      ?= go

BINDIR  = $(PREFIX)/bin
UNITDIR = $(PREFIX)/lib/systemd/system
DOCDIR  = $(PREFIX)/share/doc/healthd
VERSION = $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT  = $(shell git rev-parse --short HEAD 2>/dev/null || echo unknown)

# Whether this is about the host's own systemd, and that runs.
RUN_SYSTEMD = /run/systemd/system
ON_SYSTEMD  = [ -z "$(DESTDIR)" ] && [ -d $(RUN_SYSTEMD) ]

STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.0
GOVULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.9.0
FUZZTIME   ?= 30s
BENCHTIME  ?= 1s
CHAOS      ?= 3m
CHAOS_SEED ?= 0
SUITES     ?= bookworm trixie forky
RUNTIME    ?= docker

.DEFAULT_GOAL := help
.PHONY: build test race chaos compat conformance fuzz bench bench-once lint vulncheck demo install uninstall clean help prerequisites

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/healthd
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)' -o bin/healthd ./cmd/healthd

prerequisites: ## install what the tests need (Debian, Ubuntu; as root)
	scripts/prerequisites test

test: prerequisites ## run every test, also on a private Docker engine, and check docs/conformance.md (as root)
	$(GO) build -o bin/conformance ./conformance
	$(GO) test -json -race -shuffle=on -timeout 20m ./... | bin/conformance -check conformance/cases.txt docs/conformance.md

race: ## run the tests that need no engine ten times under the race detector
	$(GO) test -race -shuffle=on -count=10 ./configs ./prober ./runtime ./supervisor/...

chaos: prerequisites ## inject faults on a private Docker and a private containerd, each for CHAOS (3m), by CHAOS_SEED (0: a new one each time) (as root)
	$(GO) test -race -count=1 -timeout 30m ./e2e -run 'TestChaos(Containerd)?$$' -v -chaos=$(CHAOS) -chaos-seed=$(CHAOS_SEED)

compat: prerequisites ## run the tests of engines and HAProxy on those of the Debian SUITES (bookworm trixie forky), without installing them (Debian; as root)
	scripts/compat $(SUITES)

conformance: ## run the tests that need no engine and write docs/conformance.md, the kubelet's cases with their tests
	$(GO) build -o bin/conformance ./conformance
	$(GO) test -json -race -shuffle=on ./configs ./prober ./runtime ./supervisor/... | bin/conformance conformance/cases.txt docs/conformance.md

fuzz: ## run every fuzz target for FUZZTIME (30s) each
	scripts/fuzz $(FUZZTIME)

bench: prerequisites ## run the benchmarks (as root)
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...

bench-once: ## run each benchmark once, to see that it works (as root)
	@$(MAKE) bench BENCHTIME=1x

lint: ## check gofmt, vet, staticcheck, go.mod, who imports whom, and the scripts (installs shellcheck if it is missing: as root)
	scripts/prerequisites lint
	@test -z "$$(gofmt -l .)" || { echo "not formatted:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	$(GO) mod tidy -diff
	scripts/arrows
	shellcheck $$(git ls-files -z | xargs -0 awk 'FNR == 1 && /^#!.*[\/ ](ba|da)?sh( |$$)/ { print FILENAME } { nextfile }')

vulncheck: ## look for known vulnerabilities in what healthd calls; run it before a release (needs vuln.go.dev, and is not part of CI)
	$(GO) run $(GOVULNCHECK) ./...

demo: ## show how healthd heals a hung container behind HAProxy (as root; DEMO_SECONDS=60 runs it unattended; RUNTIME=containerd)
	scripts/prerequisites demo
	$(GO) build -o bin/demo ./demo
	bin/demo -runtime $(RUNTIME)

install: build ## install the binary, the systemd unit and a configuration (PREFIX=/usr/local, DESTDIR=)
	install -D -m 0755 bin/healthd $(DESTDIR)$(BINDIR)/healthd
	sed 's|@BINDIR@|$(BINDIR)|; s|@DOCDIR@|$(DOCDIR)|' systemd/healthd.service.in > bin/healthd.service
	install -D -m 0644 bin/healthd.service $(DESTDIR)$(UNITDIR)/healthd.service
	install -d -m 0755 $(DESTDIR)$(SYSCONF)/healthd/conf.d
	test -e $(DESTDIR)$(SYSCONF)/healthd/healthd.toml || install -m 0644 configs/healthd.toml $(DESTDIR)$(SYSCONF)/healthd/healthd.toml
	install -d -m 0755 $(DESTDIR)$(DOCDIR)/docs
	install -m 0644 README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE $(DESTDIR)$(DOCDIR)/
	install -m 0644 docs/*.md $(DESTDIR)$(DOCDIR)/docs/
	install -d -m 0755 $(DESTDIR)$(DOCDIR)/examples
	install -m 0644 configs/conf.d/*.toml $(DESTDIR)$(DOCDIR)/examples/
	install -d -m 0755 $(DESTDIR)$(DOCDIR)/examples/haproxy
	install -m 0644 configs/examples/haproxy/* $(DESTDIR)$(DOCDIR)/examples/haproxy/
	install -d -m 0755 $(DESTDIR)$(DOCDIR)/configs
	ln -sfn ../examples $(DESTDIR)$(DOCDIR)/configs/examples # docs link to it
	if $(ON_SYSTEMD); then systemctl daemon-reload; fi

uninstall: ## stop and disable healthd, and remove what install installed, except the configuration
	if $(ON_SYSTEMD) && [ -e $(UNITDIR)/healthd.service ]; then systemctl disable --now healthd.service; fi
	rm -f $(DESTDIR)$(BINDIR)/healthd $(DESTDIR)$(UNITDIR)/healthd.service
	rm -rf $(DESTDIR)$(DOCDIR)
	if $(ON_SYSTEMD); then systemctl daemon-reload; fi
	@echo "healthd: left are the configuration, $(DESTDIR)$(SYSCONF)/healthd, and the journal, $(DESTDIR)/var/lib/healthd"

clean: ## remove what was built
	rm -rf bin
