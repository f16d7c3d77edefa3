package clickhouse

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// The codes of ClickHouse's exceptions that this front raises itself.
const (
	codeUnknownFormat  = 73
	codeNotImplemented = 48
	codeLogical        = 49
	codeSyntax         = 62
	codeReadonly       = 164
	codeTooMany        = 202
	codeTooManyBytes   = 307
	codeBadArguments   = 36
	codeUnknownSetting = 115
	codeAuthFailed     = 516
	codeAborted        = 236
)

// Exception is an error as ClickHouse reports it: a number and a text.
type Exception struct {
	Code int
	Text string // begins with "Code: N. DB::Exception: "
}

func (e *Exception) Error() string { return e.Text }

func newException(code int, format string, args ...any) *Exception {
	return &Exception{Code: code, Text: fmt.Sprintf("Code: %d. DB::Exception: %s", code, fmt.Sprintf(format, args...))}
}

// parseException reads the engine's text, which sometimes wraps an exception in another one of the same code.
func parseException(text string) *Exception {
	text = strings.TrimSpace(text)
	prefix := regexp.MustCompile(`^Code: (\d+)\. DB::Exception: `)
	code := codeLogical
	for {
		m := prefix.FindStringSubmatch(text)
		if m == nil {
			return &Exception{Code: codeLogical, Text: fmt.Sprintf("Code: %d. DB::Exception: %s", codeLogical, text)}
		}
		code, _ = strconv.Atoi(m[1])
		inner := text[len(m[0]):]
		if !prefix.MatchString(inner) {
			return &Exception{Code: code, Text: text}
		}
		text = inner
	}
}

// status is the HTTP status for an exception. Clients branch on the code; the status tells proxies and people whose
// fault it was.
func (e *Exception) status() int {
	switch e.Code {
	case codeSyntax, codeBadArguments, codeUnknownSetting, codeUnknownFormat, 6, 8, 10, 16, 26, 27, 38, 41, 42, 43, 44, 47, 53, 69, 70, 72, 117, 386, 456, 457:
		return http.StatusBadRequest
	case 46, 60, 81:
		return http.StatusNotFound
	case codeAuthFailed, codeReadonly, 497:
		return http.StatusForbidden
	case codeTooManyBytes:
		return http.StatusRequestEntityTooLarge
	case codeTooMany:
		return http.StatusTooManyRequests
	case codeNotImplemented:
		return http.StatusNotImplemented
	case 159, 209:
		return http.StatusRequestTimeout
	case codeAborted:
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}
