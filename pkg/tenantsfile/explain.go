package tenantsfile

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The decoder's messages name Go types, which nobody who writes a tenants file has heard of.
var (
	unknownField = regexp.MustCompile(`^(line \d+): field (\S+) not found in type \S+$`)
	wrongShape   = regexp.MustCompile("^(line \\d+): cannot unmarshal !!(\\w+)( `[^`]*`)? into .*$")
)

// explain puts the decoder's errors into the words of the file, one a line.
func explain(err error) error {
	var wrong *yaml.TypeError
	if !errors.As(err, &wrong) {
		return fmt.Errorf("tenants file: %w", err)
	}
	var errs []error
	for _, text := range wrong.Errors {
		errs = append(errs, errors.New(explainOne(text)))
	}
	return list(errs)
}

func explainOne(text string) string {
	if m := unknownField.FindStringSubmatch(text); m != nil {
		if like := nearest(m[2]); like != "" {
			return fmt.Sprintf("%s: unknown field %q; did you mean %q?", m[1], m[2], like)
		}
		return fmt.Sprintf("%s: unknown field %q", m[1], m[2])
	}
	if m := wrongShape.FindStringSubmatch(text); m != nil {
		kind := map[string]string{"seq": "a list", "map": "a mapping"}[m[2]]
		if kind == "" {
			kind = strings.TrimSpace("the value" + m[3])
		}
		return fmt.Sprintf("%s: %s does not belong here", m[1], kind)
	}
	return text
}

// list joins errors so that each stands on its own line.
func list(errs []error) error {
	if len(errs) == 1 {
		return fmt.Errorf("tenants file: %w", errs[0])
	}
	return fmt.Errorf("tenants file:\n%w", errors.Join(errs...))
}

// split takes apart what errors.Join joined.
func split(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// nearest is the field of the file that a misspelt one was meant to be, "" if none is near.
func nearest(name string) string {
	best, at := "", 3
	for _, field := range fields(reflect.TypeFor[fileYAML]()) {
		if d := distance(name, field); d < at {
			best, at = field, d
		}
	}
	return best
}

// fields lists every field name of the file, sorted.
func fields(t reflect.Type) []string {
	var names []string
	switch t.Kind() {
	case reflect.Map, reflect.Slice, reflect.Pointer:
		return fields(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if name, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ","); name != "" {
				names = append(names, name)
			}
			names = append(names, fields(t.Field(i).Type)...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
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
