package budgetstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var sources embed.FS

// scripts are the Lua programs, each with the parts it shares put before it
// or where a line "--#name" asks for them.
type scripts struct {
	reserve, batch, extend, finish, due, journal, external, execution, branch, tenant, budget, owes *redis.Script
	base, baseScopes, baseExecutions, merge, pend, unpend, forget, clear                            *redis.Script
}

func loadScripts() (scripts, error) {
	var failed error
	// What a batch has in the place of a part of reserve.
	instead := map[string]string{}
	var read func(name string) string
	read = func(name string) string {
		if other := instead[name]; other != "" {
			name = other
		}
		text, err := sources.ReadFile("lua/" + name + ".lua")
		failed = errors.Join(failed, err)
		var b strings.Builder
		for line := range strings.Lines(string(text)) {
			if part, ok := strings.CutPrefix(line, "--#"); ok {
				line = read(strings.TrimSpace(part))
			}
			b.WriteString(line)
		}
		return b.String()
	}
	with := func(names ...string) *redis.Script {
		var b strings.Builder
		for _, name := range names {
			b.WriteString(read(name))
		}
		return redis.NewScript(b.String())
	}
	reserve := with("reserve")
	instead["read"], instead["store"] = "again", "later"
	batch := with("batch")
	return scripts{
		reserve:   reserve,
		batch:     batch,
		extend:    with("state", "days", "roll", "charge", "minutes", "executions", "scopes", "holds", "extend"),
		finish:    with("finish"),
		due:       with("state", "sweep", "due"),
		journal:   with("state", "days", "roll", "charge", "executions", "scopes", "remember", "holds", "journal"),
		external:  with("state", "days", "executions", "scopes", "external"),
		execution: with("state", "executions", "execution"),
		branch:    with("state", "executions", "branch"),
		tenant:    with("state", "tenant"),
		owes:      with("state", "owes"),
		budget:    with("state", "days", "roll", "minutes", "sweep", "budget"),

		base:           with("state", "days", "roll", "charge", "fence", "based", "base"),
		baseScopes:     with("state", "days", "roll", "charge", "scopes", "fence", "based", "base_scopes"),
		baseExecutions: with("state", "executions", "fence", "base_executions"),
		merge:          with("state", "days", "roll", "charge", "executions", "scopes", "holds", "fence", "based", "merge"),
		pend:           with("state", "days", "roll", "charge", "executions", "scopes", "holds", "pend"),
		unpend:         with("state", "unpend"),
		forget:         with("state", "forget"),
		clear:          with("state", "fence", "clear"),
	}, failed
}

// First bytes of a reply. 2 to 4 belong to reserve and extend.
const (
	replyDone     = 0
	replyElse     = 1 // not there, or there already: the script's header says
	replyRefused  = 2
	replyConflict = 3
	replyEnded    = 4
	replyLost     = 10
	replyNotReady = 11
	replyEpoch    = 12
	replySkew     = 13
	replyFull     = 14
	replyFenced   = 15
)

// run calls a script and returns the reply's first byte and the figures after
// it. States of the store that no caller can work with come back as errors.
func (s *Store) run(ctx context.Context, name string, script *redis.Script, keys []string, args ...any) (byte, *figures, error) {
	reply, err := text(s.eval(ctx, script, keys, args...))
	return parse(name, reply, err)
}

func parse(name, text string, err error) (byte, *figures, error) {
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %s: %w", ErrUnavailable, name, err)
	}
	if text == "" {
		return 0, nil, fmt.Errorf("%w: %s: empty reply", ErrUnavailable, name)
	}
	if err := storeError(text[0]); err != nil {
		return 0, nil, fmt.Errorf("%s: %w", name, err)
	}
	return text[0], &figures{b: []byte(text[1:])}, nil
}

func storeError(code byte) error {
	switch code {
	case replyLost:
		return ErrLost
	case replyNotReady:
		return ErrNotReady
	case replyEpoch:
		return ErrEpoch
	case replySkew:
		return ErrClockSkew
	case replyFull:
		return ErrFull
	case replyFenced:
		return ErrFenced
	default:
		return nil
	}
}
