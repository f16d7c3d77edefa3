package budgetstore

import "context"

// Call is one call of the reserve script as a client sends it: for
// measurements that run it next to others.
type Call struct {
	Hash string // of the script, which Redis knows once Reserve has run
	Keys []string
	Args []any
	// Holds are the fields of the first key that the hold consists of.
	Holds []string
}

// ReserveCall is what Reserve would send. It checks and sends nothing.
func (s *Store) ReserveCall(r Request) Call {
	keys, args := s.reserveCall(r)
	return Call{Hash: s.scripts.reserve.Hash(), Keys: keys, Args: args, Holds: []string{r.ID, "{h" + r.ID}}
}

// Admitted reports whether a reply of the script is a yes.
func (c Call) Admitted(reply string) bool { return len(reply) == stateSize }

// Send sends a call on the connections that Reserve's share. Hash may name another script, for a measurement of the two.
func (s *Store) Send(ctx context.Context, c Call) error {
	return s.shared.do(ctx, c.Keys[0], &sharedCall{cmd: evalSha(ctx, c.Hash, c.Keys, c.Args)})
}
