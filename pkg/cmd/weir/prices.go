package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/catalog"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/pricing/litellm"
	"github.com/weir-project/weir/pkg/gen/topics"
)

func (a *app) pricesCmd() *cobra.Command {
	var yes bool
	var from string
	imp := &cobra.Command{
		Use: "import FILE", Short: "Import a LiteLLM price file: shows the difference and asks",
		Long: "Import reads LiteLLM's price file, or a part of one: models that it does not name keep their prices. Odd fields are reported.\nA model's first price is in force from the beginning, later ones from now or from --effective-from.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.pricesImport(c, args[0], yes, from, time.Now().UTC())
		},
	}
	imp.Flags().BoolVar(&yes, "yes", false, "publish without asking")
	imp.Flags().StringVar(&from, "effective-from", "", "RFC 3339 instant from which changed prices hold (default now)")
	diff := &cobra.Command{
		Use: "diff FILE", Short: "Show what an import would change; exit 1 if anything", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.pricesDiff(c, args[0], time.Now().UTC()) },
	}
	show := &cobra.Command{
		Use: "show [MODEL…]", Short: "Print the prices in force",
		RunE: func(c *cobra.Command, args []string) error {
			return a.pricesShow(c.Context(), c.OutOrStdout(), args, time.Now().UTC())
		},
	}
	return group("prices", "The price book: versioned, effective-dated", imp, diff, show)
}

// priceFile is a parsed file beside the book it is to be compared with.
type priceFile struct {
	rows    []pricing.Version
	odd     []litellm.Oddity
	book    *pricing.Book
	changes []pricing.Change
	conn    *bus.Conn
}

func (a *app) loadPrices(ctx context.Context, file string, now time.Time) (priceFile, error) {
	rows, odd, err := readPriceFile(file)
	if err != nil {
		return priceFile{}, err
	}
	if len(rows) == 0 {
		return priceFile{}, misuse("%s holds no price that could be used (%d odd rows and fields)", file, len(odd))
	}
	conn, book, err := a.book(ctx)
	if err != nil {
		return priceFile{}, err
	}
	return priceFile{rows, odd, book, pricing.Diff(book, rows, now), conn}, nil
}

// readPriceFile reads a price file of LiteLLM's, with what is odd in it.
func readPriceFile(file string) ([]pricing.Version, []litellm.Oddity, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, misuse("%w", err)
	}
	rows, odd, err := litellm.Parse(data, file)
	if err != nil {
		return nil, nil, misuse("%s: %w", file, err)
	}
	return rows, odd, nil
}

// book is the whole price book of the instance.
func (a *app) book(ctx context.Context) (*bus.Conn, *pricing.Book, error) {
	conn, err := a.kafka(ctx)
	if err != nil {
		return nil, nil, err
	}
	book, err := readPrices(ctx, conn)
	return conn, book, err
}

func (a *app) pricesImport(c *cobra.Command, file string, yes bool, from string, now time.Time) error {
	effective := now
	if from != "" {
		var err error
		if effective, err = time.Parse(time.RFC3339, from); err != nil {
			return misuse("--effective-from: %w", err)
		}
	}
	ctx, out := c.Context(), c.OutOrStdout()
	f, err := a.loadPrices(ctx, file, now)
	if err != nil {
		return err
	}
	records, err := f.records(effective, now)
	if err != nil {
		return err
	}
	if !a.json {
		f.print(out)
	}
	if len(records) > 0 && !yes && !confirmed(c.InOrStdin(), c.ErrOrStderr(), len(records)) {
		return no("nothing published")
	}
	if err := a.publish(ctx, f.conn, topics.CatalogPrices, records); err != nil {
		return err
	}
	if a.json {
		return printJSON(out, f.view(len(records)))
	}
	_, err = fmt.Fprintf(out, "published %d models\n", len(records))
	return err
}

// records are the new histories of the models that the file adds or changes.
func (f priceFile) records(effective, now time.Time) ([]bus.Record, error) {
	changed := map[string]bool{}
	for _, ch := range f.changes {
		changed[ch.Provider+"/"+ch.Model] = true
	}
	var records []bus.Record
	for _, v := range f.rows {
		if !changed[v.Provider+"/"+v.Model] {
			continue
		}
		h, known := f.book.History(v.Provider, v.Model)
		v.EffectiveFrom, v.PublishedAt = effective, now
		if !known {
			v.EffectiveFrom = time.Unix(0, 0).UTC()
		}
		h, err := h.Add(v)
		if err != nil {
			return nil, misuse("%w", err)
		}
		value, err := catalog.EncodePrices(h)
		if err != nil {
			return nil, misuse("%w", err)
		}
		key := catalog.PriceKey(h)
		records = append(records, bus.NewRecord(topics.CatalogPrices, key, []byte(key), value))
	}
	return records, nil
}

func (a *app) pricesDiff(c *cobra.Command, file string, now time.Time) error {
	f, err := a.loadPrices(c.Context(), file, now)
	if err != nil {
		return err
	}
	if a.json {
		err = printJSON(c.OutOrStdout(), f.view(0))
	} else {
		f.print(c.OutOrStdout())
	}
	if err == nil && len(f.changes) > 0 {
		return silentNo()
	}
	return err
}

// view is the JSON form of a comparison.
func (f priceFile) view(published int) map[string]any {
	type field struct {
		Field string `json:"field"`
		Old   string `json:"old,omitempty"`
		New   string `json:"new,omitempty"`
	}
	type change struct {
		Kind     string  `json:"kind"`
		Provider string  `json:"provider"`
		Model    string  `json:"model"`
		Jump     bool    `json:"jump,omitempty"`
		Fields   []field `json:"fields"`
	}
	type oddity struct {
		Row    string `json:"row"`
		Field  string `json:"field,omitempty"`
		Kind   string `json:"kind"`
		Reason string `json:"reason"`
	}
	changes, odd := []change{}, []oddity{}
	for _, ch := range f.changes {
		v := change{Kind: ch.Kind, Provider: ch.Provider, Model: ch.Model, Jump: ch.Jump, Fields: []field{}}
		for _, x := range ch.Fields {
			v.Fields = append(v.Fields, field(x))
		}
		changes = append(changes, v)
	}
	for _, o := range f.odd {
		odd = append(odd, oddity(o))
	}
	return map[string]any{"models": len(f.rows), "changes": changes, "oddities": odd, "published": published, "unnamed": pricing.Unnamed(f.book, f.rows)}
}

func (f priceFile) print(out io.Writer) {
	for _, ch := range f.changes {
		mark := map[string]string{pricing.Added: "+", pricing.Changed: "~"}[ch.Kind]
		note := ""
		if ch.Jump {
			note = "   <- more than tenfold: is the unit right?"
		}
		fmt.Fprintf(out, "%s %s %s%s\n", mark, ch.Provider, ch.Model, note)
		if ch.Kind != pricing.Changed {
			continue
		}
		for _, x := range ch.Fields {
			fmt.Fprintf(out, "    %s: %s -> %s\n", x.Field, cmp.Or(x.Old, "none"), cmp.Or(x.New, "none"))
		}
	}
	if len(f.odd) > 0 {
		fmt.Fprintf(out, "\n%d odd rows and fields:\n", len(f.odd))
		w := newTable(out)
		for _, o := range f.odd {
			fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", o.Row, o.Field, o.Kind, o.Reason)
		}
		_ = w.Flush() // out's errors show at the last line
	}
	fmt.Fprintf(out, "\n%d models read, %d changes\n", len(f.rows), len(f.changes))
	if n := pricing.Unnamed(f.book, f.rows); n > 0 {
		fmt.Fprintf(out, "%d models of these providers are not in the file and keep their prices\n", n)
	}
}

// confirmed asks on the terminal; anything but yes is no.
func confirmed(in io.Reader, ask io.Writer, n int) bool {
	fmt.Fprintf(ask, "Publish %d models? [y/N] ", n)
	line, _ := bufio.NewReader(in).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true
	}
	return false
}
