package referencetest

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// reports are the numbers that must have a test.
func reports() []int {
	return []int{1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17, 19, 20, 22, 23, 25, 26, 28, 29, 31, 32, 34, 35, 37, 38, 40, 41, 43, 44, 46, 47, 49, 50,
		100, 101, 103, 104, 106, 107}
}

// TestFieldReportIndex reads docs/reference/field-reports.md: each number once and in order, each test that it names where
// it says.
func TestFieldReportIndex(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root, "docs/reference/field-reports.md"))
	if err != nil {
		t.Fatal(err)
	}
	seen, last := map[int]bool{}, 0
	name := regexp.MustCompile("`([^`:]+_test\\.go): (Test\\w+)(?:/(\\w+))?`")
	for line := range strings.Lines(string(raw)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		number, err := strconv.Atoi(strings.TrimSpace(cells[0]))
		if err != nil || len(cells) != 4 {
			continue
		}
		if seen[number] || number <= last {
			t.Errorf("report %d is there twice, or out of order", number)
		}
		seen[number], last = true, number
		tests := name.FindAllStringSubmatch(cells[3], -1)
		if len(tests) == 0 {
			t.Errorf("report %d names no test", number)
		}
		for _, m := range tests {
			source, err := os.ReadFile(filepath.Join(root, m[1]))
			if err != nil {
				t.Errorf("report %d: %v", number, err)
				continue
			}
			_, body, found := strings.Cut(string(source), "\nfunc "+m[2]+"(")
			if !found {
				t.Errorf("report %d: %s has no %s", number, m[1], m[2])
			}
			if m[3] != "" && !strings.Contains(body, `"`+m[3]+" ") {
				t.Errorf("report %d: %s has no case %s", number, m[2], m[3])
			}
		}
	}
	for _, n := range reports() {
		if !seen[n] {
			t.Errorf("report %d is not in the index", n)
		}
	}
}
