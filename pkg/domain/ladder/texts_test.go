package ladder

import (
	"errors"
	"strings"
	"testing"
)

// Own texts are one plain, bounded line each.
func TestTextsValidate(t *testing.T) {
	for _, c := range []struct {
		name, text string
		ok         bool
	}{
		{"empty", "", true},
		{"plain", "Saving mode: a smaller model answers.", true},
		{"accents", "Modo de ahorro: responde un modelo más pequeño. ¡Gracias!", true},
		{"as long as may be", strings.Repeat("x", MaxText), true},
		{"too long", strings.Repeat("x", MaxText+1), false},
		{"two lines", "a\nb", false},
		{"escape", "a\x1b[31m", false},
		{"no UTF-8", "a\xff", false},
		{"blanks around", " a", false},
	} {
		for r := Normal; r <= Cut; r++ {
			all := [...]Texts{{Normal: c.text}, {Caching: c.text}, {Saving: c.text}, {ReadOnly: c.text}, {Cut: c.text}}
			if got := all[r].Of(r); got != c.text {
				t.Fatalf("rung %d has the text %q", r, got)
			}
			err := all[r].Validate()
			if (err == nil) != c.ok || err != nil && (!errors.Is(err, ErrText) || !strings.HasPrefix(err.Error(), r.Mode())) {
				t.Errorf("%s on rung %d: %v", c.name, r, err)
			}
		}
	}
}
