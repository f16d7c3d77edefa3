package usage

import "encoding/json"

// cohereUsage: billed_units is what is charged; the tokens object beside it
// counts templates too and only informs.
type cohereUsage struct {
	Billed *cohereBilled `json:"billed_units"`
}

type cohereBilled struct {
	Input           count `json:"input_tokens"`
	Output          count `json:"output_tokens"`
	SearchUnits     count `json:"search_units"`
	Classifications count `json:"classifications"`
	Images          count `json:"images"`
}

// cohereBody is a v2 answer, a v1 or rerank answer (meta), the message-end
// event of a stream (delta), or a bare usage object.
type cohereBody struct {
	ID    text         `json:"id"`
	Usage *cohereUsage `json:"usage"`
	Meta  *cohereUsage `json:"meta"`
	Delta struct {
		Usage *cohereUsage `json:"usage"`
	} `json:"delta"`
	Stream []json.RawMessage `json:"stream"`
	cohereUsage
}

func (c *cohereBody) find() *cohereBilled {
	for _, at := range []*cohereUsage{c.Usage, c.Meta, c.Delta.Usage, &c.cohereUsage} {
		if at != nil && at.Billed != nil {
			return at.Billed
		}
	}
	return nil
}

func parseCohere(u *reading, raw []byte) (bool, error) {
	var b cohereBody
	if err := decode(raw, &b); err != nil {
		return false, err
	}
	if err := fits(b.Stream); err != nil {
		return false, err
	}
	billed := b.find()
	replace(&u.ResponseID, b.ID)
	for _, event := range b.Stream {
		var e cohereBody
		if err := decode(event, &e); err != nil {
			return false, err
		}
		if last := e.find(); last != nil {
			billed = last
		}
		replace(&u.ResponseID, e.ID)
	}
	if billed == nil {
		u.flag(FlagMissing)
		return false, nil
	}
	u.Meters.Add(Input, billed.Input.n)
	u.Meters.Add(Output, billed.Output.n)
	u.Meters.Add(SearchUnits, billed.SearchUnits.n)
	u.Meters.Add(Classifications, billed.Classifications.n)
	u.Meters.Add(InputImages, billed.Images.n)
	return billed.Input.set, nil
}
