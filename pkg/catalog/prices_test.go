package catalog

import (
	"os"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/pricing/litellm"
	"github.com/weir-project/weir/pkg/gen/topics"
)

// Every row of the sample survives the way through the topic: same id, and so same content.
func TestPricesRoundTrip(t *testing.T) {
	data, err := os.ReadFile("../domain/testdata/prices_sample.json")
	if err != nil {
		t.Fatal(err)
	}
	rows, _, err := litellm.Parse(data, "sample")
	if err != nil {
		t.Fatal(err)
	}
	bad := 0
	prices := NewPrices(func(_, key string, err error) { bad++; t.Log(key, err) })
	for _, row := range rows {
		row.EffectiveFrom, row.PublishedAt = time.Unix(0, 0), time.Unix(5, 0)
		h, err := pricing.History{}.Add(row)
		if err != nil {
			t.Fatal(err)
		}
		value, err := EncodePrices(h)
		if err != nil {
			t.Fatal(err)
		}
		rec := bus.Record{Topic: topics.CatalogPrices, Key: []byte(PriceKey(h)), Value: value}
		for range 2 {
			if err := prices.Apply(rec); err != nil {
				t.Fatal(err)
			}
		}
		got, ok := prices.Book().History(row.Provider, row.Model)
		if !ok || len(got.Versions) != 1 || got.Versions[0].ID != h.Versions[0].ID {
			t.Errorf("%s: %+v", PriceKey(h), got)
		}
	}
	if bad != 0 || len(rows) < 60 {
		t.Errorf("%d bad of %d", bad, len(rows))
	}
	_ = prices.Apply(bus.Record{Topic: topics.CatalogPrices, Key: []byte("x"), Value: []byte("no message")})
	if bad != 1 {
		t.Error("a bad record was not reported")
	}
}
