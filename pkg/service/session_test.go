package service

import (
	"testing"
	"time"
)

func TestSessionIsBounded(t *testing.T) {
	for session, ok := range map[time.Duration]bool{99 * time.Millisecond: false, 100 * time.Millisecond: true, MaxSession: true, MaxSession + 1: false} {
		if err := CheckSession(session); (err == nil) != ok {
			t.Errorf("%s: %v", session, err)
		}
	}
}
