package clickhouse

import (
	"fmt"
	"strconv"
	"strings"
)

// intent is the range of journal offsets, both ends included, that a writer is about to insert.
type intent struct{ from, to int64 }

// intentPrefix versions the metadata's format.
const intentPrefix = "v1;pending="

// String is the metadata of the committed offset: "v1;pending=from..to".
func (i intent) String() string { return fmt.Sprintf("%s%d..%d", intentPrefix, i.from, i.to) }

// parseIntent reads committed metadata; "" means that nothing is pending. What it does not know is an error: guessing
// could lose or double a range.
func parseIntent(metadata string) (i intent, pending bool, err error) {
	if metadata == "" {
		return intent{}, false, nil
	}
	rest, ok := strings.CutPrefix(metadata, intentPrefix)
	from, to, ok2 := strings.Cut(rest, "..")
	if ok && ok2 {
		i.from, err = strconv.ParseInt(from, 10, 64)
		if err == nil {
			i.to, err = strconv.ParseInt(to, 10, 64)
		}
	}
	if !ok || !ok2 || err != nil || i.from < 0 || i.to < i.from {
		return intent{}, false, fmt.Errorf("committed metadata %q is not an intent of this version", metadata)
	}
	return i, true, nil
}

// token names a block for deduplication: the same token always goes with the same rows.
func (i intent) token(topic string, partition int32, month int) string {
	return fmt.Sprintf("%s|%d|%d|%d|%d", topic, partition, i.from, i.to, month)
}
