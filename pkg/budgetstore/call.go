package budgetstore

import (
	"context"
	"slices"

	"github.com/weir-project/weir/pkg/domain/admit"
)

// Call is one call of a script as a client sends it: for measurements that
// run it next to others.
type Call struct {
	Hash string // of the script, which Redis knows once the store has called it
	Keys []string
	Args []any
	// Holds are the fields of the first key that its holds consist of.
	Holds []string
	size  int // of the reply that says it was done
	calls int // that are made together; 0 of one by itself
}

// ReserveCall is what Reserve would send. It checks and sends nothing.
func (s *Store) ReserveCall(r Request) Call {
	keys, args := s.reserveCall(&r)
	return Call{Hash: s.scripts.reserve.Hash(), Keys: keys, Args: args, Holds: holdFields(r.ID), size: nowSize}
}

// ReserveTogetherCall is what concurrent calls of Reserve for one tenant send, up to 64 of them, if they share a script call.
// It checks and sends nothing.
func (s *Store) ReserveTogetherCall(requests []Request) Call {
	all := make([]int, len(requests))
	c := Call{Hash: s.scripts.batch.Hash(), Keys: []string{key(requests[0].Tenant, "s")}, size: nowSize, calls: len(requests)}
	for i := range requests {
		all[i] = i
		c.Holds = append(c.Holds, holdFields(requests[i].ID)...)
	}
	c.Args = s.batchArgs(requests, all)
	return c
}

// SettleCall is what Settle would send. It checks and sends nothing.
func (s *Store) SettleCall(r Ref, actual admit.Estimate) Call {
	keys, args := s.finishCall(r, false, actual)
	return Call{Hash: s.scripts.finish.Hash(), Keys: keys, Args: args, Holds: holdFields(r.ID), size: endingSize}
}

func holdFields(id string) []string { return []string{id, "{h" + id} }

// Done reports whether a reply says that the reservation was admitted, or settled; of several, that each was.
func (c Call) Done(reply any) bool {
	if c.calls == 0 {
		text, ok := reply.(string)
		return ok && len(text) == c.size
	}
	list, ok := reply.([]any)
	return ok && len(list) == c.calls && !slices.ContainsFunc(list, func(one any) bool {
		text, ok := one.(string)
		return !ok || len(text) != c.size
	})
}

// Send sends a call on the connections that Reserve's share. Hash may name another script, for a measurement of the two.
func (s *Store) Send(ctx context.Context, c Call) error {
	return s.shared.do(ctx, c.Keys[0], &sharedCall{cmd: evalSha(ctx, c.Hash, c.Keys, c.Args)})
}
