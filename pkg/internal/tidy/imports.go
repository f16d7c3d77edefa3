package tidy

import (
	"path"
	"slices"
	"strings"
)

// importBan says who must not import what, and why. Ours are written without the module prefix ("pkg/bus"), others by
// import path; a target covers everything below it.
type importBan struct {
	// folders are where the rule holds; empty means everywhere.
	folders []string
	// except may import it all the same. Tests may too, unless tests is set.
	except []string
	tests  bool
	target string
	reason string
}

// importBans is the table. A driver has owners, so that changing it, or its settings, is a change in one place.
func importBans() []importBan {
	services := []string{"services"}
	return []importBan{
		// Drivers and their owners.
		{except: []string{"pkg/bus", "pkg/embedded", "pkg/testkit"}, target: "github.com/twmb/franz-go", reason: "the Kafka client belongs to pkg/bus: use its Producer, Consumer, readers"},
		{except: []string{"pkg/embedded", "pkg/testkit"}, target: "github.com/twmb/franz-go/pkg/kfake", reason: "nothing outside the embedded parts and test kits knows of kfake"},
		{except: []string{"pkg/outbox", "pkg/pgstore", "pkg/migrate", "pkg/instance", "pkg/embedded", "pkg/testkit", "pkg/httpbench"}, target: "github.com/jackc/pgx", reason: "Postgres belongs to pkg/outbox, pkg/pgstore and pkg/migrate (pkg/instance opens it for `weir init`)"},
		{except: []string{"pkg/budgetstore", "pkg/storebench", "pkg/httpbench", "pkg/testkit"}, target: "github.com/redis/go-redis", reason: "Redis belongs to pkg/budgetstore: its scripts are the only writers"},
		{except: []string{"pkg/clickhouse"}, target: "github.com/ClickHouse/clickhouse-go", reason: "ClickHouse belongs to pkg/clickhouse"},
		{except: []string{"pkg/embedded"}, target: "github.com/ebitengine/purego", reason: "only the embedded engine loads a shared library"},
		{except: []string{"pkg/domain/money"}, target: "github.com/shopspring/decimal", reason: "one package owns decimals and the rounding rule: pkg/domain/money"},
		{except: []string{"pkg/identity"}, target: "github.com/golang-jwt/jwt", reason: "tokens are verified in pkg/identity alone"},
		{except: []string{"pkg/identity"}, target: "github.com/MicahParks/jwkset", reason: "tokens are verified in pkg/identity alone"},
		{except: []string{"pkg/cmd", "loadtest"}, target: "github.com/spf13/cobra", reason: "services take plain flags through pkg/config"},

		// Layers.
		{folders: []string{"pkg/domain"}, target: "pkg/gen", tests: true, reason: "the domain knows no wire format"},
		{folders: []string{"pkg/gen"}, target: "pkg/domain", reason: "generated code is data, not decisions"},
		{folders: []string{"pkg/bus"}, target: "pkg/domain", tests: true, reason: "the loop carries bytes; meaning is the handler's"},
		{folders: []string{"pkg/lifecycle", "pkg/config", "pkg/obs", "pkg/service"}, target: "pkg/domain", tests: true, reason: "plumbing knows no business"},
		{folders: []string{"pkg/lifecycle", "pkg/config"}, target: "pkg/bus", tests: true, reason: "every process uses it, also one without Kafka"},
		{folders: []string{"pkg/outbox", "pkg/budgetstore", "pkg/pgstore", "pkg/migrate"}, target: "pkg/bus", reason: "a store does not talk to Kafka"},
		{folders: []string{"pkg"}, target: "services", tests: true, reason: "libraries do not know who uses them"},
		{folders: []string{"pkg", "services"}, target: "loadtest", tests: true, reason: "nobody imports the load tests"},
		{folders: services, target: "pkg/testkit", reason: "test kits are for tests"},
		{folders: services, target: "pkg/embedded", reason: "a service never knows whether a part is embedded"},
		{folders: services, target: "pkg/instance", reason: "a service never knows how it was started"},
		{except: []string{"pkg/cmd/weir", "pkg/instance", "pkg/embedded", "pkg/testkit", "pkg/httpbench", "loadtest"}, target: "pkg/embedded", reason: "a service never knows whether a part is embedded"},

		// The auditor recomputes on its own: sharing the code it checks would hide that code's faults.
		{folders: []string{"pkg/audit"}, target: "pkg/domain/pricing", tests: true, reason: "the auditor must not check pricing with pricing"},
		{folders: []string{"pkg/audit"}, target: "pkg/domain/window", tests: true, reason: "the auditor must not check windows with the window code"},
		{folders: []string{"pkg/audit"}, target: "pkg/domain/ledger", tests: true, reason: "the auditor must not check the ledger with the ledger code"},
		{folders: []string{"pkg/audit"}, target: "services", tests: true, reason: "the auditor must not share a service's code"},
	}
}

func checkImports(f goFile) []finding {
	var found []finding
	for imported, position := range f.imports() {
		name := strings.TrimPrefix(imported, module)
		for _, ban := range importBans() {
			if !under(name, ban.target) && !strings.HasPrefix(name, ban.target+"-") {
				continue
			}
			if len(ban.folders) > 0 && !underAny(f.path, ban.folders) || underAny(f.path, ban.except) || f.isTest() && !ban.tests {
				continue
			}
			found = append(found, f.at(position, "imports %s: %s", name, ban.reason))
		}
		// A test may run the services beside its own in its process; they still speak over topics.
		if from, to := serviceOf(f.path), serviceOf(name); from != "" && to != "" && from != to && !f.isTest() {
			found = append(found, f.at(position, "imports %s: services speak over topics only, never by import", name))
		}
	}
	return found
}

// serviceOf is the service that a path belongs to, "" for none.
func serviceOf(name string) string {
	rest, ours := strings.CutPrefix(name, "services/")
	if !ours {
		return ""
	}
	service, _, _ := strings.Cut(rest, "/")
	return service
}

// domainRank orders the pure packages: each may import only those of a lower rank.
func domainRank() map[string]int {
	return map[string]int{
		"money": 0, "plainjson": 0, "recovery": 0, "usage": 1, "window": 2, "pricing": 2, "lineage": 2, "ladder": 2, "tenant": 3,
		"ledger": 4, "breaker": 4, "admit": 5,
	}
}

// impureStd is what a pure decision cannot need: I/O, clocks, randomness, concurrency, process state.
func impureStd() []string {
	return []string{"context", "net", "os", "log", "sync", "math/rand", "crypto/rand", "runtime", "syscall", "database", "io/fs", "testing", "unsafe", "flag"}
}

// checkDomainOrder holds pkg/domain to the standard library, money's decimals and lower domain packages. Tests may use
// more, but not packages of a higher rank.
func checkDomainOrder(f goFile) []finding {
	if !under(f.path, "pkg/domain") {
		return nil
	}
	concept := strings.Split(f.path, "/")[2]
	rank, declared := domainRank()[concept]
	if !declared {
		return []finding{{f.path, 0, "pkg/domain/" + concept + " has no rank: add it to domainRank with what it may import"}}
	}
	var found []finding
	for imported, position := range f.imports() {
		name := strings.TrimPrefix(imported, module)
		switch {
		case under(name, "pkg/domain"):
			other := path.Base(name)
			if other != concept && domainRank()[other] >= rank {
				found = append(found, f.at(position, "%s imports %s: the order is money, plainjson, usage, window|pricing|lineage|ladder, tenant, ledger|breaker, admit", concept, other))
			}
		case f.isTest():
		case underAny(imported, impureStd()):
			found = append(found, f.at(position, "imports %s: the domain is pure; what it needs enters as a value", imported))
		case strings.Contains(strings.Split(imported, "/")[0], ".") && imported != "github.com/shopspring/decimal":
			found = append(found, f.at(position, "imports %s: the domain uses the standard library and money only", imported))
		}
	}
	return found
}

// linkBan is a package that a binary must not link, however indirectly.
type linkBan struct {
	service string
	targets []string
	reason  string
}

// linkBans holds what each service must not carry; each gets what all must not.
func linkBans() []linkBan {
	const (
		kfake      = "github.com/twmb/franz-go/pkg/kfake"
		pgx        = "github.com/jackc/pgx/v5"
		redis      = "github.com/redis/go-redis/v9"
		clickhouse = "github.com/ClickHouse/clickhouse-go/v2"
	)
	bans := []linkBan{
		{"admission", []string{clickhouse}, "admission decides from Redis and Postgres; ClickHouse is for reading history"},
		{"outbox-relay", []string{redis, clickhouse}, "the relay moves rows from Postgres to Kafka and knows nothing else"},
		{"cost-attributor", []string{redis, pgx}, "the attributor's state is the journal"},
		{"budget-aggregator", []string{redis, pgx}, "the aggregator's state is its own topic"},
		{"breaker", []string{redis, pgx, clickhouse}, "the breaker derives everything from topics"},
	}
	for i := range bans {
		bans[i].targets = append(bans[i].targets, kfake, "github.com/ebitengine/purego", "github.com/spf13/cobra", "testing", module+"pkg/embedded", module+"pkg/instance", module+"pkg/testkit")
	}
	return bans
}

// checkLinks compares what a service's binary links (import paths) with its bans.
func checkLinks(service string, linked []string) []finding {
	var found []finding
	for _, ban := range linkBans() {
		if ban.service != service {
			continue
		}
		for _, target := range ban.targets {
			if slices.ContainsFunc(linked, func(name string) bool { return under(name, target) }) {
				found = append(found, finding{"services/" + service, 0, "links " + target + ": " + ban.reason +
					" (see `go list -deps`, and deps.txt for the diff)"})
			}
		}
	}
	return found
}
