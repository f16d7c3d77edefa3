// Package citest tests what continuous integration runs beside the tests: the summary of what failed. It holds only tests.
package citest
