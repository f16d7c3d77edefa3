package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/usage"
	"github.com/weir-project/weir/pkg/usageevent"
)

// priceFlags are what one response does not say itself.
type priceFlags struct {
	provider, api, model, prices, at, tier, geo, speed string
	batch                                              bool
}

func (a *app) priceCmd() *cobra.Command {
	var f priceFlags
	c := &cobra.Command{
		Use:   "price --provider P --api A --prices FILE < RESPONSE",
		Short: "Price one provider response, or its usage object, from standard input",
		Long:  "Price needs nothing running. Unpriced: cost_usd is null and the exit code is 1.",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.price(c.InOrStdin(), c.OutOrStdout(), f, time.Now().UTC())
		},
	}
	c.Flags().StringVar(&f.provider, "provider", "", "who answered: openai, anthropic, gcp.gemini, aws.bedrock, …")
	c.Flags().StringVar(&f.api, "api", "", "which API: chat.completions, responses, messages, …")
	c.Flags().StringVar(&f.model, "model", "", "model (default: as the response reports it)")
	c.Flags().StringVar(&f.prices, "prices", "", "LiteLLM price file")
	c.Flags().StringVar(&f.at, "at", "", "RFC 3339 instant of the call (default now)")
	c.Flags().StringVar(&f.tier, "tier", "", "service tier, where the response does not report one")
	c.Flags().StringVar(&f.geo, "geo", "", "region of the call, where the response does not report one")
	c.Flags().StringVar(&f.speed, "speed", "", "speed of the call, where the response does not report one")
	c.Flags().BoolVar(&f.batch, "batch", false, "the call was a batch job")
	return c
}

// pricedLine is one meter of the answer.
type pricedLine struct {
	Meter    string `json:"meter"`
	Quantity string `json:"quantity"`
	RateUSD  string `json:"rate_usd"`
	CostUSD  string `json:"cost_usd"`
	Basis    string `json:"basis,omitempty"`
}

// priced is the answer of `weir price`.
type priced struct {
	Meters        map[string]money.Decimal `json:"meters"`
	ContextTokens *int64                   `json:"context_tokens"`
	Lines         []pricedLine             `json:"lines"`
	CostUSD       *string                  `json:"cost_usd"`
	Flags         []string                 `json:"flags"`
	PriceVersion  string                   `json:"price_version"`
	// PricedAs is the price book's model where the response names it with a date.
	PricedAs string `json:"priced_as,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

func (a *app) price(in io.Reader, out io.Writer, f priceFlags, now time.Time) error {
	if f.provider == "" || f.prices == "" {
		return misuse("price needs --provider and --prices")
	}
	if f.at != "" {
		at, err := time.Parse(time.RFC3339, f.at)
		if err != nil {
			return misuse("--at: %w", err)
		}
		now = at.UTC()
	}
	rows, _, err := readPriceFile(f.prices)
	if err != nil {
		return err
	}
	raw, err := io.ReadAll(io.LimitReader(in, usage.MaxPayload+1))
	if err != nil {
		return misuse("standard input: %w", err)
	}
	if err := usageevent.CheckUsage(raw); err != nil {
		return misuse("standard input: %w", err)
	}
	u, err := usage.Normalise(f.provider, f.api, raw)
	if err != nil {
		return misuse("%w", err)
	}
	answer, err := priceOne(rows, u, f, now)
	if err != nil {
		return err
	}
	if a.json {
		err = printJSON(out, answer)
	} else {
		err = answer.print(out)
	}
	if err == nil && answer.CostUSD == nil {
		return silentNo()
	}
	return err
}

// priceOne prices u by the file's rows, taken as in force from the beginning.
func priceOne(rows []pricing.Version, u usage.Usage, f priceFlags, at time.Time) (priced, error) {
	answer := priced{Meters: map[string]money.Decimal{}, ContextTokens: u.ContextTokens, Lines: []pricedLine{}, Flags: append([]string{}, u.Flags...)}
	for m, q := range u.Meters {
		answer.Meters[string(m)] = q
	}
	book := pricing.NewBook()
	for _, v := range rows {
		v.EffectiveFrom = time.Unix(0, 0).UTC()
		h, _ := book.History(v.Provider, v.Model)
		h, err := h.Add(v)
		if err != nil {
			return priced{}, misuse("%w", err)
		}
		book = book.With(h)
	}
	model := cmp.Or(f.model, u.Model)
	v, _, err := book.At(cmp.Or(u.Provider, f.provider), model, at)
	if err != nil {
		answer.Reason = err.Error()
		return answer, nil
	}
	if v.Model != model {
		answer.PricedAs = v.Model
	}
	answer.PriceVersion = v.ID
	costing, err := pricing.Cost(v, u, pricing.Options{Batch: f.batch, ServiceTier: f.tier, Geo: f.geo, Speed: f.speed})
	if err != nil {
		answer.Reason = err.Error()
		return answer, nil
	}
	for _, l := range costing.Lines {
		answer.Lines = append(answer.Lines, pricedLine{string(l.Meter), l.Quantity.String(), l.Rate.String(), l.CostUSD.String(), l.Basis})
	}
	total := costing.Total.String()
	answer.CostUSD, answer.Flags = &total, append(answer.Flags, costing.Flags...)
	slices.Sort(answer.Flags)
	return answer, nil
}

func (p priced) print(out io.Writer) error {
	w := newTable(out)
	for _, l := range p.Lines {
		fmt.Fprintf(w, "%s\t%s\tx %s\t= $%s\t%s\n", l.Meter, l.Quantity, l.RateUSD, l.CostUSD, l.Basis)
	}
	if p.CostUSD != nil {
		fmt.Fprintf(w, "total\t\t\t$%s\t%s\n", *p.CostUSD, p.PriceVersion)
	} else {
		fmt.Fprintf(w, "unpriced\t%s\n", p.Reason)
	}
	if p.PricedAs != "" {
		fmt.Fprintf(w, "priced as\t%s\n", p.PricedAs)
	}
	for _, flag := range p.Flags {
		fmt.Fprintf(w, "flag\t%s\n", flag)
	}
	return w.Flush()
}
