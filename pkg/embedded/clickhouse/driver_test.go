//go:build integration

package clickhouse_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/shopspring/decimal"

	"github.com/weir-project/weir/pkg/embedded/part"
	"github.com/weir-project/weir/pkg/testkit"
)

const manyTypes = `CREATE TABLE t (
	id String, at DateTime64(3, 'UTC'), tenant LowCardinality(String), cost Nullable(Decimal(38, 18)),
	meters Map(String, Int64), costs Map(String, Decimal(38, 18)), flags Array(String), depth UInt16, when DateTime('UTC')
) ENGINE = MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 1000`

type row struct {
	ID     string                     `ch:"id"`
	At     time.Time                  `ch:"at"`
	Tenant string                     `ch:"tenant"`
	Cost   *decimal.Decimal           `ch:"cost"`
	Meters map[string]int64           `ch:"meters"`
	Costs  map[string]decimal.Decimal `ch:"costs"`
	Flags  []string                   `ch:"flags"`
	Depth  uint16                     `ch:"depth"`
	When   time.Time                  `ch:"when"`
}

func sample(i int) row {
	cost := decimal.RequireFromString("12345678901234567890.123456789012345678")
	r := row{
		ID: fmt.Sprintf("id-%05d", i), At: time.Date(2026, 11, 30, 23, 59, 59, int(time.Millisecond)*(i%1000), time.UTC), Tenant: "acme",
		Cost: &cost, Meters: map[string]int64{"input_tokens": int64(i)}, Costs: map[string]decimal.Decimal{"input_tokens": decimal.RequireFromString("-0.000000000000000001")},
		Flags: []string{"estimated", "it's \"quoted\""}, Depth: 3, When: time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC),
	}
	if i%2 == 1 {
		r.Cost, r.Flags = nil, nil
	}
	return r
}

func options(t *testing.T, address string) *ch.Options {
	t.Helper()
	o, err := ch.ParseDSN(address)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func insert(ctx context.Context, o *ch.Options, token string, from, to int) error {
	conn, err := ch.Open(o)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx = ch.Context(ctx, ch.WithSettings(ch.Settings{"insert_deduplication_token": token, "async_insert": 0, "insert_deduplicate": 1}))
	b, err := conn.PrepareBatch(ctx, "INSERT INTO t (id, at, tenant, cost, meters, costs, flags, depth, when)")
	if err != nil {
		return err
	}
	for i := from; i < to; i++ {
		r := sample(i)
		if err := b.AppendStruct(&r); err != nil {
			return err
		}
	}
	return b.Send()
}

func query(t *testing.T, address, sql string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	got, err := testkit.QueryClickHouse(ctx, address, sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return strings.TrimSpace(got)
}

func TestTheDriverReadsWhatItWrote(t *testing.T) {
	address := testkit.ClickHouse(t)
	query(t, address, manyTypes)
	ctx, o := context.Background(), options(t, address)
	for range 2 { // the second has the same token
		if err := insert(ctx, o, "topic|0|0|100", 0, 100); err != nil {
			t.Fatal(err)
		}
	}
	conn, err := ch.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var rows []row
	if err := conn.Select(ctx, &rows, "SELECT * FROM t ORDER BY id"); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 100 {
		t.Fatalf("%d rows, want 100: a repeated token must add nothing", len(rows))
	}
	for i, got := range rows {
		want := sample(i)
		if (got.Cost == nil) != (want.Cost == nil) || got.Cost != nil && !got.Cost.Equal(*want.Cost) {
			t.Errorf("row %d: cost %v, want %v", i, got.Cost, want.Cost)
		}
		if !got.At.Equal(want.At) || !got.When.Equal(want.When) || got.Tenant != want.Tenant || got.Depth != want.Depth ||
			got.Meters["input_tokens"] != int64(i) || !got.Costs["input_tokens"].Equal(want.Costs["input_tokens"]) || strings.Join(got.Flags, "|") != strings.Join(want.Flags, "|") {
			t.Errorf("row %d: %+v, want %+v", i, got, want)
		}
	}
	db := ch.OpenDB(o)
	defer db.Close()
	var total decimal.Decimal
	var count int
	if err := db.QueryRowContext(ctx, "SELECT count(), sum(assumeNotNull(costs['input_tokens'])) FROM t WHERE tenant = ?", "acme").Scan(&count, &total); err != nil {
		t.Fatal(err)
	}
	if count != 100 || total.String() != "-0.0000000000000001" {
		t.Errorf("database/sql: %d rows, %s", count, total)
	}
	if got := query(t, address+"?param_x=7", "SELECT {x:UInt8} FORMAT JSONCompactEachRow"); got != "[7]" {
		t.Errorf("query parameter: %s", got)
	}
}

// TestAKillLosesNoAcknowledgedInsert kills the process while batches go in, three times, and repeats at every start what
// was not acknowledged, with the same tokens.
func TestAKillLosesNoAcknowledgedInsert(t *testing.T) {
	const kills, before, size = 3, 10, 50
	config := part.Config{Dir: t.TempDir()}
	p := testkit.ClickHouseServer(t, config)
	query(t, p.Address, manyTypes)
	next := 0
	put := func(o *ch.Options) error {
		err := insert(t.Context(), o, fmt.Sprintf("b%d", next), next*size, (next+1)*size)
		if err == nil {
			next++
		}
		return err
	}
	for round := range kills {
		enough, killed := make(chan struct{}), make(chan error, 1)
		go func() {
			<-enough
			killed <- p.Kill()
		}()
		o := options(t, p.Address)
		for n := 0; put(o) == nil; n++ { // until one fails, which is repeated after the restart: its rows may be there
			if n+1 == before {
				close(enough)
			}
		}
		select {
		case <-enough:
		default:
			t.Fatalf("round %d: an insert failed before the kill", round)
		}
		if err := <-killed; err != nil {
			t.Fatal(err)
		}
		p = testkit.ClickHouseServer(t, config)
		if got := query(t, p.Address, fmt.Sprintf("SELECT count() >= %d FROM t", next*size)); got != "1" {
			t.Fatalf("round %d: %d batches were acknowledged, %s rows are there", round, next, query(t, p.Address, "SELECT count() FROM t"))
		}
	}
	for range before {
		if err := put(options(t, p.Address)); err != nil {
			t.Fatal(err)
		}
	}
	if got := query(t, p.Address, "SELECT count(), uniqExact(id) FROM t"); got != fmt.Sprintf("%d\t%d", next*size, next*size) {
		t.Errorf("rows and ids: %s, want %d of each", got, next*size)
	}
}

func TestFinanceOnlyReads(t *testing.T) {
	address := testkit.ClickHouse(t)
	query(t, address, manyTypes)
	finance := strings.Replace(address, "default@", "finance:"+testkit.FinancePassword+"@", 1)
	for _, sql := range []string{"SELECT count() FROM t", "WITH 1 AS x SELECT x", "SHOW TABLES", "DESCRIBE TABLE t", "EXPLAIN SELECT 1", "SELECT sum(number) FROM numbers(3)"} {
		query(t, finance, sql)
	}
	for _, sql := range []string{
		"INSERT INTO t (id) VALUES ('x')", "DROP TABLE t", "SET readonly = 0", "SELECT 1 SETTINGS readonly = 0", "SELECT 1; DROP TABLE t",
		"SELECT file('/etc/hostname')", "SELECT `file`('/etc/hostname')", "SELECT * FROM file('/etc/passwd', 'LineAsString')",
		"SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')", "SELECT * FROM '/etc/passwd'", `SELECT * FROM "lock"`,
		"SELECT 1 INTO OUTFILE '/tmp/weir-finance'", "SELECT 1 /* */ INTO/**/OUTFILE '/tmp/weir-finance'", "KILL QUERY WHERE 1",
		"CREATE TABLE u (a Int32) ENGINE = Memory", "ALTER TABLE t DELETE WHERE 1", "SYSTEM STOP MERGES", "EXPLAIN SELECT file('/etc/hostname')",
	} {
		if got, err := testkit.QueryClickHouse(context.Background(), finance, sql); err == nil {
			t.Errorf("finance ran %s: %q", sql, got)
		}
	}
	if got, err := testkit.QueryClickHouse(context.Background(), finance+"?max_threads=1", "SELECT 1"); err == nil {
		t.Errorf("finance changed a setting: %q", got)
	}
	wrong := strings.Replace(address, "default@", "finance:guess@", 1)
	if _, err := testkit.QueryClickHouse(context.Background(), wrong, "SELECT 1"); err == nil || !strings.Contains(err.Error(), "Code: 516") {
		t.Errorf("a wrong password: %v", err)
	}
	conn, err := ch.Open(options(t, finance))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Ping(context.Background()); err != nil {
		t.Errorf("the driver as finance: %v", err)
	}
	if err := conn.Exec(context.Background(), "DROP TABLE t"); err == nil {
		t.Error("finance dropped a table by the driver")
	}
}

// Goal: no query of finance keeps the others waiting for long, whatever it asks for.
func TestFinanceIsLimited(t *testing.T) {
	address := testkit.ClickHouse(t)
	finance := strings.Replace(address, "default@", "finance:"+testkit.FinancePassword+"@", 1)
	const limits = "SELECT value FROM system.settings WHERE name IN ('max_execution_time', 'max_memory_usage') ORDER BY name"
	for asked, want := range map[string]string{"": "20", "0": "20", "600": "20", "nan": "20", "-1": "20", "5": "5"} {
		got, err := testkit.QueryClickHouse(context.Background(), finance+"?max_execution_time="+asked, limits)
		if err != nil || strings.Join(strings.Fields(got), " ") != want+" 1073741824" {
			t.Errorf("asked for %q: %q, %v", asked, got, err)
		}
	}
	for url, sql := range map[string]string{
		finance + "?max_execution_time=1": "SELECT count() FROM numbers(40000000000) WHERE number % 7 = 3", // else for minutes
		finance:                           "SELECT 1 SETTINGS max_execution_time = 0",
		finance + "?max_memory_usage=0":   "SELECT 1",
	} {
		if got, err := testkit.QueryClickHouse(context.Background(), url, sql); err == nil {
			t.Errorf("%s gives %q", sql, got)
		}
	}
}

func TestAReadEndsWithItsClient(t *testing.T) {
	address := testkit.ClickHouse(t)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if _, err := testkit.QueryClickHouse(ctx, address, "SELECT sum(cityHash64(number)) FROM numbers(1000000000000)"); err == nil {
		t.Fatal("it came to an end")
	}
	query(t, address, "SELECT 1") // has a deadline, long before the first would have ended
}

func TestTheQueueIsBounded(t *testing.T) {
	p := testkit.ClickHouseServer(t, part.Config{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var running sync.WaitGroup
	refused := make(chan error, 200)
	for range 150 {
		running.Go(func() {
			_, err := testkit.QueryClickHouse(ctx, p.Address, "SELECT sum(cityHash64(number)) FROM numbers(1000000000000)")
			if err != nil && ctx.Err() == nil {
				refused <- err
			}
		})
	}
	select {
	case err := <-refused:
		if !strings.Contains(err.Error(), "status 429") || !strings.Contains(err.Error(), "Code: 202") {
			t.Errorf("refused with %v", err)
		}
	case <-time.After(2 * time.Minute):
		t.Error("150 queries at once, and none was refused")
	}
	cancel()
	running.Wait()
}

func TestErrorsAndRefusals(t *testing.T) {
	p := testkit.ClickHouseServer(t, part.Config{})
	for _, c := range []struct {
		name, method, path, body, header string
		status                           int
		code                             string
	}{
		{"unknown table", "POST", "/", "SELECT * FROM nope", "", 404, "60"},
		{"syntax", "POST", "/", "SELEC 1", "", 400, "62"},
		{"a write by GET", "GET", "/?query=CREATE%20DATABASE%20x", "", "", 403, "164"},
		{"compressed body", "POST", "/", "x", "lz4", 501, "48"},
		{"compressed answer", "POST", "/?compress=1", "SELECT 1", "", 501, "48"},
		{"unknown setting", "POST", "/?nosuch=1", "SELECT 1", "", 404, ""},
		{"a setting with a bad name", "POST", "/?a%3Bb=1", "SELECT 1", "", 400, "115"},
		{"no query", "POST", "/", "", "", 400, "62"},
		{"two statements", "POST", "/", "SELECT 1; SELECT 2", "", 400, "62"},
	} {
		req, err := http.NewRequest(c.method, p.Address+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if c.header != "" {
			req.Header.Set("Content-Encoding", c.header)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if code := resp.Header.Get("X-ClickHouse-Exception-Code"); resp.StatusCode != c.status && c.code != "" || code != c.code && c.code != "" || code == "" {
			t.Errorf("%s: status %d, code %s; want %d, %s", c.name, resp.StatusCode, code, c.status, c.code)
		}
	}
	query(t, p.Address, "SET max_threads = 1") // no effect, no error
	query(t, p.Address, "CREATE DATABASE d")
	query(t, p.Address, "CREATE TABLE d.t (a Int32) ENGINE = MergeTree ORDER BY a")
	for _, sql := range []string{
		"INSERT INTO d.t VALUES (1), (2)", "INSERT INTO d.t FORMAT JSONEachRow\n{\"a\": 3}\n\n{\"a\": 4}\n", "INSERT INTO d.t SETTINGS async_insert = 0 FORMAT CSV\n5\n",
		"INSERT INTO d.t SELECT 6", "INSERT INTO d.t FORMAT Native\n",
	} {
		query(t, p.Address, sql)
	}
	if got := query(t, p.Address, "SELECT groupArray(a) FROM (SELECT a FROM d.t ORDER BY a) FORMAT TabSeparated"); got != "[1,2,3,4,5,6]" {
		t.Errorf("rows %s", got)
	}
	query(t, p.Address, "DROP DATABASE d SYNC")
}
