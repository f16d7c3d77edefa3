// Command weirpart is `weir part` alone: the tests run their parts with it.
package main

import (
	"os"

	"github.com/weir-project/weir/pkg/embedded"
)

func main() { os.Exit(embedded.PartCommand(os.Args[1:])) }
