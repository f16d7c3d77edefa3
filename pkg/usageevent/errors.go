package usageevent

// Reason is why an event cannot be booked; it is the value of the header weir-dlq-reason.
type Reason string

// Reasons that this package gives. The attributor adds its own.
const (
	// Malformed: not a CloudEvent, or a member of the wrong kind.
	Malformed Reason = "malformed"
	// NoID: an id that is missing, null, empty, or the text of a null.
	NoID Reason = "no_id"
	// NegativeMeter: a quantity below zero.
	NegativeMeter Reason = "negative_meter"
	// Oversized: above MaxBytes.
	Oversized Reason = "oversized"
)

// Error is every error of this package.
type Error struct {
	Reason Reason
	// Detail says what is wrong where, for a person. It quotes at most a few bytes of the event.
	Detail string
	// Field is the member of data that is wrong, where Check found it; else empty.
	Field string
}

// Error is the reason and the detail.
func (e *Error) Error() string { return string(e.Reason) + ": " + e.Detail }

func malformed(detail string) *Error { return &Error{Reason: Malformed, Detail: detail} }
