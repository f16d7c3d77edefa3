package admission

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/domain/usage"
	"github.com/weir-project/weir/pkg/usageevent"
)

// Statuses of a call.
const (
	statusSuccess = "SUCCESS"
	statusFailed  = "FAILED"
	statusPartial = "PARTIAL"
)

// maxRawUsage bounds the provider's object that is passed on.
const maxRawUsage = 32 << 10

// subject is a reservation to be ended, wherever it was found: its hold, its receipt, or the row of its first end.
type subject struct {
	tenant     string
	id         string
	reservedAt time.Time
	epoch      int64
	held       admit.Estimate
	call       call
	rawCall    []byte
	// day, month and fingerprint are known where the hold or its receipt was found.
	day, month  int32
	fingerprint admit.Fingerprint
	// direct: the hold is in Redis, of this epoch, so the settle script will apply the amount.
	direct bool
	// recalled: found in this replica's memory, so it may hold more by now, or have ended (recallOr).
	recalled bool
}

// grow gives a subject the estimate that its hold stands for by now: a call that reported more output than was
// estimated has used at least that, whether or not it says so again in the end.
func (s *Service) grow(subj *subject) {
	if !subj.direct || subj.held.OutputTokens <= outputOf(subj.call.Meters) {
		return
	}
	e := pricing.Estimate{MaxOutputTokens: subj.held.OutputTokens, Meters: inputsOf(subj.call)}
	usd, err := costOf(s.catalogs.prices.Book(), subj.call, subj.reservedAt, e)
	if err == nil && (subj.call.Dearest || usd.Cmp(subj.call.EstimateUSD) > 0) { // nobody is charged by a dearest rate, but by these meters
		subj.call.EstimateUSD, subj.call.Meters = usd, meters(e)
	}
}

// outputOf is the tokens of output among meters.
func outputOf(list map[string]money.Decimal) int64 {
	var total int64
	for name, q := range list {
		if usage.Meter(name).IsOutput() {
			n, _ := q.Int64()
			total += n
		}
	}
	return total
}

// metersOf are the quantities of a call by meter.
func metersOf(list map[string]money.Decimal) usage.Meters {
	m := make(usage.Meters, len(list))
	for name, q := range list {
		m[usage.Meter(name)] = q
	}
	return m
}

// charge is what a settle costs.
type charge struct {
	status string
	// model is the one that is charged: the one named, or one that the response names and that is dearer; "" the granted.
	model string
	// own is what counts against the ceilings, in place of the hold.
	own admit.Estimate
	// raw is the list price and billed the same with the tenant's markup; nil = unpriced: the amount held is kept.
	raw, billed *money.USD
	// estimated: the usage is missing, so the estimate is charged.
	estimated bool
	// estimate is what is charged then.
	estimate money.USD
	// overage is what is counted above what was held.
	overage money.USD
	// usage and meters are what the event says: at most one is set.
	usage  json.RawMessage
	meters map[string]money.Decimal
	// whole is the same as usage where that is all of the request's.
	whole usageevent.Ordered
	// cacheHit is the kind of cache that answered, "" for none.
	cacheHit string
	// flags are what the answer says beside the figures: cache_hit, dearer_model, total_mismatch, unknown_usage, unpriced.
	flags []string
	// tier and responseID are what the provider's object said, where meters stand in for it.
	tier, responseID string
}

// asksTheHold reports whether the amount is what is held, or may become that in the books: the estimate, without a price
// what was held, and at nothing what the attributor takes in its place should it not know the price yet.
func (c *charge) asksTheHold() bool {
	return c.estimated || c.raw == nil || c.own.Nanos == 0 && c.cacheHit == ""
}

// chargeFor decides what a settle costs, by the price in force when it was reserved.
func chargeFor(req *settleRequest, s *subject, book *pricing.Book, contract *tenant.Contract) (charge, *Problem) {
	c := charge{status: req.Status}
	if c.status == "" {
		c.status = statusSuccess
	}
	p := c.decide(req, s, book, contract)
	return c, p
}

func (c *charge) decide(req *settleRequest, s *subject, book *pricing.Book, contract *tenant.Contract) *Problem {
	if req.CacheHit != "" {
		c.fromCache(req)
		return nil
	}
	u, stated, p := statedUsage(req, s.call.Provider)
	if p == nil {
		c.flags = odd(req, &u, stated)
	}
	switch {
	case p != nil:
		return p
	case !stated && c.status == statusFailed:
		c.costs(money.USD{}, money.USD{}) // nothing was used
		return nil
	case !stated:
		return c.atEstimate(req, s, book, contract)
	}
	c.passOn(req, &u, s.call.Provider)
	if c.usage == nil { // a tier that the event cannot carry must not set the price either
		u.ServiceTier = c.tier
	}
	if c.status == statusFailed { // settles no output cost; the event still says all that was used
		u = u.Failed()
	}
	if u.ServiceTier == "" { // what the response reports wins, as the attributor reads it
		u.ServiceTier = req.ServiceTier
	}
	c.own.InputTokens, c.own.OutputTokens = u.Tokens()
	return c.price(req, s, &u, book, contract)
}

// costs gives the charge its price.
func (c *charge) costs(raw, billed money.USD) {
	both := &[...]money.USD{raw, billed}
	c.raw, c.billed = &both[0], &both[1]
}

// fromCache is a settle of what a cache answered, on whatever rung: $0, and the event says that nothing was used.
func (c *charge) fromCache(req *settleRequest) {
	c.costs(money.USD{}, money.USD{})
	c.cacheHit, c.flags = req.CacheHit, []string{ledger.FlagCacheHit}
	c.meters = map[string]money.Decimal{string(usage.Output): {}}
}

// atEstimate charges what was estimated; where a dearer model is named than was granted, what that would have been there.
func (c *charge) atEstimate(req *settleRequest, s *subject, book *pricing.Book, contract *tenant.Contract) *Problem {
	c.estimated, c.own, c.estimate = true, s.held, s.call.EstimateUSD
	if s.call.Dearest { // what was held is no price: what was estimated is, where it has one by now
		u := usage.FromMeters(metersOf(s.call.Meters))
		return c.price(req, s, &u, book, contract)
	}
	if usd, ok := estimatedAt(book, s, req.Model); ok && usd.Cmp(c.estimate) > 0 {
		nanos, err := money.CeilNano(counted(contract, usd))
		if err != nil {
			return invalid("model", err.Error())
		}
		c.estimate, c.own.Nanos, c.flags = usd, max(nanos, c.own.Nanos), append(c.flags, usageevent.FlagDearerModel)
		c.overage = (c.own.Nanos - s.held.Nanos).USD()
	}
	c.costs(c.estimate, money.ApplyMarkup(c.estimate, contract.Markup))
	return nil
}

// estimatedAt is what the estimate costs at a model other than the granted one.
func estimatedAt(book *pricing.Book, s *subject, model string) (money.USD, bool) {
	if model == "" || model == s.call.Model {
		return money.USD{}, false
	}
	v, _, err := book.At(s.call.Provider, model, s.reservedAt)
	if err != nil {
		return money.USD{}, false
	}
	e := pricing.Estimate{Meters: usage.Meters{}}
	for name, q := range s.call.Meters {
		if n, whole := q.Int64(); name == string(usage.Output) && whole {
			e.MaxOutputTokens = n
		} else {
			e.Meters[usage.Meter(name)] = q
		}
	}
	costing, err := pricing.EstimateCost(v, e, pricing.Options{})
	return costing.Total, err == nil
}

// statedUsage reads what the caller says was used; stated is false where it says nothing: neither usage nor meters, no
// meter at all, or a provider's object without usage in it. A cache hit says so by a zero: {"output_tokens": 0}.
func statedUsage(req *settleRequest, provider string) (u usage.Usage, stated bool, p *Problem) {
	usable := given(req.Usage)
	switch {
	case usable && req.Meters != nil:
		return u, false, invalid("meters", "Either usage or meters, not both.")
	case req.Meters != nil:
		m, err := usage.ParseMeters(req.Meters)
		if err != nil {
			return u, false, invalid("meters", "meters: "+err.Error())
		}
		return usage.FromMeters(m), len(req.Meters) > 0, nil
	case !usable:
		return u, false, nil
	}
	u, err := usage.Normalise(provider, req.API, req.Usage)
	if err != nil {
		return u, false, invalid("usage", "usage: "+err.Error())
	}
	return u, !u.Missing(), nil
}

// odd are the flags of a provider's object that its sender should see: that it has members of which none is usage that anybody
// here knows, which is missing usage (of another api than was named, most likely); that it counts some tokens under a name that
// the api does not have; that its counts contradict one another.
func odd(req *settleRequest, u *usage.Usage, stated bool) []string {
	if !stated && saysSomething(req.Usage) {
		return []string{usage.FlagUnknown}
	}
	var flags []string
	for _, f := range []string{usage.FlagTotalMismatch, usage.FlagUnknown} {
		if slices.Contains(u.Flags, f) {
			flags = append(flags, f)
		}
	}
	return flags
}

// saysSomething reports whether a provider's object has a member.
func saysSomething(raw json.RawMessage) bool { return bytes.IndexByte(raw, '"') >= 0 }

// given reports whether a member is there and not null.
func given(raw json.RawMessage) bool { return raw != nil && string(raw) != "null" }

// passOn chooses what the event says was used: the provider's own object without the parts that hold prompts and
// completions, which no topic may carry; or, where the usage cannot be read without them, as the event writes it, or is
// too large, the meters it was normalised to.
func (c *charge) passOn(req *settleRequest, u *usage.Usage, provider string) {
	if given(req.Usage) {
		if bare, whole, ok := passable(req, u, provider); ok {
			c.usage, c.whole = bare, whole
			return
		}
	}
	if usageevent.Check(usageevent.Data{ServiceTier: u.ServiceTier}) == nil {
		c.tier = u.ServiceTier
	}
	if usageevent.CheckID("response_id", u.ResponseID) == nil {
		c.responseID = u.ResponseID
	}
	c.meters = make(map[string]money.Decimal, len(u.Meters))
	for m, q := range u.Meters {
		c.meters[string(m)] = q
	}
	if len(c.meters) == 0 { // all zero, which is not missing
		c.meters[string(usage.Output)] = money.Decimal{}
	}
}

// price charges what was used, at the dearer of the model that was named and the one that answered.
func (c *charge) price(req *settleRequest, s *subject, u *usage.Usage, book *pricing.Book, contract *tenant.Contract) *Problem {
	c.model = cmp.Or(req.Model, s.call.Model)
	raw, billed, err := costAt(book, s, c.model, u, contract.Markup)
	if req.Model == "" && u.Model != "" && err == nil && checkName("model", u.Model) == nil { // the response names the model that answered
		if told, toBill, cannot := costAt(book, s, u.Model, u, contract.Markup); cannot == nil && told.Cmp(raw) > 0 {
			c.model, raw, billed = u.Model, told, toBill
		}
	}
	switch {
	case unpriced(err):
		c.own.Nanos = s.held.Nanos // unpriced is a state: the amount held is kept until a price arrives
		c.flags = append(c.flags, ledger.FlagUnpriced)
		return nil
	case err != nil:
		return invalid("usage", "usage: "+err.Error())
	}
	amount := raw
	if contract.Count == tenant.CountBilled {
		amount = billed
	}
	if c.own.Nanos, err = money.CeilNano(amount); err != nil {
		return invalid("usage", fmt.Sprintf("usage: %v", err))
	}
	c.costs(raw, billed)
	if dearer(book, s, c.model, u, raw) {
		c.flags = append(c.flags, usageevent.FlagDearerModel)
	}
	if c.own.Nanos > s.held.Nanos { // the hold is whole nano-dollars, so it is above it just when its ceiling is
		c.overage = amount.Sub(s.held.Nanos.USD())
	}
	return nil
}

// dearer reports whether a call cost more than it would have at the model that was granted. It is charged all the same.
func dearer(book *pricing.Book, s *subject, named string, u *usage.Usage, cost money.USD) bool {
	if named == s.call.Model {
		return false
	}
	granted, _, err := costAt(book, s, s.call.Model, u, money.Percent{})
	return err == nil && cost.Cmp(granted) > 0 // without its price there is nothing to compare
}

// costAt is what was used at a model's price of when it was reserved, and the same with a markup.
func costAt(book *pricing.Book, s *subject, model string, u *usage.Usage, markup money.Percent) (raw, billed money.USD, err error) {
	v, _, err := book.At(s.call.Provider, model, s.reservedAt)
	if err != nil {
		return raw, billed, err
	}
	return pricing.Totals(&v, u, markup)
}
