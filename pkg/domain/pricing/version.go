package pricing

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/usage"
)

// Service tiers of a rate; "" is the standard tier. Others may exist.
const (
	TierFlex     = "flex"
	TierPriority = "priority"
	TierBatch    = "batch"
)

// Bounds of a version.
const (
	maxRates       = 500
	maxMultipliers = 50
	maxName        = 256 // bytes of provider and model
)

// Rate is the price of one unit of a meter.
type Rate struct {
	Meter       usage.Meter
	ServiceTier string        // "" standard
	AboveTokens int64         // applies to prompts longer than this; 0 is the base rate
	USDPerUnit  money.Decimal // dollars per token, second, query, …; may be 0, never negative
}

// TierRule says how thresholds apply.
type TierRule struct {
	Graduated bool // each band at its own rate; otherwise the whole request at one
	Inclusive bool // a prompt of exactly the threshold is above it
}

// Version is the price of one model from one instant on. Make it with Seal.
type Version struct {
	ID            string // hash of the content, set by Seal
	Provider      string // as the source names it ("bedrock_converse")
	Model         string // the source's key ("gemini/gemini-2.5-flash")
	Mode          string // what the model does: chat, embedding, …
	Currency      string // USD
	EffectiveFrom time.Time
	PublishedAt   time.Time
	Source        string // where the price was read
	SourceHash    string // SHA-256 of that file, hex
	Rates         []Rate
	Tier          TierRule
	// Multipliers of all token rates: "geo:us", "region:eu", "speed:fast".
	Multipliers     map[string]money.Decimal
	MaxInputTokens  int64  // 0 unknown
	MaxOutputTokens int64  // 0 unknown
	RawRow          []byte // the source's own words
}

// Seal checks v, brings it into canonical order and sets its ID. Equal
// content gives an equal ID, whenever and from wherever it was published.
// Errors wrap ErrInvalid.
func (v Version) Seal() (Version, error) {
	v.EffectiveFrom = v.EffectiveFrom.UTC()
	v.PublishedAt = v.PublishedAt.UTC()
	v.Rates = slices.Clone(v.Rates)
	slices.SortFunc(v.Rates, compareRates)
	if err := v.validate(); err != nil {
		return Version{}, fmt.Errorf("%w: %s %s: %w", ErrInvalid, v.Provider, v.Model, err)
	}
	v.ID = v.hash()
	return v, nil
}

// compareRates orders by meter, highest threshold first, standard tier first.
func compareRates(a, b Rate) int {
	return cmp.Or(cmp.Compare(a.Meter, b.Meter), cmp.Compare(b.AboveTokens, a.AboveTokens), cmp.Compare(a.ServiceTier, b.ServiceTier))
}

func (v *Version) validate() error {
	switch {
	case v.Provider == "" || len(v.Provider) > maxName || v.Model == "" || len(v.Model) > maxName:
		return fmt.Errorf("provider and model need 1 to %d bytes", maxName)
	case v.Currency != "USD":
		return fmt.Errorf("currency %q is not USD", v.Currency)
	case len(v.Rates) > maxRates || len(v.Multipliers) > maxMultipliers:
		return fmt.Errorf("%d rates, %d multipliers", len(v.Rates), len(v.Multipliers))
	case v.MaxInputTokens < 0 || v.MaxOutputTokens < 0:
		return fmt.Errorf("negative limit")
	}
	for i, r := range v.Rates {
		switch {
		case r.Meter.Unit() == usage.Unknown:
			return fmt.Errorf("meter %q does not exist", r.Meter)
		case r.USDPerUnit.Sign() < 0 || r.AboveTokens < 0:
			return fmt.Errorf("rate of %s is negative", r.Meter)
		case r.ServiceTier == usage.TierStandard:
			return fmt.Errorf("the standard tier is written as empty")
		case i > 0 && compareRates(v.Rates[i-1], r) == 0:
			return fmt.Errorf("two rates for %s, tier %q, above %d", r.Meter, r.ServiceTier, r.AboveTokens)
		}
	}
	for name, factor := range v.Multipliers {
		if factor.Sign() <= 0 {
			return fmt.Errorf("multiplier %s is not positive", name)
		}
	}
	return v.checkDigits()
}

// checkDigits refuses a rate that an entry of the ledger could not hold: halved (a batch), and times a region's multiplier
// and a speed's.
func (v *Version) checkDigits() error {
	var finest [2]int // of the multipliers
	for _, factor := range v.Multipliers {
		digits := factor.FractionDigits()
		finest = [...]int{max(finest[0], digits), max(finest[1], min(finest[0], digits))}
	}
	for _, r := range v.Rates {
		if digits := r.USDPerUnit.FractionDigits() + finest[0] + finest[1] + 1; digits > money.MaxFractionDigits {
			return fmt.Errorf("rate of %s has up to %d fractional digits with its multipliers, more than %d", r.Meter, digits, money.MaxFractionDigits)
		}
	}
	return nil
}

// hash covers what a cost depends on, and nothing else.
func (v *Version) hash() string {
	var b strings.Builder
	fmt.Fprintf(&b, "1\n%q %q %q %s\n%s\n%t %t\n%d %d\n", v.Provider, v.Model, v.Mode, v.Currency,
		v.EffectiveFrom.Format(time.RFC3339Nano), v.Tier.Graduated, v.Tier.Inclusive, v.MaxInputTokens, v.MaxOutputTokens)
	for _, r := range v.Rates {
		fmt.Fprintf(&b, "%s %q %d %s\n", r.Meter, r.ServiceTier, r.AboveTokens, r.USDPerUnit)
	}
	for _, name := range slices.Sorted(maps.Keys(v.Multipliers)) {
		fmt.Fprintf(&b, "%q %s\n", name, v.Multipliers[name])
	}
	sum := sha256.Sum256([]byte(b.String()))
	return "pv-" + hex.EncodeToString(sum[:16])
}

// OutputBound is the most tokens a call may produce: what it asked for, else
// what the model can. 0 is unknown.
func (v Version) OutputBound(requested int64) int64 {
	if requested > 0 {
		return requested
	}
	return v.MaxOutputTokens
}
