package tenantsfile

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// unknownFields tells of every field in n that the file has not, in the words of the file: which fields there are instead only
// their place says, and the decoder's own complaint names a Go type.
func unknownFields(n *yaml.Node) []error {
	u := unknown{seen: map[place]bool{}}
	u.look(n, reflect.TypeFor[fileYAML]())
	return u.errs
}

// unknown looks at each node once as each type, so that anchors which contain themselves, or each other many times, end.
type unknown struct {
	seen map[place]bool
	errs []error
}

type place struct {
	node *yaml.Node
	as   reflect.Type
}

func (u *unknown) look(n *yaml.Node, t reflect.Type) {
	n = target(n)
	if u.seen[place{n, t}] {
		return
	}
	u.seen[place{n, t}] = true
	switch {
	case n.Kind == yaml.DocumentNode:
		u.look(n.Content[0], t)
	case n.Kind == yaml.SequenceNode:
		if t.Kind() == reflect.Slice {
			t = t.Elem()
		} // else of mappings to merge
		for _, each := range n.Content {
			u.look(each, t)
		}
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Map:
		for i := 1; i < len(n.Content); i += 2 {
			u.look(n.Content[i], t.Elem())
		}
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Struct && t != reflect.TypeFor[scalar]():
		fields := fieldsOf(t)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := target(n.Content[i]), n.Content[i+1]
			if as, ok := fields[key.Value]; ok {
				u.look(value, as)
			} else if key.Tag == "!!merge" {
				u.look(value, t)
			} else {
				u.tell(key, slices.Sorted(maps.Keys(fields)))
			}
		}
	}
}

func (u *unknown) tell(key *yaml.Node, names []string) {
	help := "there are: " + strings.Join(names, ", ")
	if like := nearest(key.Value, names); like != "" {
		help = fmt.Sprintf("did you mean %q?", like)
	}
	u.errs = append(u.errs, fmt.Errorf("line %d: unknown field %.80q; %s", key.Line, key.Value, help))
}

// target is the node that an alias stands for.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// fieldsOf are a mapping's fields with what each takes.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous { // inline
			maps.Copy(out, fieldsOf(f.Type))
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		out[name] = f.Type
	}
	return out
}

// nearest is the name that a misspelt one was meant to be, "" if none is near.
func nearest(name string, names []string) string {
	best, at := "", 3
	for _, each := range names {
		if d := distance(name, each); d < at {
			best, at = each, d
		}
	}
	return best
}

// distance is how many letters have to be put in, taken out or changed.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
