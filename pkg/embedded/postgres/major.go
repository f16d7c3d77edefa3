package postgres

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// DataMajor is the major version of the cluster below a part's folder, 0 if there is none: only programs of the same
// version can open it.
func DataMajor(dir string) int {
	b, err := os.ReadFile(filepath.Join(dir, "data", "PG_VERSION"))
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0
	}
	return n
}
