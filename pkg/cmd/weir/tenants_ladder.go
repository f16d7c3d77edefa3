package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/tenantsfile"
)

// ladderView is a plan's ladder under the names of the tenants file.
type ladderView struct {
	Thresholds        [3]int32                         `json:"thresholds"`
	SemanticThreshold string                           `json:"semantic_threshold,omitempty"`
	SavingModels      map[string]string                `json:"saving_models,omitempty"`
	UpgradeURL        string                           `json:"upgrade_url,omitempty"`
	Language          ladder.Language                  `json:"language"`
	Texts             map[ladder.Language]ladder.Texts `json:"texts,omitempty"`
}

func ladderOf(c tenant.Contract) ladderView {
	a := c.Actions
	return ladderView{Thresholds: c.Ladder, SemanticThreshold: a.SemanticThreshold, SavingModels: a.SavingModels, UpgradeURL: a.UpgradeURL,
		Language: a.In(""), Texts: a.Texts}
}

// short is the ladder in one column: the steps, and how many models have a cheaper one.
func (l ladderView) short() string {
	s := fmt.Sprintf("%d/%d/%d", l.Thresholds[0], l.Thresholds[1], l.Thresholds[2])
	if n := len(l.SavingModels); n > 0 {
		s += fmt.Sprintf(" (%d cheaper)", n)
	}
	return s
}

// warnSavingModels tells of cheaper models that will never be granted, because they have no price. The tenants are applied
// all the same: the price may follow.
func warnSavingModels(ctx context.Context, conn *bus.Conn, notes io.Writer, f tenantsfile.File, now time.Time) error {
	if !slices.ContainsFunc(f.IDs(), func(id string) bool { return len(f.Contracts[id].Actions.SavingModels) > 0 }) {
		return nil
	}
	book, err := readPrices(ctx, conn)
	if err != nil {
		return err
	}
	for _, warning := range unpricedSavings(f, book, now) {
		fmt.Fprintln(notes, "weir: warning:", warning)
	}
	return nil
}

// unpricedSavings says for which tenants a cheaper model has no price, once for each pair of models; where nothing has a price
// yet, only that.
func unpricedSavings(f tenantsfile.File, book *pricing.Book, now time.Time) []string {
	if len(book.Histories()) == 0 {
		return []string{"no prices are published yet (weir prices import); a saving model is granted once it has one"}
	}
	providers := map[string]bool{}
	for _, h := range book.Histories() {
		providers[h.Provider] = true
	}
	tenants := map[string][]string{}
	for _, id := range f.IDs() {
		for from, to := range f.Contracts[id].Actions.SavingModels {
			of := slices.Sorted(maps.Keys(providers))
			if provider, _, named := strings.Cut(from, "/"); named {
				of = []string{provider}
			}
			priced := slices.ContainsFunc(of, func(provider string) bool {
				_, _, err := book.At(provider, to, now)
				return err == nil
			})
			if !priced {
				pair := fmt.Sprintf("%q, the saving model of %q, has no price and is not granted", to, from)
				tenants[pair] = append(tenants[pair], id)
			}
		}
	}
	var out []string
	for _, pair := range slices.Sorted(maps.Keys(tenants)) {
		ids := tenants[pair]
		more := ""
		if len(ids) > 3 {
			more = fmt.Sprintf(" and %d more", len(ids)-3)
		}
		out = append(out, pair+": tenant "+strings.Join(ids[:min(3, len(ids))], ", ")+more)
	}
	return out
}
