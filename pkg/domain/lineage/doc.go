// Package lineage owns where a call stands: the trace context that agents pass on, and the tree of an execution.
//
// It owns: reading traceparent and tracestate (W3C Trace Context) leniently, writing them as valid members, and rolling
// costs up a tree whose nodes arrive in any order. It does not own who pays: what a trace says is a claim, which an
// execution token overrules (Context.Contradicts).
//
// Invariants:
//   - Nothing here fails: what does not parse is skipped and counted. If traceparent does not parse, tracestate is not read.
//   - A Tree depends on the set of its calls only, not on their order, and the costs of its roots' subtrees add up to the
//     cost of all calls, whatever parents were claimed. What it does not know it says: Node.Silent, Node.Unplaced.
//
// Bounds: maxState bytes and maxMembers members are read, an id has at most maxID bytes.
package lineage
