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
MANDIR  = $(PREFIX)/share/man
BASHDIR = $(PREFIX)/share/bash-completion/completions
ZSHDIR  = $(PREFIX)/share/zsh/site-functions
FISHDIR = $(PREFIX)/share/fish/vendor_completions.d
# What install installs.
BINARY  = bin/healthd

VERSION = $(shell cat VERSION)
# As long in every clone.
COMMIT  = $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
# What is made bears the time of its sources, so that the same sources make the same.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || stat -c %Y VERSION)
export SOURCE_DATE_EPOCH
# The same binary from the same sources, wherever they are.
BUILD   = CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '-s -w -buildid= -X main.version=$(VERSION) -X main.commit=$(COMMIT)'

# Whether this is about the host's own systemd, and that runs.
RUN_SYSTEMD = /run/systemd/system
ON_SYSTEMD  = [ -z "$(DESTDIR)" ] && [ -d $(RUN_SYSTEMD) ]

ARCHES     ?= amd64 arm64
FORMATS    ?= deb rpm
DIST       ?= dist
# Who answers for the packages; whoever passes them on puts in who that is.
MAINTAINER ?= healthd maintainers <maintainers@healthd.invalid>

# The program, and what makes its packages and its drawings: none of their modules are the program's.
MODULES     = . release/packages bench/plot
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.0
GOVULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.9.0
FUZZTIME   ?= 30s
BENCHTIME  ?= 1s
CHAOS      ?= 3m
CHAOS_SEED ?= 0
SUITES     ?= bookworm trixie forky
RUNTIME    ?= docker

# Tests wait as long as it takes: a package that reaches this limit hangs.
TESTED = -json -shuffle=on -timeout 60m -exec $(CURDIR)/scripts/measured -artifacts -outputdir $(LOGS)
TEST   = $(GO) test $(TESTED)
# Where failed tests leave logs.
LOGS   = $(CURDIR)/bin/artifacts
# What fails runs again, alone and with the same flags: both are told, and both are failures.
report = bin/conformance -logs $(LOGS) -again '$(GO) test -count=1 -timeout 10m $(1)'
# What make test tests. Of the rest, each target of test-all tests a part: scripts/rings compares.
RING_ONE = $(shell $(GO) list -find ./... | grep -vE '/release/|/e2e/(balancers|chaos|docs|faults|fleet|page)$$|/api/page/(browser|chromiumtest)$$')

.DEFAULT_GOAL := help
.PHONY: build image test test-all test-engines test-balancers test-fleet test-page test-docs test-chaos test-packages test-systemd test-loaded test-fresh race chaos compat balancers bench-balancers conformance fuzz bench bench-once bench-scale soak months lint vulncheck demo manual packages release install install-files uninstall clean help prerequisites FORCE

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/healthd
	$(BUILD) -o bin/healthd ./cmd/healthd

# What packages and images hold: bin/linux-amd64/healthd, bin/linux-arm64/healthd.
bin/linux-%/healthd: FORCE
	GOOS=linux GOARCH=$* $(BUILD) -o $@ ./cmd/healthd
FORCE:

image: bin/linux-amd64/healthd bin/linux-arm64/healthd ## write dist/healthd-image-ARCH.tar for docker load, and an OCI layout of both
	$(GO) run ./release/image -version $(VERSION) -commit $(COMMIT) -created $(SOURCE_DATE_EPOCH) -out dist -binary amd64=bin/linux-amd64/healthd -binary arm64=bin/linux-arm64/healthd

prerequisites: ## install what make test needs (Debian, Ubuntu; as root)
	scripts/prerequisites test

test: prerequisites bin/conformance $(LOGS) ## run the tests that need no more than private engines, and check docs/conformance.md: minutes (as root)
	$(TEST) -short -race $(RING_ONE) | $(call report,-short -race) -check conformance/cases.txt docs/conformance.md

# Two at a time: tests on engines wait more than they compute. A systemd in a container mounts controllers of cgroups that
# the host has not mounted. While it runs, engines are not told of containers that are killed for want of memory: its
# tests come after all others.
REST = test-engines test-chaos test-fleet test-balancers test-docs test-page
test-all: ## run everything else that must hold before a release, and go on after a failure (as root)
	scripts/prerequisites $(REST) test-packages test-systemd
	@$(MAKE) --no-print-directory -k -j2 $(REST); failed=$$?; \
		$(MAKE) --no-print-directory -k test-packages test-systemd && exit $$failed

# ring_two runs packages in full, under the race detector.
ring_two = $(TEST) -race $(1) | $(call report,-race)

test-engines: bin/conformance $(LOGS) ## all that happens on engines, with faults of theirs; and probes and commands at full length
	scripts/prerequisites $@
	$(call ring_two,./e2e/engines ./e2e/faults ./runtime/... ./prober ./cmd/healthd)

test-balancers: bin/conformance $(LOGS) ## HAProxy, nginx, Caddy, Prometheus and DNS as readers of what healthd tells
	scripts/prerequisites $@
	$(call ring_two,./e2e/balancers ./supervisor/haproxy ./supervisor/files ./supervisor/dns)

test-fleet: bin/conformance $(LOGS) ## many hosts, in network namespaces, and what befalls their etcd
	scripts/prerequisites $@
	$(call ring_two,./e2e/fleet ./supervisor/fleet/...)

test-page: bin/conformance $(LOGS) ## the web page in Chromium
	scripts/prerequisites $@
	$(call ring_two,./e2e/page ./supervisor/api/page/...)

test-docs: bin/conformance $(LOGS) ## every page of the documentation, as its reader would follow it
	scripts/prerequisites $@
	$(call ring_two,./e2e/docs)

test-chaos: bin/conformance $(LOGS) ## random faults: on engines, and in virtual time, with more seeds; and floods of what is kept
	scripts/prerequisites $@
	$(call ring_two,./e2e/chaos ./supervisor ./supervisor/core ./supervisor/journal ./supervisor/report ./configs)

# The tests of ./systemd that install packages. None of these packages has goroutines of its own for the race detector.
PACKAGE_TESTS = ^Test(DebianPackage|FreshMachines)$$
test-packages: bin/conformance $(LOGS) ## packages, images, manual pages: what a release has, installed where it goes
	scripts/prerequisites $@
	for module in release/packages bench/plot; do $(GO) -C $$module test $(TESTED) ./... | bin/conformance -logs $(LOGS) -again "$(GO) -C $$module test -count=1" || exit 1; done
	{ $(TEST) ./release/image && $(TEST) ./systemd -run '$(PACKAGE_TESTS)'; } | $(call report)

test-systemd: bin/conformance $(LOGS) ## the unit, under a real systemd
	scripts/prerequisites $@
	$(TEST) ./systemd -skip '$(PACKAGE_TESTS)' | $(call report)

$(LOGS):
	mkdir -p $@

bin/conformance: FORCE
	$(GO) build -o $@ ./conformance

LOADED ?= 5
test-loaded: ## run make test LOADED (5) times beside four busy loops and a disk that is written to
	scripts/loaded $(LOADED) $(MAKE) test

test-fresh: ## run make test on a Debian that has Go and nothing else
	scripts/prerequisites fresh
	scripts/fresh make test

race: ## run the tests that need no engine ten times under the race detector
	$(GO) test -race -shuffle=on -count=10 ./configs ./prober ./runtime ./supervisor/...

chaos: prerequisites ## inject faults on a private Docker and a private containerd, each for CHAOS (3m), by CHAOS_SEED (0: a new one each time) (as root)
	$(GO) test -race -count=1 -timeout 30m ./e2e/chaos -run 'TestChaos(Containerd)?$$' -v -chaos=$(CHAOS) -chaos-seed=$(CHAOS_SEED)

compat: ## run the tests of engines and HAProxy on those of the Debian SUITES (bookworm trixie forky), without installing them (Debian; as root)
	scripts/prerequisites test compat
	scripts/compat $(SUITES)

# Traefik is in no Debian. CI does without the six minutes that it takes to build it.
balancers: ## run the tests of load balancers that take Traefik, which is built for them: six minutes the first time (as root)
	scripts/prerequisites test-balancers
	scripts/traefik
	$(GO) test -race -count=1 -timeout 20m ./e2e/balancers -run 'TestBalancers$$/Traefik' -v -traefik=$(CURDIR)/bin/traefik

bench-balancers: ## measure load balancers for half an hour and print a table of what they lose (as root)
	scripts/prerequisites test-balancers
	scripts/traefik
	$(GO) test -count=1 -timeout 90m ./e2e/balancers -run 'TestBalancers$$' -v -traefik=$(CURDIR)/bin/traefik -balancer-figures

conformance: bin/conformance ## run the tests that name the kubelet's cases, and write docs/conformance.md
	$(GO) test -json -short -shuffle=on $$(git grep -l 'Attr("kubelet"' -- '*_test.go' | xargs -n1 dirname | sort -u | sed 's|^|./|') | \
		bin/conformance conformance/cases.txt docs/conformance.md

fuzz: ## run every fuzz target for FUZZTIME (30s) each
	scripts/fuzz $(FUZZTIME)

bench: prerequisites ## run the benchmarks (as root)
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...

bench-once: ## run each benchmark once, to see that it works (as root)
	@$(MAKE) bench BENCHTIME=1x
	@$(MAKE) bench-scale SCALE='-only steady -containers 100 -period 500ms -seconds 3 -churn 20'
	@$(MAKE) soak SOAK=20s SOAK_ARGS='-containers 60 -period 1s -slack 8' SOAK_SVG=bin/soak.svg

bench-scale: build ## measure healthd with 10,000 containers, for many minutes (SCALE="-help" lists what can be set)
	scripts/prerequisites bench
	$(GO) build -o bin/bench ./bench
	bin/bench -binary bin/healthd $(SCALE)

SOAK      ?= 20m
SOAK_ARGS ?=
SOAK_SVG  ?= docs/images/soak.svg
# What was found is drawn in any case: a leak above all.
soak: build ## run healthd for SOAK (20m) on a host on which much happens, fail unless what it holds stays flat, and draw SOAK_SVG (SOAK_ARGS="-help" lists what can be set)
	$(GO) build -o bin/bench ./bench
	bin/bench soak -binary bin/healthd -for $(SOAK) -csv bin/soak.csv $(SOAK_ARGS); found=$$?; \
		$(GO) -C bench/plot run . -samples $(CURDIR)/bin/soak.csv -out $(abspath $(SOAK_SVG)) && exit $$found

DAYS ?= 90
months: ## play a host for DAYS (90) in virtual time, and count what healthd keeps: about 10 minutes
	$(GO) test -count=1 -timeout 60m ./supervisor -run 'TestMonths$$' -v -args -months-days=$(DAYS)

lint: ## check gofmt, vet, staticcheck, go.mod, who imports whom, what tests wait for, and the scripts (installs shellcheck if it is missing: as root)
	scripts/prerequisites lint
	@test -z "$$(gofmt -l .)" || { echo "not formatted:"; gofmt -l .; exit 1; }
	for module in $(MODULES); do $(GO) -C $$module vet ./... && $(GO) -C $$module run $(STATICCHECK) ./... && $(GO) -C $$module mod tidy -diff || exit 1; done
	scripts/arrows
	scripts/waits
	scripts/rings
	shellcheck $$(git ls-files -z | xargs -0 awk 'FNR == 1 && /^#!.*[\/ ](ba|da)?sh( |$$)/ { print FILENAME } { nextfile }')

vulncheck: ## look for known vulnerabilities in what healthd calls; run it before a release (needs vuln.go.dev, and is not part of CI)
	$(GO) run $(GOVULNCHECK) ./...

demo: ## show how healthd heals a hung container behind HAProxy (as root; DEMO_SECONDS=60 runs it unattended; RUNTIME=containerd)
	scripts/prerequisites demo
	$(GO) build -o bin/demo ./demo
	bin/demo -runtime $(RUNTIME)

manual: build # the manual pages, and what shells complete
	$(GO) -C release/packages run ./man -docs $(CURDIR)/docs -out $(CURDIR)/bin/manual -version $(VERSION)
	gzip -9nf bin/manual/healthd.1 bin/manual/healthd.toml.5
	mkdir -p bin/completions
	for shell in bash zsh fish; do bin/healthd completion $$shell > bin/completions/$$shell || exit 1; done

packages: manual $(ARCHES:%=bin/linux-%/healthd) ## make the packages of a release in dist/ (ARCHES="amd64 arm64", FORMATS="deb rpm", MAINTAINER)
	rm -rf bin/stage
	for arch in $(ARCHES); do \
		$(MAKE) --no-print-directory install-files DESTDIR=$(CURDIR)/bin/stage/$$arch PREFIX=/usr SYSCONF=/etc BINARY=bin/linux-$$arch/healthd || exit 1; done
	GO='$(GO)' $(GO) -C release/packages run . -sources $(CURDIR) -stage $(CURDIR)/bin/stage -dist $(abspath $(DIST)) \
		-version $(VERSION) -maintainer '$(MAINTAINER)' -arches '$(ARCHES)' -formats '$(FORMATS)'

release: ## make all of a release in dist/, anew: images, packages, lists of modules, checksums
	rm -rf dist
	@$(MAKE) --no-print-directory image
	@$(MAKE) --no-print-directory packages DIST=dist

install: manual ## install the program, its unit, manual, completions and documents, and a configuration (PREFIX=/usr/local, DESTDIR=)
	@$(MAKE) --no-print-directory install-files
	if $(ON_SYSTEMD); then systemctl daemon-reload; fi

# The one list of what is installed. Packages hold what this puts into an empty directory.
install-files:
	install -D -m 0755 $(BINARY) $(DESTDIR)$(BINDIR)/healthd
	install -d -m 0755 $(DESTDIR)$(UNITDIR)
	sed 's|@BINDIR@|$(BINDIR)|; s|@DOCDIR@|$(DOCDIR)|' systemd/healthd.service.in > $(DESTDIR)$(UNITDIR)/healthd.service
	chmod 0644 $(DESTDIR)$(UNITDIR)/healthd.service
	install -d -m 0755 $(DESTDIR)$(SYSCONF)/healthd/conf.d
	test -e $(DESTDIR)$(SYSCONF)/healthd/healthd.toml || install -m 0644 configs/healthd.toml $(DESTDIR)$(SYSCONF)/healthd/healthd.toml
	test -e $(DESTDIR)$(SYSCONF)/default/healthd || install -D -m 0644 systemd/healthd.default $(DESTDIR)$(SYSCONF)/default/healthd
	install -D -m 0644 bin/manual/healthd.1.gz $(DESTDIR)$(MANDIR)/man1/healthd.1.gz
	install -D -m 0644 bin/manual/healthd.toml.5.gz $(DESTDIR)$(MANDIR)/man5/healthd.toml.5.gz
	install -D -m 0644 bin/completions/bash $(DESTDIR)$(BASHDIR)/healthd
	install -D -m 0644 bin/completions/zsh $(DESTDIR)$(ZSHDIR)/_healthd
	install -D -m 0644 bin/completions/fish $(DESTDIR)$(FISHDIR)/healthd.fish
	install -d -m 0755 $(DESTDIR)$(DOCDIR)/docs
	install -m 0644 README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE $(DESTDIR)$(DOCDIR)/
	install -m 0644 docs/*.md $(DESTDIR)$(DOCDIR)/docs/
	install -d -m 0755 $(DESTDIR)$(DOCDIR)/docs/images
	install -m 0644 docs/images/* $(DESTDIR)$(DOCDIR)/docs/images/
	install -d -m 0755 $(DESTDIR)$(DOCDIR)/examples
	install -m 0644 configs/conf.d/*.toml $(DESTDIR)$(DOCDIR)/examples/
	install -d -m 0755 $(DESTDIR)$(DOCDIR)/examples/haproxy
	install -m 0644 configs/examples/haproxy/* $(DESTDIR)$(DOCDIR)/examples/haproxy/
	install -d -m 0755 $(DESTDIR)$(DOCDIR)/examples/observability
	install -m 0644 configs/observability/* $(DESTDIR)$(DOCDIR)/examples/observability/
	install -d -m 0755 $(DESTDIR)$(DOCDIR)/examples/compose
	install -m 0644 configs/examples/compose/* $(DESTDIR)$(DOCDIR)/examples/compose/
	install -d -m 0755 $(DESTDIR)$(DOCDIR)/examples/files
	install -m 0644 configs/examples/files/* $(DESTDIR)$(DOCDIR)/examples/files/
	install -d -m 0755 $(DESTDIR)$(DOCDIR)/examples/fleet
	install -m 0644 configs/examples/fleet/* $(DESTDIR)$(DOCDIR)/examples/fleet/
	install -d -m 0755 $(DESTDIR)$(DOCDIR)/examples/templates
	install -m 0644 supervisor/files/templates/* $(DESTDIR)$(DOCDIR)/examples/templates/
	install -d -m 0755 $(DESTDIR)$(DOCDIR)/configs
	ln -sfn ../examples $(DESTDIR)$(DOCDIR)/configs/examples # docs link to it
	ln -sfn ../examples/observability $(DESTDIR)$(DOCDIR)/configs/observability # and to it
	install -d -m 0755 $(DESTDIR)$(DOCDIR)/supervisor/files
	ln -sfn ../../examples/templates $(DESTDIR)$(DOCDIR)/supervisor/files/templates # and to these
	$(if $(wildcard systemd/*.conf),install -D -m 0644 -t $(DESTDIR)$(DOCDIR)/examples/systemd systemd/*.conf)
	install -D -m 0644 systemd/healthd.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/healthd.conf

uninstall: ## stop and disable healthd, and remove what install installed, except the configuration
	if $(ON_SYSTEMD) && [ -e $(UNITDIR)/healthd.service ]; then systemctl disable --now healthd.service; fi
	rm -f $(DESTDIR)$(BINDIR)/healthd $(DESTDIR)$(UNITDIR)/healthd.service
	rm -f $(DESTDIR)$(PREFIX)/lib/sysusers.d/healthd.conf
	rm -f $(DESTDIR)$(MANDIR)/man1/healthd.1.gz $(DESTDIR)$(MANDIR)/man5/healthd.toml.5.gz
	rm -f $(DESTDIR)$(BASHDIR)/healthd $(DESTDIR)$(ZSHDIR)/_healthd $(DESTDIR)$(FISHDIR)/healthd.fish
	rm -rf $(DESTDIR)$(DOCDIR)
	if $(ON_SYSTEMD); then systemctl daemon-reload; fi
	@echo "healthd: left are the configuration, $(DESTDIR)$(SYSCONF)/healthd and $(DESTDIR)$(SYSCONF)/default/healthd, and the journal, $(DESTDIR)/var/lib/healthd"

clean: ## remove what was built
	rm -rf bin dist
