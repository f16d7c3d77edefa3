package tenantsfile

import (
	"fmt"
	"maps"

	"go.yaml.in/yaml/v3"

	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/tenant"
)

// ladderYAML is `ladder`: a list of three percentages, or a mapping with what the rungs do.
type ladderYAML struct {
	Thresholds        []int32              `yaml:"thresholds"`
	SemanticThreshold scalar               `yaml:"semantic_threshold"`
	SavingModels      map[string]scalar    `yaml:"saving_models"`
	UpgradeURL        scalar               `yaml:"upgrade_url"`
	Language          scalar               `yaml:"language"`
	Texts             map[string]textsYAML `yaml:"texts"`
}

type textsYAML struct {
	Normal   scalar `yaml:"normal"`
	Caching  scalar `yaml:"caching"`
	Saving   scalar `yaml:"saving"`
	ReadOnly scalar `yaml:"read_only"`
	Cut      scalar `yaml:"cut"`
}

// UnmarshalYAML takes either form.
func (y *ladderYAML) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.SequenceNode {
		return n.Decode(&y.Thresholds)
	}
	type plain ladderYAML // without this method
	return n.Decode((*plain)(y))
}

// apply lays what y says over c: models and texts one by one, where an empty one takes the plan's away.
func (y ladderYAML) apply(c *tenant.Contract) error {
	if y.Thresholds != nil {
		if len(y.Thresholds) != 3 {
			return fmt.Errorf("ladder: three percentages, not %d", len(y.Thresholds))
		}
		c.Ladder = [3]int32(y.Thresholds)
	}
	a := &c.Actions
	y.SemanticThreshold.set(&a.SemanticThreshold)
	y.UpgradeURL.set(&a.UpgradeURL)
	y.Language.set((*string)(&a.Language))
	if len(y.SavingModels) > 0 {
		models := maps.Clone(a.SavingModels) // the plan's map is shared by its tenants
		if models == nil {
			models = map[string]string{}
		}
		for from, to := range y.SavingModels {
			models[from] = to.text
			if to.text == "" {
				delete(models, from)
			}
		}
		a.SavingModels = models
	}
	if len(y.Texts) > 0 {
		texts := maps.Clone(a.Texts)
		if texts == nil {
			texts = map[ladder.Language]ladder.Texts{}
		}
		for l, own := range y.Texts {
			texts[ladder.Language(l)] = own.over(texts[ladder.Language(l)])
		}
		a.Texts = texts
	}
	return nil
}

func (y textsYAML) over(t ladder.Texts) ladder.Texts {
	y.Normal.set(&t.Normal)
	y.Caching.set(&t.Caching)
	y.Saving.set(&t.Saving)
	y.ReadOnly.set(&t.ReadOnly)
	y.Cut.set(&t.Cut)
	return t
}

// set takes a text over if the file has it, an empty one too.
func (s scalar) set(to *string) {
	if s.line > 0 {
		*to = s.text
	}
}
