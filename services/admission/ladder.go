package admission

import (
	"strings"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/tenant"
)

// What the ladder makes of a reservation (ADRs 0008 and 0011). Both prices go into the one decision; the rung, which only the
// store knows, picks one of them, and from then on there is nothing but the model that was granted.

// quoted is the cheaper model of a plan at its price, while the decision is open.
type quoted struct {
	Model        string    `json:"model"`
	PriceVersion string    `json:"price_version"`
	EstimateUSD  money.USD `json:"estimate_usd"`
	// Meters are nil where they are those of the model asked for.
	Meters map[string]money.Decimal `json:"meters,omitempty"`
}

// granted is the call as it was admitted: at the cheaper model where the rung picked that.
func (c call) granted(saving bool) call {
	cheaper := c.Saving
	c.Saving = nil
	if !saving || cheaper == nil {
		return c
	}
	c.Asked, c.Model, c.PriceVersion, c.EstimateUSD, c.Dearest = c.Model, cheaper.Model, cheaper.PriceVersion, cheaper.EstimateUSD, false
	if cheaper.Meters != nil {
		c.Meters = cheaper.Meters
	}
	return c
}

// grantedCall reads what a hold keeps, by the answer that was given to it. The bytes are what ends the reservation: the
// receipt and the row keep them.
func grantedCall(kept []byte, a admit.Answer) (call, []byte, error) {
	c, err := decodeCall(kept)
	if err != nil || c.Saving == nil {
		return c, kept, err
	}
	c = c.granted(a.Saving)
	return c, c.encode(), nil
}

// Why the cheaper model of a plan is not granted, as the metrics count it.
const (
	unusableKilled   = "killed"
	unusableUnpriced = "unpriced"
	unusableTooSmall = "too_small"
	unusableDearer   = "dearer"
)

// saving quotes the cheaper model that the plan names for the one asked for, which would write so much output and cost that: nil where it
// names none, or where that model cannot stand in for this call.
func (s *Service) saving(c *caller, req *reserveRequest, normal *pricing.Version, output int64, costs money.USD, now time.Time) (*quoted, *admit.Estimate) {
	model, named := c.contract.Actions.SavingModel(tenant.Model{Provider: req.Provider, Name: req.Model},
		tenant.Model{Provider: req.Provider, Name: normal.Model}, tenant.Model{Provider: normal.Provider, Name: normal.Model})
	if !named {
		return nil, nil
	}
	unusable := func(why string) (*quoted, *admit.Estimate) {
		s.metrics.unusable.WithLabelValues(why).Inc()
		return nil, nil
	}
	if s.killed(c.tenant, req.Provider, model) != nil {
		return unusable(unusableKilled)
	}
	v, _, err := s.catalogs.prices.Book().At(req.Provider, model, now)
	if err != nil {
		return unusable(unusableUnpriced)
	}
	e, p := estimate(req.Estimate, v)
	if p != nil || !fits(v, e) {
		return unusable(unusableTooSmall)
	}
	cheaper, err := pricing.EstimateTotal(&v, e)
	if err != nil {
		return unusable(unusableUnpriced)
	}
	if cheaper.Cmp(costs) > 0 {
		return unusable(unusableDearer)
	}
	reserved, err := reservedFor(c.contract, cheaper, e)
	if err != nil {
		return unusable(unusableDearer)
	}
	q := &quoted{Model: model, PriceVersion: v.ID, EstimateUSD: cheaper}
	if e.MaxOutputTokens != output { // all else is what the request says
		q.Meters = meters(e)
	}
	return q, &reserved
}

// fits reports whether a model takes as long a prompt and writes as much as an estimate says.
func fits(v pricing.Version, e pricing.Estimate) bool {
	in, _ := tokens(e)
	return (v.MaxOutputTokens == 0 || e.MaxOutputTokens <= v.MaxOutputTokens) && (v.MaxInputTokens == 0 || in <= v.MaxInputTokens)
}

// reservedFor is what a priced estimate holds.
func reservedFor(k *tenant.Contract, usd money.USD, e pricing.Estimate) (admit.Estimate, error) {
	nanos, err := money.CeilNano(counted(k, usd))
	in, out := tokens(e)
	return admit.Estimate{Nanos: nanos, InputTokens: in, OutputTokens: out}.AtLeast(minimumHold), err
}

// effectOf is what the store decides by; the words were checked.
func effectOf(effect string) admit.Effect {
	if effect == "write" {
		return admit.Write
	}
	return admit.Read
}

// keep is what the hold keeps of both quotes. Where they do not fit, the cheaper one is left out, so that no plan makes a
// call impossible; ok is false where even one is too much.
func (c *call) keep(saving **admit.Estimate) (kept []byte, ok bool) {
	kept = c.encode()
	if len(kept) > budgetstore.MaxContext && c.Saving != nil {
		c.Saving, *saving = nil, nil
		kept = c.encode()
	}
	return kept, len(kept) <= budgetstore.MaxContext
}

// planOf names the version of a contract that an answer was made by, so that a repeat is made by the same.
func planOf(k *tenant.Contract) int64 {
	if k.EffectiveFrom.Unix() <= 0 {
		return 0
	}
	return k.EffectiveFrom.UnixNano()
}

// contractOf is that version; where it is not known here, the caller's.
func (s *Service) contractOf(c *caller, plan int64) *tenant.Contract {
	if plan == planOf(c.contract) {
		return c.contract
	}
	if k := s.catalogs.tenants.InForce(c.tenant, time.Unix(0, plan)); k != nil {
		return k
	}
	return c.contract
}

// told is what the texts for the end user are made from.
func told(k *tenant.Contract, asked ladder.Language, rung ladder.Rung, percent int64, saving bool) admit.Told {
	l := k.Actions.In(asked)
	return admit.Told{Rung: rung, PercentUsed: percent, Thresholds: ladder.Thresholds(k.Ladder), Saving: saving, Language: l, Own: k.Actions.Texts[l]}
}

// cacheOf is what a rung allows caches to answer.
func cacheOf(k *tenant.Contract, rung ladder.Rung) cacheAnswer {
	if rung < ladder.Caching {
		return cacheAnswer{}
	}
	out := cacheAnswer{Exact: true}
	if similarity := k.Actions.SemanticThreshold; similarity != "" {
		out.SemanticThreshold = &similarity
	}
	return out
}

// maxLanguages bounds what is read of an Accept-Language header; browsers send less than a tenth of it.
const maxLanguages = 1 << 10

// languageOf picks the language that an Accept-Language header likes best among those there are; "" where it names
// none of them, so that the plan decides.
func languageOf(header string) ladder.Language {
	if header == "" {
		return ""
	}
	var best ladder.Language
	highest := 0
	for part := range strings.SplitSeq(header[:min(len(header), maxLanguages)], ",") {
		tag, parameters, _ := strings.Cut(part, ";")
		primary, _, _ := strings.Cut(strings.TrimSpace(tag), "-")
		l := ladder.Language(strings.ToLower(primary))
		if weight := weightOf(parameters); l.Known() && weight > highest {
			best, highest = l, weight
		}
	}
	return best
}

// weightOf reads "q=0.8" in thousandths; no weight is 1000, one that cannot be read 0.
func weightOf(parameters string) int {
	text, ok := strings.CutPrefix(strings.ToLower(strings.ReplaceAll(parameters, " ", "")), "q=")
	if !ok {
		if strings.TrimSpace(parameters) == "" {
			return 1000
		}
		return 0
	}
	whole, fraction, _ := strings.Cut(text, ".")
	if whole == "1" && strings.Trim(fraction, "0") == "" {
		return 1000
	}
	if whole != "0" || len(fraction) > 3 {
		return 0
	}
	weight := 0
	for _, digit := range (fraction + "000")[:3] {
		if digit < '0' || digit > '9' {
			return 0
		}
		weight = 10*weight + int(digit-'0')
	}
	return weight
}
