// Package readme finds the commands that a document tells its reader to run, so that a test can run them verbatim.
//
// It owns the rule of what counts as a command: every block fenced as sh, unless a comment <!-- not run: reason -->
// stands right above it. It does not run anything.
//
// Invariants: a block is returned as it stands; the comment excuses only `make test` and `k6 run`, everything else with
// it is an error.
package readme

import (
	"fmt"
	"strings"
)

// Block is one fenced block of commands.
type Block struct {
	// Line of the opening fence, from 1.
	Line int
	Text string
	// NotRun is the reason that excuses it, "" for none.
	NotRun string
}

// Blocks returns the sh blocks of a document in order. An unclosed block, an empty one, a comment that excuses what it
// must not, or one that stands above nothing is an error.
func Blocks(markdown string) ([]Block, error) {
	var blocks []Block
	var fence string // of the block that is open
	var current *Block
	excuse, excuseLine := "", 0
	for i, line := range strings.Split(markdown, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case fence != "" && trimmed == fence:
			if current != nil {
				if err := current.check(); err != nil {
					return nil, err
				}
				blocks = append(blocks, *current)
			}
			fence, current = "", nil
		case fence != "":
			if current != nil {
				current.Text += line + "\n"
			}
		case strings.HasPrefix(trimmed, "```"):
			fence = "```"
			if strings.TrimPrefix(trimmed, "```") == "sh" {
				current = &Block{Line: i + 1, NotRun: excuse}
				excuse = ""
			}
		case strings.HasPrefix(trimmed, "<!-- not run:"):
			excuse, excuseLine = strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(trimmed, "<!-- not run:"), "-->")), i+1
			if excuse == "" {
				return nil, fmt.Errorf("line %d: not run, but no reason", i+1)
			}
		}
		if excuse != "" && trimmed != "" && i+1 > excuseLine {
			return nil, fmt.Errorf("line %d: the comment \"not run\" stands above no sh block", excuseLine)
		}
	}
	if fence != "" {
		return nil, fmt.Errorf("a fenced block is not closed")
	}
	return blocks, nil
}

func (b Block) check() error {
	text := strings.TrimSpace(b.Text)
	if text == "" {
		return fmt.Errorf("line %d: an empty block of commands", b.Line)
	}
	if b.NotRun != "" && text != "make test" && !strings.HasPrefix(text, "k6 run ") {
		return fmt.Errorf("line %d: only `make test` and `k6 run` may go without being run", b.Line)
	}
	return nil
}
