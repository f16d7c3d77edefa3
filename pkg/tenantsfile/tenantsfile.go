// Package tenantsfile reads the tenants file of `weir tenants apply` (docs/reference/tenants.md): plans, and tenants that
// inherit from them and override.
//
// It owns the YAML form only; what a contract may say is pkg/domain/tenant's. Unknown fields are errors that name the
// line. Money and percentages are read as the text that stands in the file, never through a float.
package tenantsfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/usageevent"
)

// MaxBytes bounds a tenants file: 10,000 tenants with every field set are about 8 MB.
const MaxBytes = 16 << 20

// File is a parsed and validated tenants file: contracts by tenant id, dates not yet set.
type File struct {
	Contracts map[string]tenant.Contract
}

// IDs lists the tenants in order.
func (f File) IDs() []string { return slices.Sorted(maps.Keys(f.Contracts)) }

// Parse reads and validates a whole file; it reports everything that is wrong at once and returns no partial result.
func Parse(data []byte) (File, error) {
	if len(data) > MaxBytes {
		return File{}, fmt.Errorf("tenants file of %d bytes: at most %d", len(data), MaxBytes)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return File{}, errors.New("tenants file is empty: it needs `tenants:`")
		}
		return File{}, list(explain(err))
	}
	errs := unknownFields(&doc)
	var raw fileYAML
	if err := doc.Decode(&raw); err != nil {
		errs = append(errs, explain(err)...)
	}
	if len(errs) > 0 {
		return File{}, list(errs)
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return File{}, errors.New("tenants file: one YAML document only")
	}
	if len(raw.Tenants) == 0 {
		return File{}, errors.New("tenants file names no tenant")
	}
	return raw.resolve()
}

// resolve applies plans and defaults and validates each tenant.
func (raw fileYAML) resolve() (File, error) {
	out := File{Contracts: make(map[string]tenant.Contract, len(raw.Tenants))}
	var errs []error
	unusable := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(raw.Plans)) { // told once, not by each of its tenants, nor only where it has one
		if _, err := contract(raw.Plans[name], contractYAML{}); err != nil {
			errs = append(errs, fmt.Errorf("plan %q: %w", name, err))
			unusable[name] = true
		}
	}
	for _, t := range raw.Tenants {
		where := fmt.Sprintf("tenant %q (line %d)", t.ID.text, t.ID.line)
		if !tenant.ValidID(t.ID.text) {
			errs = append(errs, fmt.Errorf("%s: id must be 1-128 of A-Za-z0-9._:-, not dots alone", where))
			continue
		}
		if usageevent.CheckID("id", t.ID.text) != nil {
			errs = append(errs, fmt.Errorf("%s: id is what programs print for a missing value", where))
			continue
		}
		if _, twice := out.Contracts[t.ID.text]; twice {
			errs = append(errs, fmt.Errorf("%s: the id stands in the file twice", where))
			continue
		}
		plan := contractYAML{}
		if name := t.Plan.text; name != "" {
			p, ok := raw.Plans[name]
			if !ok {
				errs = append(errs, fmt.Errorf("%s: plan %q is not under plans: (%s)", where, name, strings.Join(slices.Sorted(maps.Keys(raw.Plans)), ", ")))
				continue
			}
			if unusable[name] {
				continue
			}
			plan = p
		}
		c, err := contract(plan, t.contractYAML)
		if err == nil {
			c.Plan = t.Plan.text
			err = c.Validate()
		}
		if err != nil {
			for _, one := range split(err) {
				errs = append(errs, fmt.Errorf("%s: %w", where, one))
			}
			continue
		}
		out.Contracts[t.ID.text] = c
	}
	if errs = append(errs, out.shared()...); len(errs) > 0 {
		return File{}, list(errs)
	}
	return out, nil
}

// contract lays the tenant's own values over the plan's over the defaults.
func contract(plan, own contractYAML) (tenant.Contract, error) {
	c := tenant.Contract{Count: tenant.CountRaw, Month: tenant.MonthCalendar, Ladder: tenant.DefaultLadder(), SoftDay: true,
		UnknownPrice: tenant.UnknownPriceRefuse}
	overrun, err := money.ParsePercent(tenant.DefaultOverrunPercent)
	if err != nil {
		return c, err
	}
	c.Overrun = overrun
	for _, layer := range []contractYAML{plan, own} {
		if err := layer.apply(&c); err != nil {
			return c, err
		}
	}
	return c, nil
}
