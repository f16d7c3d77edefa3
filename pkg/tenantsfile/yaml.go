package tenantsfile

import (
	"fmt"
	"math"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/tenant"
)

// scalar is a value's text as it stands in the file, with its line: YAML must not make a float of an amount.
type scalar struct {
	text string
	line int
}

// UnmarshalYAML takes any scalar as its text.
func (s *scalar) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: expected a single value", n.Line)
	}
	s.text, s.line = n.Value, n.Line
	return nil
}

type fileYAML struct {
	Plans   map[string]contractYAML `yaml:"plans"`
	Tenants []tenantYAML            `yaml:"tenants"`
}

type tenantYAML struct {
	ID           scalar `yaml:"id"`
	Plan         scalar `yaml:"plan"`
	contractYAML `yaml:",inline"`
}

type contractYAML struct {
	Limits struct {
		RequestsPerMinute     scalar `yaml:"requests_per_minute"`
		InputTokensPerMinute  scalar `yaml:"input_tokens_per_minute"`
		OutputTokensPerMinute scalar `yaml:"output_tokens_per_minute"`
		Concurrency           scalar `yaml:"concurrency"`
		OpenExecutions        scalar `yaml:"open_executions"`
	} `yaml:"limits"`
	Ceilings       ceilingsYAML `yaml:"ceilings"`
	Count          scalar       `yaml:"count"`
	Soft           *[]string    `yaml:"soft"`
	OverrunPercent scalar       `yaml:"overrun_percent"`
	MarkupPercent  scalar       `yaml:"markup_percent"`
	UnknownPrice   scalar       `yaml:"unknown_price"`
	Timezone       scalar       `yaml:"timezone"`
	Month          scalar       `yaml:"month"`
	Ladder         ladderYAML   `yaml:"ladder"`
	Execution      struct {
		MaxCostUSD scalar `yaml:"max_cost_usd"`
		MaxDepth   scalar `yaml:"max_depth"`
		MaxCalls   scalar `yaml:"max_calls"`
	} `yaml:"execution"`
	Identities struct {
		Slack    []string `yaml:"slack"`
		Telegram []string `yaml:"telegram"`
		JWT      []string `yaml:"jwt"`
		MTLS     []string `yaml:"mtls"`
	} `yaml:"identities"`
	Scopes []scopeYAML `yaml:"scopes"`
}

// apply lays the values that y sets over c.
func (y contractYAML) apply(c *tenant.Contract) error {
	for _, f := range []struct {
		name string
		from scalar
		to   *int64
	}{
		{"limits.requests_per_minute", y.Limits.RequestsPerMinute, &c.Limits.RequestsPerMinute},
		{"limits.input_tokens_per_minute", y.Limits.InputTokensPerMinute, &c.Limits.InputTokensPerMinute},
		{"limits.output_tokens_per_minute", y.Limits.OutputTokensPerMinute, &c.Limits.OutputTokensPerMinute},
		{"limits.concurrency", y.Limits.Concurrency, &c.Limits.Concurrency},
		{"limits.open_executions", y.Limits.OpenExecutions, &c.Limits.OpenExecutions},
		{"execution.max_calls", y.Execution.MaxCalls, &c.Execution.MaxCalls},
	} {
		if err := f.from.count(f.name, f.to, tenant.MaxLimit); err != nil {
			return err
		}
	}
	depth := int64(c.Execution.MaxDepth)
	if err := y.Execution.MaxDepth.count("execution.max_depth", &depth, math.MaxInt32); err != nil {
		return err
	}
	c.Execution.MaxDepth = int32(depth)
	for _, f := range []struct {
		from scalar
		to   *money.Nano
	}{
		{y.Ceilings.MinuteUSD, &c.Ceilings.Minute},
		{y.Ceilings.DayUSD, &c.Ceilings.Day},
		{y.Ceilings.MonthUSD, &c.Ceilings.Month},
		{y.Execution.MaxCostUSD, &c.Execution.MaxCost},
	} {
		if err := f.from.nano(f.to); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		from  scalar
		to    *money.Percent
		name  string
		above bool // an overrun below 0 would lower the ceiling; a markup is bound by money.ParsePercent
	}{{y.OverrunPercent, &c.Overrun, "overrun_percent", true}, {y.MarkupPercent, &c.Markup, "markup_percent", false}} {
		if err := f.from.percent(f.to, f.name, f.above); err != nil {
			return err
		}
	}
	return y.applyRest(c)
}

func (y contractYAML) applyRest(c *tenant.Contract) error {
	if y.Count.text != "" {
		c.Count = tenant.Count(y.Count.text)
	}
	if y.Month.text != "" {
		c.Month = tenant.MonthKind(y.Month.text)
	}
	if y.UnknownPrice.text != "" {
		c.UnknownPrice = tenant.UnknownPrice(y.UnknownPrice.text)
	}
	if y.Timezone.text != "" {
		c.Timezone = y.Timezone.text
	}
	if y.Soft != nil {
		c.SoftDay = false
		for _, w := range *y.Soft {
			if w != "day" {
				return fmt.Errorf("soft: only [day] can be soft, not %q", w)
			}
			c.SoftDay = true
		}
	}
	if err := y.Ladder.apply(c); err != nil {
		return err
	}
	for _, f := range []struct {
		kind string
		ids  []string
	}{{"slack", y.Identities.Slack}, {"telegram", y.Identities.Telegram}, {"jwt", y.Identities.JWT}, {"mtls", y.Identities.MTLS}} {
		for _, id := range f.ids {
			c.Identities = append(c.Identities, f.kind+":"+id)
		}
	}
	return applyScopes(c, y.Scopes)
}

// count reads a whole number from 0 to most.
func (s scalar) count(name string, to *int64, most int64) error {
	if s.text == "" {
		return nil
	}
	n, err := strconv.ParseInt(s.text, 10, 64)
	if err != nil || s.text[0] == '+' || n < 0 || n > most {
		return fmt.Errorf("line %d: %s is %.40q, not a whole number from 0 to %d", s.line, name, s.text, most)
	}
	*to = n
	return nil
}

func (s scalar) nano(to *money.Nano) error {
	if s.text == "" {
		return nil
	}
	usd, err := money.ParseUSD(s.text)
	if err != nil {
		return fmt.Errorf("line %d: amount in USD: %w", s.line, err)
	}
	n, err := money.WholeNano(usd)
	if err != nil {
		return fmt.Errorf("line %d: %w", s.line, err)
	}
	*to = n
	return nil
}

func (s scalar) percent(to *money.Percent, name string, above bool) error {
	if s.text == "" {
		return nil
	}
	p, err := money.ParsePercent(s.text)
	if err != nil {
		return fmt.Errorf("line %d: %s: %w", s.line, name, err)
	}
	if above && p.Cmp(money.Percent{}) < 0 {
		return fmt.Errorf("line %d: %s is %s; it must be at least 0", s.line, name, s.text)
	}
	*to = p
	return nil
}
