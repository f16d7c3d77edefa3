// Package referencetest compares docs/reference with the code: the tables of a reservation's life with what the books
// do, and the index of field reports with the tests it names. It has no code of its own.
package referencetest
