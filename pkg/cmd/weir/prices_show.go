package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"
)

// rateView is one rate in force, as people read it.
type rateView struct {
	Provider    string `json:"provider"`
	Model       string `json:"model"`
	Meter       string `json:"meter"`
	Tier        string `json:"service_tier,omitempty"`
	AboveTokens int64  `json:"above_tokens,omitempty"`
	USDPerUnit  string `json:"usd_per_unit"`
	Version     string `json:"price_version"`
	From        string `json:"effective_from"`
}

func (a *app) pricesShow(ctx context.Context, out io.Writer, models []string, now time.Time) error {
	_, book, err := a.book(ctx)
	if err != nil {
		return err
	}
	rates, found := []rateView{}, map[string]bool{}
	for _, h := range book.Histories() {
		v, ok := h.At(now)
		if !ok || len(models) > 0 && !slices.Contains(models, h.Model) {
			continue
		}
		found[h.Model] = true
		for _, r := range v.Rates {
			rates = append(rates, rateView{
				Provider: h.Provider, Model: h.Model, Meter: string(r.Meter), Tier: r.ServiceTier, AboveTokens: r.AboveTokens,
				USDPerUnit: r.USDPerUnit.String(), Version: v.ID, From: v.EffectiveFrom.Format(time.RFC3339),
			})
		}
	}
	for _, m := range models {
		if !found[m] {
			return no("no price for model %q", m)
		}
	}
	if a.json {
		return printJSON(out, map[string]any{"rates": rates})
	}
	w := newTable(out)
	fmt.Fprintln(w, "PROVIDER\tMODEL\tMETER\tTIER\tABOVE\tUSD PER UNIT\tFROM")
	for _, r := range rates {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", r.Provider, r.Model, r.Meter, r.Tier, r.AboveTokens, r.USDPerUnit, r.From)
	}
	return w.Flush()
}
