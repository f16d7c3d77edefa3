// Package contracttest holds the tests of the contracts as data: every internal message has golden examples under
// schemas/weir/v1/examples, each decodes strictly and encodes to itself, and the descriptors are compatible with
// schemas/baseline.binpb. It has no code of its own.
//
// It does not own the usage event (pkg/usageevent, JSON) nor the topics' declarations (pkg/cmd/contractgen checks them).
package contracttest
