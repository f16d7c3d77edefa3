package tenantsfile

import (
	"fmt"
	"maps"
	"reflect"
	"strings"

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
	if unknown := unknownFields(n, reflect.TypeFor[plain]()); len(unknown) > 0 {
		return &yaml.TypeError{Errors: unknown}
	}
	return n.Decode((*plain)(y))
}

// unknownFields are the decoder's own complaints about the fields of n that t has not: a node that decodes itself is
// decoded without them.
func unknownFields(n *yaml.Node, t reflect.Type) []string {
	u := unknown{seen: map[place]bool{}}
	u.look(n, t)
	return u.errs
}

// unknown looks at each node once as each type, so that anchors which contain themselves, or each other many times, end.
type unknown struct {
	seen map[place]bool
	errs []string
}

type place struct {
	node *yaml.Node
	as   reflect.Type
}

func (u *unknown) look(n *yaml.Node, t reflect.Type) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if u.seen[place{n, t}] {
		return
	}
	u.seen[place{n, t}] = true
	switch {
	case n.Kind == yaml.SequenceNode: // of mappings to merge
		for _, each := range n.Content {
			u.look(each, t)
		}
	case n.Kind == yaml.MappingNode && (t.Kind() == reflect.Map || t.Kind() == reflect.Struct && t != reflect.TypeFor[scalar]()):
		for i := 0; i+1 < len(n.Content); i += 2 {
			u.member(n.Content[i], n.Content[i+1], t)
		}
	}
}

func (u *unknown) member(key, value *yaml.Node, t reflect.Type) {
	if key.Tag == "!!merge" {
		u.look(value, t)
		return
	}
	if t.Kind() == reflect.Map {
		u.look(value, t.Elem())
		return
	}
	f, ok := fieldOf(t, key.Value)
	if !ok {
		u.errs = append(u.errs, fmt.Sprintf("line %d: field %s not found in type %s", key.Line, key.Value, "ladder"))
		return
	}
	u.look(value, f)
}

func fieldOf(t reflect.Type, name string) (reflect.Type, bool) {
	for i := range t.NumField() {
		if tag, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ","); tag == name {
			return t.Field(i).Type, true
		}
	}
	return nil, false
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
