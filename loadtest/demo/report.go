package demo

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/weir-project/weir/loadtest/oracle"
)

// printBill is the bill per tenant, cost centre and agent, with the sum of each tenant.
func printBill(out io.Writer, bill oracle.Bill) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "TENANT\tCOST CENTRE\tAGENT\tCALLS\tINPUT\tOUTPUT\tRAW USD\tBILLED USD")
	line := func(l oracle.Line) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\n", l.Tenant, l.CostCenter, l.Agent, l.Calls, l.Input, l.Output, oracle.Dollars(l.Raw), oracle.Dollars(l.Billed))
	}
	for i, l := range bill {
		line(l)
		if i+1 == len(bill) || bill[i+1].Tenant != l.Tenant {
			sum := bill.Total(l.Tenant)
			sum.CostCenter, sum.Agent = "all", "all"
			line(sum)
		}
	}
	return w.Flush()
}

// errNotTheBill says that the ledger and the oracle differ.
var errNotTheBill = errors.New("the bill is not the oracle's")

// check compares the bill with the oracle's and says so.
func check(out io.Writer, s Scenario, want, got oracle.Bill) error {
	differences := want.Differences(got)
	for i, d := range differences {
		if i == 20 {
			fmt.Fprintf(out, "and %d more\n", len(differences)-i)
			break
		}
		fmt.Fprintln(out, "oracle:", d)
	}
	if len(differences) > 0 {
		return fmt.Errorf("%w: %d differences", errNotTheBill, len(differences))
	}
	trace := got.Total(unique(s.Trace.Turns)...)
	total := got.Total()
	fmt.Fprintf(out, "trace calls: %d, raw $%s\n", trace.Calls, oracle.Dollars(trace.Raw))
	fmt.Fprintf(out, "oracle: the whole bill is right to the last digit: %d calls, raw $%s, billed $%s\n", total.Calls, oracle.Dollars(total.Raw), oracle.Dollars(total.Billed))
	return nil
}
