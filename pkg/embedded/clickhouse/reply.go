package clickhouse

import (
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// writeException answers as ClickHouse does: the status, the code in a header, the text in the body.
func writeException(w http.ResponseWriter, err error) {
	var e *Exception
	if !errors.As(err, &e) {
		e = newException(codeLogical, "%v", err)
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=UTF-8")
	h.Set("X-ClickHouse-Exception-Code", strconv.Itoa(e.Code))
	if e.Code == codeAuthFailed {
		h.Set("WWW-Authenticate", `Basic realm="ClickHouse server HTTP API"`)
	}
	w.WriteHeader(e.status())
	_, _ = io.WriteString(w, e.Text+"\n")
}

// contentType of an output format.
func contentType(format string) string {
	switch {
	case strings.HasPrefix(format, "JSONEachRow"), strings.HasPrefix(format, "JSONCompactEachRow"):
		return "application/x-ndjson; charset=UTF-8"
	case strings.HasPrefix(format, "JSON"):
		return "application/json; charset=UTF-8"
	case strings.HasPrefix(format, "CSV"):
		return "text/csv; charset=UTF-8; header=absent"
	case strings.HasPrefix(format, "TabSeparated"), strings.HasPrefix(format, "TSV"):
		return "text/tab-separated-values; charset=UTF-8"
	case strings.HasPrefix(format, "Pretty"), format == "Vertical", format == "Markdown":
		return "text/plain; charset=UTF-8"
	default:
		return "application/octet-stream"
	}
}

// isHello recognises the query with which clickhouse-go opens a connection.
func isHello(text string) bool {
	return strings.Join(strings.Fields(text), " ") == "SELECT displayName(), version(), revision(), timezone()"
}

// writeHello answers it by hand. The driver reads this one block in the layout of the revision that it announces, and
// all later ones in that of the revision which it is told here. 0 means the plain Native format, which is all that the
// engine can write.
func (f *front) writeHello(w http.ResponseWriter, r *http.Request) error {
	const withBlockInfo, withSerialization = 1, 54454
	revision, _ := strconv.Atoi(r.URL.Query().Get("client_protocol_version")) // absent: 0, plain
	var b []byte
	if revision >= withBlockInfo {
		b = append(b, 1, 0, 2, 0xff, 0xff, 0xff, 0xff, 0) // field 1: no overflows; field 2: bucket -1; end
	}
	b = append(b, 4, 1) // columns, rows
	column := func(name, kind string, value []byte) {
		b = appendString(appendString(b, name), kind)
		if revision >= withSerialization {
			b = append(b, 0) // default serialization
		}
		b = append(b, value...)
	}
	column("displayName()", "String", appendString(nil, "weir embedded"))
	column("version()", "String", appendString(nil, f.engine.version))
	column("revision()", "UInt32", make([]byte, 4))
	column("timezone()", "String", appendString(nil, f.engine.timezone))
	w.Header().Set("Content-Type", contentType("Native"))
	w.Header().Set("X-ClickHouse-Format", "Native")
	_, _ = w.Write(b)
	return nil
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
