// Package e2e proves the promises of the whole path on real processes: bin/weir starts the services and the parts, tests
// kill, double, pause and empty them, and the bill must stay the workload's own. The tests carry the build tag
// integration.
package e2e
