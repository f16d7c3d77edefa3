package tenantsfile

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The decoder's messages name Go types, which nobody who writes a tenants file has heard of.
var wrongShape = regexp.MustCompile("^(line \\d+): cannot unmarshal !!(\\w+)( `[^`]*`)? into .*$")

// explain puts the decoder's errors into the words of the file, one each.
func explain(err error) []error {
	var wrong *yaml.TypeError
	if !errors.As(err, &wrong) {
		return []error{err}
	}
	var errs []error
	for _, text := range wrong.Errors {
		errs = append(errs, errors.New(explainOne(text)))
	}
	return errs
}

func explainOne(text string) string {
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
