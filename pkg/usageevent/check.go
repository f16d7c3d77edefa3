package usageevent

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Check reports the first text member of d that Decode would refuse, or a cache hit that is none, as an *Error with its
// Field: for whoever makes an event of what somebody else said, before it is acknowledged. Empty members are absent.
func Check(d Data) error {
	for _, m := range d.texts() {
		if *m.to == "" {
			continue
		}
		err := checkText(m.name, *m.to, m.limit)
		if err == nil && m.kind == asID {
			err = requiredID(m.name, *m.to, m.limit)
		}
		if err != nil {
			err.Field = m.name
			return err
		}
	}
	d.Status = strings.ToUpper(d.Status)
	if err := checkCacheHit(d); err != nil {
		err.Field = "cache_hit"
		return err
	}
	return nil
}

// EncodeReadable is Encode of an event that Decode takes; for any other it is Decode's error: for whoever must not
// acknowledge what nobody will be able to read.
func EncodeReadable(ev Event) ([]byte, error) {
	value, plainUsage := encode(&ev)
	if plainUsage && len(value) <= MaxBytes && ev.plain() {
		return value, nil
	}
	if _, err := Decode(value, nil); err != nil {
		return nil, err
	}
	return value, nil
}

// CheckID reports why s identifies nothing: it is empty, the text of a null, longer than MaxID, or has control
// characters. The error is an *Error; name is how it calls s.
func CheckID(name, s string) error {
	if err := requiredID(name, s, MaxID); err != nil {
		err.Field = name
		return err
	}
	return nil
}

// PeekID is the id that an event claims, as far as it can be read where Decode refuses the event; "" where it cannot. It
// is made clean and short: for people who look for it, not for identity.
func PeekID(value []byte, header Header) string {
	if header != nil {
		if id := headerText(header, "ce_id"); id != "" {
			return Clean(id, MaxOwnID)
		}
	}
	if len(value) > MaxBytes {
		return ""
	}
	var id string
	if body, err := members(value, "event"); err == nil && body.present("id") {
		if json.Unmarshal(body["id"], &id) != nil {
			id = string(body["id"])
		}
	}
	return Clean(id, MaxOwnID)
}

// Clean makes a text that Decode takes of any other: control characters become blanks, and it is cut to limit bytes
// between characters. For what only informs, so that it must not stop what is booked.
func Clean(s string, limit int) string {
	if s == "" {
		return ""
	}
	s = strings.Map(func(r rune) rune {
		if control(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
	s = strings.TrimSpace(s)
	if len(s) <= limit {
		return s
	}
	cut := limit
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strings.TrimSpace(s[:cut])
}

func control(r rune) bool { return r < 0x20 || r == 0x7f }
