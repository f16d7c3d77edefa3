// Command weir-oracle prints the bill that `make run` must end with, computed from the trace files, the price rows and
// the scenario alone. It talks to nothing.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/weir-project/weir/loadtest"
	"github.com/weir-project/weir/loadtest/oracle"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "weir-oracle:", err)
		os.Exit(1)
	}
}

func run() error {
	var in oracle.Inputs
	var errs []error
	for name, to := range map[string]*[]byte{
		loadtest.TraceConv: &in.Conv, loadtest.TraceCode: &in.Code, loadtest.Prices: &in.Prices, loadtest.Scenario: &in.Scenario,
	} {
		raw, err := loadtest.Input(name)
		*to = raw
		errs = append(errs, err)
	}
	bill, err := oracle.Demo(in)
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	for _, line := range bill {
		fmt.Println(line)
	}
	fmt.Println("total", bill.Total())
	return nil
}
