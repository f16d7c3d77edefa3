package ladder

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Language is a language that texts for end users exist in.
type Language string

// The languages of the built-in texts.
const (
	English Language = "en"
	Spanish Language = "es"
)

// Languages lists them, the default first.
func Languages() []Language { return []Language{English, Spanish} }

// Known reports whether texts exist in l.
func (l Language) Known() bool { return l == English || l == Spanish }

// Texts are a plan's own texts for end users in one language, one a mode; an empty one means the built-in text. They say
// which mode the tenant is in; how much is used and where the steps are is added to each.
type Texts struct {
	Normal   string `json:"normal,omitempty"`
	Caching  string `json:"caching,omitempty"`
	Saving   string `json:"saving,omitempty"`
	ReadOnly string `json:"read_only,omitempty"`
	Cut      string `json:"cut,omitempty"`
}

// MaxText bounds one own text, in bytes: it travels in every answer.
const MaxText = 400

// ErrText says that a plan's own text cannot be shown.
var ErrText = errors.New("ladder: unusable text")

// Of is the text of a rung, "" for the built-in one.
func (t Texts) Of(r Rung) string {
	switch r {
	case Normal:
		return t.Normal
	case Caching:
		return t.Caching
	case Saving:
		return t.Saving
	case ReadOnly:
		return t.ReadOnly
	default:
		return t.Cut
	}
}

// Validate reports the first text that is too long or no plain line of text, wrapping ErrText.
func (t Texts) Validate() error {
	for r := Normal; r <= Cut; r++ {
		if err := checkText(t.Of(r)); err != nil {
			return fmt.Errorf("%s: %w", r.Mode(), err)
		}
	}
	return nil
}

func checkText(s string) error {
	switch {
	case len(s) > MaxText:
		return fmt.Errorf("%w: %d bytes, at most %d", ErrText, len(s), MaxText)
	case !utf8.ValidString(s):
		return fmt.Errorf("%w: not UTF-8", ErrText)
	case strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("%w: it has characters that do not print, or line breaks", ErrText)
	case s != strings.TrimSpace(s):
		return fmt.Errorf("%w: blanks around it", ErrText)
	}
	return nil
}
