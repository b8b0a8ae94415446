# Everything here works in a fresh clone with git, make and Go: what else is missing is installed on Debian and Ubuntu (scripts/setup).

SHELL := /bin/sh
.DEFAULT_GOAL := help

GOTOOL   := go tool -modfile=$(CURDIR)/tools/go.mod
FUZZTIME ?= 60s
# Flags for go test. Tests wait for servers more than they compute, hence more of them at once than there are cores.
TESTFLAGS ?= -race -count=1 -timeout=9m -parallel=4
# Packages to test; all of all modules where it is empty.
PACKAGES ?=
# Has the kernel stop a program when make dies, however it does; nothing where that cannot be had.
TIED = $(shell setpriv --pdeathsig TERM true 2>/dev/null && echo setpriv --pdeathsig TERM)

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 23

.PHONY: setup
setup: ## install whatever run and test need, private servers included
	@VALKEY_URL= DATABASE_URL= scripts/setup test

.PHONY: build
build: ## build bin/feedrenderer
	@go build -trimpath -o bin/feedrenderer ./cmd/feedrenderer

.PHONY: run
run: ## the demo: servers, renderers, web and a simulator; open the address that it prints, Ctrl-C ends it
	@scripts/setup run
	@$(MAKE) --no-print-directory build
	@exec $(TIED) bin/feedrenderer demo

.PHONY: test
test: ## run all tests with the race detector and say how many there were
	@scripts/setup test
	@TESTFLAGS='$(TESTFLAGS)' PACKAGES='$(PACKAGES)' $(GOTOOL) gotestsum --format=pkgname-and-test-fails --raw-command -- scripts/test

.PHONY: chaos
chaos: ## run the tests in their heavy forms (build tag chaos), a package at a time: longer, larger, with more faults
	@$(MAKE) --no-print-directory test TESTFLAGS='-race -count=1 -timeout=60m -p=1 -tags=chaos'

.PHONY: lint
lint: ## golangci-lint, gofumpt, go vet, go mod tidy, govulncheck
	@scripts/lint

.PHONY: format
format: ## format the Go code
	@$(GOTOOL) gofumpt -w .

.PHONY: bench
bench: ## run the benchmarks beside their yardsticks; BENCH names some of them
	@scripts/setup test
	@cd bench && go run . $(BENCH)

.PHONY: bench-growth
bench-growth: ## how the drain speed holds as games, renderers and stored lines grow
	@scripts/setup test
	@cd bench && go run . growth

.PHONY: bench-consumer
bench-consumer: ## the consumer library alone, beside peers and ceilings
	@scripts/setup test
	@cd bench && go run ./consumer

.PHONY: fuzz
fuzz: ## run every fuzz function for FUZZTIME (60s)
	@scripts/setup run
	@FUZZTIME='$(FUZZTIME)' scripts/fuzz

.PHONY: golden
golden: ## write the golden files of the rendered lines anew; look at the difference before committing it
	@go test ./render -run Golden -update
	@git --no-pager diff --stat -- render
