package httpbench

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/catalog"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/tenant"
	usagemeter "github.com/weir-project/weir/pkg/domain/usage"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/identity"
)

// benchTenant is the one that all clients belong to: all their calls meet in its counters.
const benchTenant = "bench"

// publishCatalog writes the tenant, its key and a price, as of a day before now.
func publishCatalog(ctx context.Context, conn *bus.Conn, key identity.APIKey, now time.Time) (err error) {
	producer, err := conn.Producer(bus.ProducerConfig{}, topics.CatalogTenants, topics.CatalogApikeys, topics.CatalogPrices)
	if err != nil {
		return err
	}
	defer producer.Close(context.WithoutCancel(ctx))
	since := now.Add(-24 * time.Hour).UTC()
	prices, err := priceOf(since)
	if err != nil {
		return err
	}
	priceValue, err := catalog.EncodePrices(prices)
	if err != nil {
		return err
	}
	k := contract(since)
	if err := k.Validate(); err != nil {
		return err
	}
	tenantValue, err := catalog.EncodeTenant(tenant.History{ID: benchTenant, Versions: []tenant.Contract{k}})
	if err != nil {
		return err
	}
	keyValue, err := proto.Marshal(&weirv1.ApiKey{KeyId: key.ID, SecretHash: key.Hash, TenantIds: []string{benchTenant}})
	if err != nil {
		return err
	}
	name := catalog.PriceKey(prices)
	return producer.Produce(ctx, bus.NewRecord(topics.CatalogPrices, name, []byte(name), priceValue),
		bus.NewRecord(topics.CatalogTenants, benchTenant, []byte(benchTenant), tenantValue), bus.NewRecord(topics.CatalogApikeys, key.ID, []byte(key.ID), keyValue))
}

// contract has every limit and ceiling, too high to be met: a refusal is another measurement.
func contract(since time.Time) tenant.Contract {
	const high = 1 << 50 // nano-dollars: above a million dollars
	overrun, _ := money.ParsePercent(tenant.DefaultOverrunPercent)
	return tenant.Contract{
		EffectiveFrom: since, PublishedAt: since, Plan: benchTenant,
		Limits:   tenant.Limits{RequestsPerMinute: 1 << 30, InputTokensPerMinute: 1 << 45, OutputTokensPerMinute: 1 << 45, Concurrency: 1 << 30, OpenExecutions: 1000},
		Ceilings: tenant.Ceilings{Minute: high, Day: high, Month: high},
		Count:    tenant.CountRaw, SoftDay: true, Overrun: overrun, Month: tenant.MonthCalendar, Ladder: tenant.DefaultLadder(),
		Execution: tenant.Execution{MaxCost: high, MaxDepth: 9, MaxCalls: 1 << 40},
	}
}

func priceOf(since time.Time) (pricing.History, error) {
	rate := func(m usagemeter.Meter, usd string) pricing.Rate {
		d, _ := money.ParseDecimal(usd)
		return pricing.Rate{Meter: m, USDPerUnit: d}
	}
	v, err := pricing.Version{Provider: "openai", Model: "gpt-4o", Mode: "chat", Currency: "USD", EffectiveFrom: since, PublishedAt: since, Source: "bench",
		MaxOutputTokens: 16384,
		Rates:           []pricing.Rate{rate(usagemeter.Input, "0.0000025"), rate(usagemeter.CacheRead, "0.00000125"), rate(usagemeter.Output, "0.00001")}}.Seal()
	return pricing.History{Provider: "openai", Model: "gpt-4o", Versions: []pricing.Version{v}}, err
}
