package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/catalog"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/pricing/litellm"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/tenantsfile"
)

const oneTenant = `{id: acme, limits: {concurrency: 1}, ceilings: {minute_usd: 1, day_usd: 1, month_usd: 1}}`

func parseTenants(t *testing.T, text string) tenantsfile.File {
	t.Helper()
	f, err := tenantsfile.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// A first contract holds from the beginning, a change from now, and what did not change is not written.
func TestPlanTenants(t *testing.T) {
	current := catalog.NewTenants(func(_, key string, err error) { t.Error(key, err) })
	plan := func(text string, prune bool, now time.Time) string {
		t.Helper()
		changes, records, err := planTenants(parseTenants(t, text), current, prune, now)
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, c := range changes {
			said = append(said, c.ID+" "+c.Change)
		}
		for _, r := range records {
			if r.Partition != bus.PartitionFor(r.Key, topics.CatalogTenants.Partitions()) {
				t.Errorf("%s in partition %d", r.Key, r.Partition)
			}
			if err := current.Apply(r); err != nil {
				t.Fatal(err)
			}
		}
		return strings.Join(said, ", ")
	}
	beta := strings.Replace(oneTenant, "acme", "beta", 1)
	day := func(n int) time.Time { return time.Date(2026, 3, n, 12, 0, 0, 0, time.UTC) }
	for _, step := range []struct {
		text  string
		prune bool
		now   time.Time
		want  string
	}{
		{"tenants: [" + oneTenant + "," + beta + "]", false, day(1), "acme created, beta created"},
		{"tenants: [" + oneTenant + "]", false, day(2), "acme unchanged"},
		{"tenants: [" + strings.Replace(oneTenant, "day_usd: 1", "day_usd: 2", 1) + "]", false, day(3), "acme changed"},
		{"tenants: [" + strings.Replace(oneTenant, "day_usd: 1", "day_usd: 2", 1) + "]", true, day(4), "acme unchanged, beta removed"},
		{"tenants: [" + strings.Replace(oneTenant, "day_usd: 1", "day_usd: 2", 1) + "]", true, day(5), "acme unchanged"},
		{"tenants: [" + beta + "]", false, day(6), "beta changed"}, // it comes back
	} {
		if got := plan(step.text, step.prune, step.now); got != step.want {
			t.Errorf("on %s: %q, want %q", step.now.Format(time.DateOnly), got, step.want)
		}
	}
	h, _ := current.History("acme")
	if len(h.Versions) != 2 || h.Versions[0].EffectiveFrom.Unix() != 0 || !h.Versions[1].EffectiveFrom.Equal(day(3)) {
		t.Errorf("acme: %+v", h.Versions)
	}
	if c, _ := current.At("beta", day(5)); !c.Removed {
		t.Error("beta is not removed on the 5th")
	}
	if c, _ := current.At("beta", day(7)); c.Removed {
		t.Error("beta is still removed on the 7th")
	}
}

// A clock that steps back must not put a contract before the one that was in force already.
func TestPlanTenantsRefusesThePast(t *testing.T) {
	current := catalog.NewTenants(nil)
	f := parseTenants(t, "tenants: ["+oneTenant+"]")
	c := f.Contracts["acme"]
	c.EffectiveFrom, c.SoftDay = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), false
	value, err := catalog.EncodeTenant(tenant.History{ID: "acme", Versions: []tenant.Contract{c}})
	if err != nil {
		t.Fatal(err)
	}
	if err := current.Apply(bus.Record{Topic: topics.CatalogTenants, Key: []byte("acme"), Value: value}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := planTenants(f, current, false, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)); exitCode(err) != exitUsage {
		t.Errorf("%v", err)
	}
}

// price is a price file of one model.
func price(input string) string {
	return `{"gpt-4o": {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": ` + input + `, "output_cost_per_token": 1e-05}}`
}

func loaded(t *testing.T, book *pricing.Book, text string, now time.Time) priceFile {
	t.Helper()
	rows, odd, err := litellm.Parse([]byte(text), "test")
	if err != nil {
		t.Fatal(err)
	}
	return priceFile{rows: rows, odd: odd, book: book, changes: pricing.Diff(book, rows, now)}
}

// A model's first price is in force from the beginning, later ones from now or from --effective-from.
func TestPriceRecords(t *testing.T) {
	first, second := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)
	prices := catalog.NewPrices(func(_, key string, err error) { t.Error(key, err) })
	publish := func(text string, effective, now time.Time) int {
		t.Helper()
		records, err := loaded(t, prices.Book(), text, now).records(effective, now)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			if err := prices.Apply(r); err != nil {
				t.Fatal(err)
			}
		}
		return len(records)
	}
	if n := publish(price("2.5e-06"), first, first); n != 1 {
		t.Errorf("%d records of the first import", n)
	}
	if n := publish(price("2.5e-06"), second, second); n != 0 {
		t.Errorf("%d records of the same again", n)
	}
	if n := publish(price("3e-06"), second, first.Add(time.Hour)); n != 1 {
		t.Errorf("%d records of a change", n)
	}
	h, _ := prices.Book().History("openai", "gpt-4o")
	if len(h.Versions) != 2 || h.Versions[0].EffectiveFrom.Unix() != 0 || !h.Versions[1].EffectiveFrom.Equal(second) || !h.Versions[0].PublishedAt.Equal(first) {
		t.Errorf("%+v", h.Versions)
	}
	if v, ok := h.At(second.Add(-time.Second)); !ok || v.ID != h.Versions[0].ID {
		t.Error("the old price does not hold until the new one begins")
	}
}

func TestTenantsOverTheBroker(t *testing.T) {
	broker(t)
	name := file(t, "t.yaml", "tenants: ["+oneTenant+"]")
	a := weir(t, "", "tenants", "apply", name, "--json")
	got := decodeJSON[struct{ Tenants []tenantChange }](t, a)
	if a.code != 0 || len(got.Tenants) != 1 || got.Tenants[0] != (tenantChange{"acme", "created"}) {
		t.Errorf("%+v", a)
	}
	if a := weir(t, "", "tenants", "apply", name); a.code != 0 || a.out != "acme unchanged\n" {
		t.Errorf("%+v", a)
	}
	if a := weir(t, "", "tenants", "show"); a.code != 0 || !strings.Contains(a.out, "acme") || !strings.Contains(a.out, "$1") {
		t.Errorf("%+v", a)
	}
	if a := weir(t, "", "tenants", "show", "nobody"); a.code != 1 || !strings.Contains(a.err, `no tenant "nobody"`) {
		t.Errorf("%+v", a)
	}
	if a := weir(t, "", "keys", "create", "--tenant", "nobody"); a.code != 1 || !strings.Contains(a.err, "weir tenants apply") {
		t.Errorf("%+v", a)
	}
	a = weir(t, "", "--json", "keys", "create", "--tenant", "acme", "--label", "ci")
	key := decodeJSON[struct {
		Key     string   `json:"key"`
		KeyID   string   `json:"key_id"`
		Tenants []string `json:"tenants"`
	}](t, a)
	if a.code != 0 || key.Key == "" || key.KeyID == "" || len(key.Tenants) != 1 {
		t.Errorf("%+v", a)
	}
	for range 2 { // revoking twice is revoking
		if a := weir(t, "", "keys", "revoke", key.KeyID); a.code != 0 || a.out != "revoked "+key.KeyID+"\n" {
			t.Errorf("%+v", a)
		}
	}
	if a := weir(t, "", "keys", "revoke", "k0"); a.code != 1 || !strings.Contains(a.err, `no key "k0"`) {
		t.Errorf("%+v", a)
	}
}

// Goal: files that are applied at the same time are applied one after the other. Method: as many files as there are tenants
// give each of them the same identity, which one may; and as many change one tenant, whose history has each change.
func TestTenantsAppliedAtTheSameTime(t *testing.T) {
	conn := broker(t)
	const files = 6
	apply := func(tenants ...string) (answers [files]answer) {
		t.Helper()
		var names [files]string
		for i := range files {
			names[i] = file(t, fmt.Sprintf("%d.yaml", i), "tenants: ["+tenants[i%len(tenants)]+"]")
		}
		var running sync.WaitGroup
		for i := range files {
			running.Go(func() { answers[i] = weir(t, "", "tenants", "apply", names[i]) })
		}
		running.Wait()
		return answers
	}
	var rivals, same []string
	for i := range files {
		rivals = append(rivals, fmt.Sprintf("{id: t%d, limits: {concurrency: 1}, ceilings: {minute_usd: 1, day_usd: 1, month_usd: 1}, identities: {slack: [T1]}}", i))
		same = append(same, fmt.Sprintf("{id: same, limits: {concurrency: %d}, ceilings: {minute_usd: 1, day_usd: 1, month_usd: 1}}", i+1))
	}
	done := 0
	for _, a := range apply(rivals...) {
		switch {
		case a.code == 0:
			done++
		case a.code != 2 || !strings.Contains(a.err, "slack:T1"):
			t.Errorf("%+v", a)
		}
	}
	for _, a := range apply(same...) {
		if a.code != 0 {
			t.Errorf("%+v", a)
		}
	}
	current := catalog.NewTenants(func(_, key string, err error) { t.Error(key, err) })
	if err := readAll(t.Context(), conn, topics.CatalogTenants, current.Apply); err != nil {
		t.Fatal(err)
	}
	h, _ := current.History("same")
	if len(current.IDs()) != 2 || done != 1 || len(h.Versions) != files {
		t.Errorf("%d tenants, %d files with the identity applied, %d of %d changes", len(current.IDs()), done, len(h.Versions), files)
	}
}

func TestPricesOverTheBroker(t *testing.T) {
	root := here(t)
	broker(t)
	sample := filepath.Join(root, "../../domain/testdata/prices_sample.json")
	if a := weir(t, "", "prices", "diff", sample); a.code != 1 || !strings.Contains(a.out, "+ openai gpt-4o\n") {
		t.Errorf("exit %d", a.code)
	}
	if a := weir(t, "n\n", "prices", "import", sample); a.code != 1 || !strings.Contains(a.err, "Publish 66 models? [y/N]") || !strings.Contains(a.err, "nothing published") {
		t.Errorf("exit %d, %s", a.code, a.err)
	}
	a := weir(t, "yes\n", "prices", "import", sample)
	if a.code != 0 || !strings.Contains(a.out, "published 66 models") {
		t.Errorf("exit %d: %s", a.code, a.err)
	}
	for _, odd := range []string{"duplicate", "odd rows and fields"} {
		if !strings.Contains(a.out, odd) {
			t.Errorf("%q is not reported", odd)
		}
	}
	again := decodeJSON[struct {
		Models, Published, Unnamed int

		Changes  []any
		Oddities []struct{ Row, Field, Kind, Reason string }
	}](t, weir(t, "", "prices", "import", "--yes", sample, "--json"))
	if again.Models != 66 || again.Published != 0 || len(again.Changes) != 0 || len(again.Oddities) == 0 {
		t.Errorf("%+v", again)
	}
	for _, o := range again.Oddities {
		if o.Row == "" || o.Kind == "" || o.Reason == "" {
			t.Errorf("%+v", o)
		}
	}
	if a := weir(t, "", "prices", "diff", sample); a.code != 0 {
		t.Errorf("exit %d: %s", a.code, a.out)
	}
	if a := weir(t, "", "prices", "show", "gpt-4o"); a.code != 0 || !strings.Contains(a.out, "0.0000025") || strings.Contains(a.out, "gpt-4o-mini") {
		t.Errorf("%+v", a)
	}
	if a := weir(t, "", "prices", "show", "gpt-99"); a.code != 1 {
		t.Errorf("%+v", a)
	}
	dearer := file(t, "dear.json", price("0.0025"))
	if a := weir(t, "", "prices", "diff", dearer); a.code != 1 || !strings.Contains(a.out, "more than tenfold") {
		t.Errorf("a jump: %s", a.out)
	}
	// A file with one model changes that one: the others are kept, and are no changes.
	part := decodeJSON[struct {
		Models, Published, Unnamed int

		Changes []struct {
			Kind, Provider, Model string

			Jump   bool
			Fields []any
		}
		Oddities []any
	}](t, weir(t, "", "prices", "diff", dearer, "--json"))
	if part.Models != 1 || len(part.Changes) != 1 || part.Changes[0].Model != "gpt-4o" || part.Unnamed == 0 {
		t.Errorf("of a part of the file: %+v", part)
	}
	if a := weir(t, "", "prices", "import", "--yes", dearer); a.code != 0 || strings.Contains(a.out, "\n- ") || !strings.Contains(a.out, "1 models read, 1 changes\n") ||
		!strings.Contains(a.out, "are not in the file and keep their prices\n") {
		t.Errorf("import of a part: %+v", a)
	}
	if a := weir(t, "", "prices", "diff", dearer); a.code != 0 {
		t.Errorf("nothing changes, and exit %d: %s", a.code, a.out)
	}
	if _, err := os.Stat(".weir"); err == nil {
		t.Error("a folder was left behind")
	}
}

// Goal: a tenant's identity cannot be taken by a second file that does not name that tenant; nothing of it is published.
func TestIdentitiesOverTwoFiles(t *testing.T) {
	broker(t)
	with := func(id string) string {
		return "{id: " + id + ", limits: {concurrency: 1}, ceilings: {minute_usd: 1, day_usd: 1, month_usd: 1}, identities: {slack: [T1]}}"
	}
	if a := weir(t, "", "tenants", "apply", file(t, "one.yaml", "tenants: ["+with("acme")+"]")); a.code != 0 {
		t.Fatalf("%+v", a)
	}
	two := file(t, "two.yaml", "tenants: ["+with("rival")+"]")
	a := weir(t, "", "tenants", "apply", two)
	if a.code != 2 || !strings.Contains(a.err, `"rival"`) || !strings.Contains(a.err, `"acme"`) || !strings.Contains(a.err, "slack:T1") {
		t.Errorf("%+v", a)
	}
	if a := weir(t, "", "tenants", "show", "rival"); a.code != 1 {
		t.Errorf("published all the same: %+v", a)
	}
	if a := weir(t, "", "tenants", "apply", "--prune", two); a.code != 0 || a.out != "rival created\nacme removed\n" {
		t.Errorf("with --prune nobody else stays: %+v", a)
	}
}
