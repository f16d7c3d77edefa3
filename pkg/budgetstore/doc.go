// Package budgetstore owns the counters that admission decides by, and all
// Redis commands and scripts on them.
package budgetstore
