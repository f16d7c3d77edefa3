package main

import (
	"embed"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/migrations"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/outbox"
)

// printInit writes what an administrator runs. Kafka's own command-line tools are the lingua franca for topics and
// ACLs; the roles of the SQL have no password, which is the administrator's to set.
func printInit(out io.Writer, replication int) error {
	w := &script{out: out}
	w.line("# Kafka: topics")
	for _, t := range topics.All {
		w.line("kafka-topics.sh --bootstrap-server \"$BROKERS\" --create --if-not-exists --topic %s --partitions %d --replication-factor %d%s",
			t.Name(), t.Partitions(), replication, configArgs(bus.TopicConfigs(t)))
	}
	w.line("\n# Kafka: ACLs, least rights per service; an own producer needs Write + Describe on %s", topics.UsageEvents.Name())
	for _, a := range topics.Accesses {
		w.acls(a)
	}
	w.line("\n-- Postgres: run with psql as the owner of the database")
	w.migrations(migrations.Postgres)
	w.line(strings.TrimSpace(postgresGrants))
	for _, grant := range append(outbox.WriterGrants("weir_admission"), outbox.RelayGrants("weir_outbox_relay")...) {
		w.line("%s;", grant)
	}
	w.line("\n-- ClickHouse: run with clickhouse-client --multiquery")
	w.line("CREATE DATABASE IF NOT EXISTS weir; USE weir;")
	w.migrations(migrations.ClickHouse)
	w.line(strings.TrimSpace(clickhouseGrants))
	w.line("\n# Redis: 7 or later, maxmemory-policy noeviction, appendonly yes (appendfsync always: no acknowledged hold is lost).")
	w.line("# Postgres and Redis get their common epoch by: weir init --postgres ADDRESS --redis ADDRESS")
	return w.err
}

// script writes lines and keeps the first error.
type script struct {
	out io.Writer
	err error
}

func (s *script) line(format string, args ...any) {
	if s.err == nil {
		_, s.err = fmt.Fprintf(s.out, format+"\n", args...)
	}
}

func configArgs(cfg map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(cfg)) {
		fmt.Fprintf(&b, " --config %s=%s", name, cfg[name])
	}
	return b.String()
}

func (s *script) acls(a topics.Access) {
	add := func(resource, name, operations string) {
		s.line("kafka-acls.sh --bootstrap-server \"$BROKERS\" --add --allow-principal %s --%s %s%s", a.Principal, resource, name, operations)
	}
	for _, t := range a.Reads {
		add("topic", t.Name(), " --operation Read --operation Describe")
	}
	for _, t := range a.Writes {
		add("topic", t.Name(), " --operation Write --operation Describe")
	}
	for _, g := range a.Groups {
		add("group", g, " --operation Read --operation Describe")
	}
}

// migrations prints every .up.sql in order.
func (s *script) migrations(files embed.FS) {
	if s.err != nil {
		return
	}
	s.err = fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".up.sql") {
			return err
		}
		b, err := files.ReadFile(path)
		if err != nil {
			return err
		}
		s.line("-- %s\n%s", path, strings.TrimSpace(string(b)))
		return s.err
	})
}

// postgresGrants are admission's least rights on its own tables; those on the outbox are pkg/outbox's to say.
const postgresGrants = `
CREATE ROLE weir_admission LOGIN;
CREATE ROLE weir_outbox_relay LOGIN;
GRANT SELECT, INSERT, UPDATE, DELETE ON reservations, executions, tenant_states, admission_replicas TO weir_admission;
GRANT SELECT, INSERT, UPDATE ON redis_epoch TO weir_admission;
`

// clickhouseGrants are the least rights of the two sinks and of finance.
const clickhouseGrants = `
CREATE USER IF NOT EXISTS weir_cost_attributor;
GRANT SELECT, INSERT ON weir.agent_cost_ledger TO weir_cost_attributor;
CREATE USER IF NOT EXISTS weir_budget_aggregator;
GRANT SELECT, INSERT ON weir.budget_windows TO weir_budget_aggregator;
GRANT SELECT ON system.tables TO weir_cost_attributor, weir_budget_aggregator;
CREATE USER IF NOT EXISTS finance SETTINGS readonly = 1, max_execution_time = 20, max_memory_usage = 1073741824;
GRANT SELECT ON weir.* TO finance;
`
