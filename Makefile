# `make help` lists the targets.

GO       ?= go
VERSION  ?= $(shell ./tools/version)
export CGO_ENABLED = 0

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

.PHONY: run
run: build ## build Steward and start it with its data in ./steward-data
	./bin/steward serve

.PHONY: build
build: ## build bin/steward
	@GO="$(GO)" VERSION="$(VERSION)" ./tools/build

.PHONY: test
test: deps ## install what the tests need, and run all but the long ones; random tests draw a fifth of their cases
	$(GO) run ./tools/test -statements -- -short $$($(GO) list ./... | grep -v /e2e/long/)

# The tests that compare groups of commands with redis-server.
redis-groups = TestStrings|TestBitmaps|TestHyperLogLog|TestHashes|TestLists|TestSets|TestSortedSets|TestGeo|TestStreams|TestKeys|TestSort|TestTransactions|TestPubSub|TestBlocking|TestConnection|TestServer|TestDifferential

.PHONY: test-long
test-long: deps ## run the long tests (e2e/long): every page, clients in other languages, faults, loads, upgrades; what `make test` leaves out, and random tests with 300 cases
	$(GO) run ./tools/test -p 4 ./e2e/long/...
	$(GO) run ./tools/test $$(./tools/shortened-tests '$(redis-groups)') -rapid.checks=300

.PHONY: test-all
test-all: test test-long ## run all tests

.PHONY: test-race
test-race: deps ## run the tests of the packages with the race detector; needs gcc
	CGO_ENABLED=1 $(GO) test -race -gcflags=all=-d=checkptr=0 -count=1 -timeout 85m $$($(GO) list ./... | grep -v /e2e) # SQLite's port to Go is not for checkptr

.PHONY: deps
deps: ## install what the tests need (Debian packages, as root)
	./tools/deps

.PHONY: lint
lint: ## vet, staticcheck, gofumpt, errcheck, errorlint, revive, prettier, and the OpenAPI document
	./tools/lint
	./tools/lint-openapi

.PHONY: fmt
fmt: ## format the code
	$(GO) run mvdan.cc/gofumpt@v0.9.2 -w .
	[ ! -d console/node_modules ] || ./tools/console-npm run --silent format

.PHONY: client
client: ## generate the Go client from the route table
	./tools/client

.PHONY: docs
docs: ## generate docs/cli.md and docs/settings.md from the commands and their settings
	$(GO) run ./cmd/steward docs markdown > docs/cli.md.tmp
	mv docs/cli.md.tmp docs/cli.md
	$(GO) run ./cmd/steward docs settings > docs/settings.md.tmp
	mv docs/settings.md.tmp docs/settings.md

.PHONY: console
console: ## build the web console into internal/console/dist (needs Node.js)
	./tools/console

.PHONY: screenshots
screenshots: deps ## take the pictures in docs/images again
	STEWARD_TEST_SCREENSHOTS=1 $(GO) test -count=1 ./e2e/long/console ./e2e/long/pages -run PagesAreAccessible

.PHONY: faults
faults: SHELL = bash
faults: .SHELLFLAGS = -o pipefail -c
faults: deps ## break installations under load, and compare what is stored with what was acknowledged
	STEWARD_TEST_FAULTS=50 $(GO) test -count=1 -timeout 60m ./e2e/long/faults -v -run "$(or $(ONLY),.)" | grep -v -E "^ *(=== |PASS|ok )"

.PHONY: redis-suite
redis-suite: ## run the test suite of Redis (REDIS_SRC=dir, UNITS="type/string multi") against internal/redis; needs tclsh
	./tools/redis-suite "$(REDIS_SRC)" $(UNITS)

.PHONY: s3-suite
s3-suite: ## run Ceph's S3 tests (S3TESTS_SRC=dir, TESTS="s3tests/functional/test_s3.py -k multipart"); needs python3-pytest and others
	./tools/s3-suite "$(S3TESTS_SRC)" $(TESTS)

.PHONY: redis-differential
redis-differential: deps ## compare key-value stores with redis-server: CHECKS=100000 sequences of each group of commands, or of GROUP=TestStreams
	$(GO) test -count=1 -timeout 0 ./internal/redis -v -run '^($(or $(GROUP),$(redis-groups)))$$' -rapid.checks=$(or $(CHECKS),100000) -rapid.nofailfile

.PHONY: bench
bench: SHELL = bash
bench: .SHELLFLAGS = -o pipefail -c
bench: deps ## run the benchmarks, or those that match ONLY=TestWebhookIngest/sqlite; results are in BENCHMARKS.md
	STEWARD_TEST_FSYNC=1 $(GO) test -tags bench -count=1 -timeout $(or $(TIMEOUT),90m) ./bench -v -run "$(or $(ONLY),.)" $(if $(ONLY),,-skip TestAB) | grep -v -E "^ *(=== |--- PASS|PASS|ok )"

.PHONY: bench-ab
bench-ab: export ONLY = TestAB
bench-ab: ## compare this tree with another commit (BENCH_AB_BASE=731fc75), alternating within one run
	$(MAKE) bench

.PHONY: bench-large
bench-large: export BENCH_ROWS = 5000000
bench-large: export BENCH_OBJECTS = 10000000
bench-large: export BENCH_EVENTS = 1000000
bench-large: export ONLY = Lists|TestTailLog
bench-large: export TIMEOUT = 6h
bench-large: ## run the benchmarks of lists with five million rows and ten million objects, and a tail of a million events
	$(MAKE) bench

.PHONY: release
release: ## write a release into dist/: archives, packages, files of the image, bills of materials, checksums
	VERSION="$(VERSION)" ./tools/release

.PHONY: clean
clean: ## remove build results
	rm -rf bin dist e2e/artifacts
