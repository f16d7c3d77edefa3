package instance

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/weir-project/weir/pkg/embedded/part"
)

// runs reports whether a process runs the program that is at path now. It asks the kernel for what the process runs
// (/proc/PID/exe, which outlives the file's removal), so it also knows those that an earlier build of Weir started. A file
// that was built anew to the same bytes is the same program; one that is gone is another.
func runs(pid int, path string) (bool, error) {
	running, err := os.ReadFile(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return false, fmt.Errorf("what process %d runs: %w", pid, err)
	}
	program, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("program: %w", err)
	}
	return bytes.Equal(running, program), nil
}

// runsThisBuild reports whether a copy runs the program that would be started now. What cannot be found out is said, and
// changes nothing.
func (c Config) runsThisBuild(v Service, path string) bool {
	same, err := runs(v.PID, path)
	if err != nil {
		c.Say("whether %s runs this build is not known: %v", v.Name, err)
		return true
	}
	return same
}

// oldParts names parts that this program runs itself, and that another build of it runs still. They are left alone: their
// data are theirs, and everything waits for them while they start.
func (c Config) oldParts(s State) {
	for _, p := range s.Parts {
		if !p.Alive() || p.Kind != part.KindKfake && p.Kind != part.KindChdb {
			continue
		}
		if same, err := runs(p.PID, c.Self); err == nil && !same {
			c.Say("%s is still run by another build of weir; `weir down` and `weir up` renew it", p.Name)
		}
	}
}
