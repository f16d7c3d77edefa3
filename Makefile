SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
.NOTPARALLEL:

SERVICES := admission outbox-relay cost-attributor budget-aggregator breaker
MODULES  := pkg services loadtest
# -buildvcs=false: the same bytes from a clone, an archive or a dirty tree.
BUILD := go build -trimpath -buildvcs=false
# Extra flags for every `go test`, e.g. TESTFLAGS='-run TestSettle -v'.
TESTFLAGS ?=
BENCH     ?= .
FUZZTIME  ?= 10s
# For `make run`: ONCE=1 ends after the audit, KAFKA=apache starts a real broker.
ONCE  ?=
KAFKA ?=

.PHONY: help
help: ## This list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | awk -F'\t' '{printf "  %-18s %s\n", $$1, $$2}'

.PHONY: need-go
need-go:
	@version=$$(GOTOOLCHAIN=local go env GOVERSION 2>/dev/null) || { echo "weir needs Go 1.26 or newer on PATH; there is none: see https://go.dev/dl" >&2; exit 1; }; \
	minor=$$(sed -E 's/^[^0-9]*1\.([0-9]+).*/\1/' <<<"$$version"); \
	[[ "$$minor" =~ ^[0-9]+$$ && "$$minor" -ge 26 ]] || { echo "weir needs Go 1.26 or newer; this is $$version: see https://go.dev/dl" >&2; exit 1; }

.PHONY: build
build: need-go ## Build weir and the five services into bin/
	@mkdir -p bin
	$(BUILD) -o bin/ ./pkg/cmd/weir $(foreach s,$(SERVICES),./services/$(s)/cmd/$(s))

.PHONY: run
run: build ## Set up, start everything, play real traffic, show the bill (ONCE=1 ends by itself, KAFKA=apache)
	@$(BUILD) -o bin/weir-demo ./loadtest/cmd/weir-demo
	@exec bin/weir-demo $(if $(filter-out 0,$(ONCE)),--once) $(if $(KAFKA),--kafka $(KAFKA))

.PHONY: test
test: test-fast test-integration ## Every test: first those without servers, then against the real parts (installs what they lack)

.PHONY: test-fast
test-fast: need-go ## Tests that need no server (unit, property, golden, fuzz seeds)
	@# The go command caches by files of the module alone; these two read the whole repository.
	go test -count=1 ./pkg/internal/...
	go test $(TESTFLAGS) work

.PHONY: test-integration
test-integration: build ## Tests against real Redis, Postgres, ClickHouse engine, kfake and Apache Kafka
	bin/weir part install --apache-kafka
	@# Two packages side by side, as they mostly wait; those that take longest begin. The others have no such test.
	WEIR_TEST_BIN=$(CURDIR)/bin go test -tags integration -p 2 -timeout 45m $(TESTFLAGS) $$( \
	  { printf '%s\n' loadtest/e2e services/admission pkg/cmd/weir; \
	    grep -rlE '^//go:build integration' --include='*_test.go' $(MODULES) | xargs -n1 dirname | sort; } | awk '!seen[$$0]++ { print "./" $$0 }')

.PHONY: e2e
e2e: build ## Only the end-to-end tests
	bin/weir part install --apache-kafka
	WEIR_TEST_BIN=$(CURDIR)/bin go test -tags integration -timeout 45m $(TESTFLAGS) ./loadtest/...

.PHONY: lint
lint: need-go lint-format lint-vet lint-static lint-tidy check-gen check-mods ## gofmt, vet, staticcheck, style and import rules, generated files, modules

.PHONY: lint-format
lint-format:
	@echo "gofmt"; unformatted=$$(gofmt -l $(MODULES)); \
	[[ -z "$$unformatted" ]] || { printf 'not formatted, run `make fmt`:\n%s\n' "$$unformatted" >&2; exit 1; }

.PHONY: lint-vet
lint-vet: # no file is left out by the tag, so once is all
	go vet -tags integration work

.PHONY: lint-static
lint-static:
	@echo "staticcheck"; tool=$$(cd .ci/tools && GOWORK=off go tool -n staticcheck); "$$tool" -tags integration work

.PHONY: lint-tidy
lint-tidy:
	go test -count=1 ./pkg/internal/tidy

.PHONY: fmt
fmt: need-go ## Format the Go code
	gofmt -w $(MODULES)

.PHONY: gen
gen: need-go ## Regenerate what topics/, schemas/, migrations/ and the API repeat (GENFLAGS=-no-proto skips buf)
	@go run ./pkg/cmd/contractgen $(GENFLAGS)
	@go run ./services/admission/cmd/reference

.PHONY: check-gen
check-gen: need-go ## Are the generated files current?
	@go run ./pkg/cmd/contractgen -check
	@go run ./services/admission/cmd/reference -check

.PHONY: check-mods
check-mods: need-go ## Is each module tidy, and does it build without the workspace?
	@for module in $(MODULES); do \
	  echo "check-mods $$module"; \
	  (cd $$module && GOWORK=off go mod tidy -diff) || { echo "$$module/go.mod is not tidy: run \`cd $$module && GOWORK=off go mod tidy\`" >&2; exit 1; }; \
	  (cd $$module && GOWORK=off go build ./...); \
	done

.PHONY: bench
bench: need-go ## Benchmarks (BENCH=regexp)
	go test -run '^$$' -bench '$(BENCH)' -benchmem $(TESTFLAGS) work

.PHONY: bench-admission
bench-admission: need-go ## Admission next to its references in one run, a JSON line per figure
	@$(BUILD) -o bin/ ./loadtest/cmd/bench-admission ./services/admission/cmd/admission
	@bin/bench-admission

.PHONY: fuzz
fuzz: need-go ## Every fuzz target for FUZZTIME (10s)
	@grep -rlE '^func Fuzz' --include='*_test.go' $(MODULES) | while read -r file; do \
	  sed -nE 's/^func (Fuzz[A-Za-z0-9_]+)\(.*/\1/p' "$$file" | while read -r target; do \
	    echo "fuzz $$target ($$(dirname "$$file"))"; \
	    go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "./$$(dirname "$$file")" </dev/null; \
	  done; done

.PHONY: clean
clean: ## Remove what was built (data under .weir/ stays)
	rm -rf bin
