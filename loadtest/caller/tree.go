package caller

import (
	"context"
	"sync"
)

// Tree is one root execution with the agents that its root agent calls: each asks for its token once. It is safe for
// concurrent use.
type Tree struct {
	client func() *Client // asked anew each time: admission may have moved
	root   Execution
	mu     sync.Mutex
	tokens map[string]string // by agent
}

// NewTree is the execution that root describes; nothing is asked before the first Token.
func NewTree(client func() *Client, root Execution) *Tree {
	return &Tree{client: client, root: root, tokens: map[string]string{}}
}

// Token is the execution token of an agent: the root's own, or a child's by the root's.
func (t *Tree) Token(ctx context.Context, agent string) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tokens[t.root.AgentID] == "" {
		if err := t.start(ctx, t.root); err != nil {
			return "", err
		}
	}
	if t.tokens[agent] == "" {
		if err := t.start(ctx, Execution{ParentToken: t.tokens[t.root.AgentID], AgentID: agent}); err != nil {
			return "", err
		}
	}
	return t.tokens[agent], nil
}

func (t *Tree) start(ctx context.Context, e Execution) error {
	return Insist(ctx, nil, func() error {
		started, err := t.client().Start(ctx, e)
		t.tokens[e.AgentID] = started.Token
		return err
	})
}
