// Command weir-oracle prints the bill that `make run` must end with, computed from the trace files, the price rows and
// the scenario alone. It talks to nothing.
package main

import (
	"fmt"
	"os"

	"github.com/weir-project/weir/loadtest/oracle"
)

func main() {
	bill, err := oracle.Expected()
	if err != nil {
		fmt.Fprintln(os.Stderr, "weir-oracle:", err)
		os.Exit(1)
	}
	for _, line := range bill {
		fmt.Println(line)
	}
	fmt.Println("total", bill.Total())
}
