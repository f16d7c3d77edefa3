// Package budgetstore owns the counters that admission decides by, and every
// Redis command and script on them. It is the only package that speaks Redis.
//
// It owns: the keys below, the Lua scripts under lua/ and their bytes. It
// does not own the rule (pkg/domain/admit states it, the reserve script
// applies it), nor what is true for ever: that is Postgres and the journal.
//
// Keys of a tenant t share the hash tag {t}, so one call is one slot of a
// Redis Cluster:
//
//	w:{t}:s       a hash: epoch, windows, open second, ring of    <= 4 KB beside the name, no TTL
//	              one-second buckets (61), 33 days, 3 months,
//	              the last 64 ids that ended; and per open hold <= 600 B +
//	              context (<= MaxContext), holds being at most
//	              concurrency and what the reaper has not seen;
//	              and per execution that holds something 150 B
//	w:{t}:d       what only a repeat needs of those 64 ids, a     448 B, no TTL
//	              string (lua/remember.lua)
//	w:{t}:e       holds that are expiring, a hash by id           the same each, at most 65,536, then ErrFull
//	w:{t}:x:<root> one root execution                            73 B (400 with its key and its place), TTL from its start
//	w:{t}:v:r     the executions that were started, a sorted set  MaxExecutions, then no other one is started (ErrExecutions)
//	w:{t}:v:u     others that usage or a revocation has named     MaxExecutions, then totals of others are left out; twice
//	                                                            as many with those that were revoked
//	w:{t}:x:{<id> a branch of one (a child's own limit)          the same, TTL an hour longer than its tokens
//	w:{t}:v:x     the branches that live, a sorted set           none is started above 16,384, 100 B each
//	w:{t}:o       the open executions, a set                      as many as their limit; none without one
//	w:{t}:c:<kind>:<id> a sub-scope that has ceilings of its own  <= 4 KB (usually 1.4 to 2), TTL 36 days from the last day it
//	              (kind c, a or k), laid out as the state       was reserved in; named ones are as many as the plan's,
//	                                                            those of its "*" 1,024 a kind: at most 12 MB a tenant
//	w:{t}:v:<kind> which of "*" are there, a sorted set           1,024 ids, 150 B each
//	w:{t}:n       pending holds: of an earlier epoch, shown by      <= 600 B + context each, at most twice the
//	              receipt while the counters are made anew       concurrency, TTL 24 h
//	w:epoch       the epoch of this Redis, no TTL
//	w:seal        the token of a planned restart, no TTL
//	w:kill        kill switches, a hash by scope, at most admit.MaxKills; no TTL
//	w:used:<hash> a webhook that was taken, about 150 B, TTL = twice its window
//
// Invariants:
//   - One script call decides and changes everything, or nothing.
//   - A missing state key is ErrLost, never an empty budget. Only
//     CreateTenant makes one.
//   - Numbers in Lua are doubles: each counter stays below 2^53. A reservation
//     that would pass it is refused; a settle or an external total that would
//     is held at the bound, which blocks further admission. Numbers travel as
//     packed 8-byte integers or doubles, never by tostring or "..".
//   - Counters that are lost are made anew by one maker (base.go): the scripts
//     keep away an earlier one, and whoever would make what is in use.
//   - A new connection meets only a master that Allow names. One that is open
//     is not compared again: a server that is made a replica and promoted again
//     (REPLICAOF, by an operator) keeps its connections, and is seen to be one,
//     or to have another id, by whoever calls Compare or Inspect next.
//   - Time is Redis' own, never earlier than the last decision; reserved-at is
//     unique per tenant. The last argument "test clock" of a script is empty
//     in production: only Options.ScriptClock sets it.
//   - The sliding minute is 61 buckets of a second: it can count up to one
//     second too much, never too little.
//   - Constant work: no call reads a list that grows with traffic; each bucket
//     is read once, when it leaves. Days are summed when the day turns and
//     when an earlier day changes. Only calls that bring sub-scopes or branches
//     pay for them. Only when a lease may have ended are the
//     open holds walked, once in about the length of a lease, never for less
//     than one lease that ended or was settled.
//   - Calls that ride in one round trip know nothing of each other: each has
//     its own answer or error (stream.go).
//   - Every command is idempotent by reservation id, version or journal
//     offset, so the client may retry after a time-out.
//
// The last 30 days are today and the 30 days before it, so they count up to a
// day too much, never too little; where a zone leaves a date out, they are as
// much shorter. A plan may change its kind of month at any time: both are sums
// of the same days. So it may its time zone, and then the day and month of now
// may be ones that had ended. What open holds may give back of a month may read
// too low after such a change until those holds have ended.
//
// At MaxExecutions a call of an execution whose key is gone, an entry of the journal and a hold that is opened again still
// take a place: a token proves that it was started. LoadBase brings back MaxExecutions at most of roots with own usage, of
// other roots and of branches, each those that were used last. A total that was left out comes with the next one of its
// execution, once that is known; until then an execution that was started in between does not count it.
//
// Beyond 1,024 live values of a plan's "*" per kind, the others share one
// sub-scope, "~", with the ceilings of "*". External totals of a value that
// shares it here, but has totals of its own, count against the tenant only.
//
// Residue: an external correction of a calendar minute (a late settle that
// reverses an UNSETTLED entry) may mask other external usage of that minute for
// up to 60 s after what it corrects has left the sliding window. A minute whose
// corrections exceed its usage counts as 0, never as credit.
//
// A release gives dollars, tokens and concurrency back; the request stays
// counted in requests per minute and in the execution's calls: the gate was
// passed. Growth of a hold is charged to the second it happens in, and to the
// day and month of the reservation.
//
// Scripts derive further keys from the state key's name where only a hold
// knows them; they never leave the tenant's slot.
package budgetstore
