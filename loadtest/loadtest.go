// Package loadtest carries the inputs of the load tests inside the binary, so that a demo or a test runs from any
// folder. testdata/README.md says where they come from.
package loadtest

import "embed"

//go:embed testdata/azure_llm_trace_2023_conv.csv testdata/azure_llm_trace_2023_code.csv testdata/prices_sample.json demo/tenants.yaml demo/scenario.json
var inputs embed.FS

// Names of the inputs that Input knows.
const (
	TraceConv = "testdata/azure_llm_trace_2023_conv.csv"
	TraceCode = "testdata/azure_llm_trace_2023_code.csv"
	Prices    = "testdata/prices_sample.json"
	Tenants   = "demo/tenants.yaml"
	Scenario  = "demo/scenario.json"
)

// Input is the content of one of the inputs, by its path below loadtest/. An unknown name is an error.
func Input(name string) ([]byte, error) { return inputs.ReadFile(name) }
