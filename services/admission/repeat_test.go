package admission

import "testing"

// Goal (I11): a repeat that says what the first one left to the default is the same reservation, and one that says otherwise is not.
func TestDefaultsAreTheSameContent(t *testing.T) {
	of := func(effect string) any {
		req := reserveRequest{ReservationID: "r", Provider: "openai", Model: "m", Effect: effect, Estimate: quantities{"input_tokens": "1"}}
		return content(&req, &call{Effect: effect}).Fingerprint()
	}
	if of("") != of("read") {
		t.Error("a read is not a read")
	}
	if of("write") == of("read") {
		t.Error("a write is a read")
	}
}
