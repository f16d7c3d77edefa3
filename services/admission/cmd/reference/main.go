// Command reference writes what docs/reference says about admission's API: openapi.json and codes.md. With -check it
// writes nothing and fails where they are not current.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/weir-project/weir/services/admission"
)

func main() { os.Exit(run()) }

// run returns the exit code: 0 current or written, 1 not current, 2 it could not be made.
func run() int {
	dir := flag.String("dir", "docs/reference", "folder of the files")
	check := flag.Bool("check", false, "only compare")
	flag.Parse()
	files, err := admission.Reference()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	code := 0
	for name, content := range files {
		path := filepath.Join(*dir, name)
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
			continue
		}
		if *check {
			fmt.Fprintf(os.Stderr, "%s is not current: run `make gen`\n", path)
			code = 1
			continue
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
	}
	return code
}
