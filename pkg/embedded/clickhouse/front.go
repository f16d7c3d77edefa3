package clickhouse

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// Bounds of one request.
const (
	// maxBody is the most that a request body may hold when its query is in the URL: it goes to a file.
	maxBody = 1 << 30
	// maxText is the most that a body may hold that is, or begins with, the query: it is read into memory.
	maxText = 32 << 20
)

// front speaks ClickHouse's HTTP interface, as far as clickhouse-go and curl use it.
type front struct {
	engine *engine
	// secrets by user: the hash of the password, nil for none. Users that are not here do not exist.
	secrets map[string][]byte
}

const (
	userDefault = "default"
	userFinance = "finance"
)

func secretHash(password string) []byte {
	h := sha256.Sum256([]byte(password))
	return h[:]
}

// ServeHTTP answers /ping, / and queries.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/ping", r.URL.Path == "/" && r.Method == http.MethodGet && r.URL.RawQuery == "":
		_, _ = io.WriteString(w, "Ok.\n")
		return
	case r.URL.Path != "/":
		http.NotFound(w, r)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodPost:
		http.Error(w, "only GET and POST", http.StatusMethodNotAllowed)
		return
	}
	if err := f.serve(w, r); err != nil {
		writeException(w, err)
	}
}

// serve reads a query, runs it and writes its answer.
func (f *front) serve(w http.ResponseWriter, r *http.Request) error {
	user, err := f.authenticate(r)
	if err != nil {
		return err
	}
	if err := refuseUnsupported(r); err != nil {
		return err
	}
	query, err := f.read(w, r, user == userFinance)
	if err != nil {
		return err
	}
	if query.dataFile != "" {
		defer os.Remove(query.dataFile)
	}
	if isHello(query.text) {
		return f.writeHello(w, r)
	}
	if query.readonly {
		if err := query.guard(f.engine.forbidden); err != nil {
			return err
		}
	}
	if r.Method == http.MethodGet && !query.reads() {
		return newException(codeReadonly, "Cannot execute query in readonly mode. For queries over HTTP, method GET implies readonly. You should use method POST for modifying queries. (READONLY)")
	}
	if query.sessionOnly() {
		return nil
	}
	a, err := f.engine.do(r.Context(), query)
	if err != nil {
		return err
	}
	format := query.format
	if query.statement.format != "" {
		format = query.statement.format
	}
	h := w.Header()
	h.Set("Content-Type", contentType(format))
	h.Set("X-ClickHouse-Format", format)
	h.Set("X-ClickHouse-Timezone", f.engine.timezone)
	h.Set("X-ClickHouse-Summary", fmt.Sprintf(`{"read_rows":"%d","written_rows":"%d"}`, a.rowsRead, a.rowsPut))
	h.Set("Content-Length", strconv.Itoa(len(a.body)))
	_, _ = w.Write(a.body) // a client that left gets nothing
	return nil
}

// authenticate takes the user from headers, basic authentication or parameters, in this order.
func (f *front) authenticate(r *http.Request) (string, error) {
	user, password := r.Header.Get("X-ClickHouse-User"), r.Header.Get("X-ClickHouse-Key")
	if user == "" && password == "" {
		var basic bool
		if user, password, basic = r.BasicAuth(); !basic {
			user, password = r.URL.Query().Get("user"), r.URL.Query().Get("password")
		}
	}
	if user == "" {
		user = userDefault
	}
	want, known := f.secrets[user]
	if known && (want == nil || subtle.ConstantTimeCompare(want, secretHash(password)) == 1) {
		return user, nil
	}
	return "", newException(codeAuthFailed, "%s: Authentication failed: password is incorrect, or there is no user with such name. (AUTHENTICATION_FAILED)", user)
}

// refuseUnsupported says clearly what this front lacks, rather than giving an answer that cannot be read.
func refuseUnsupported(r *http.Request) error {
	p := r.URL.Query()
	encoding := r.Header.Get("Content-Encoding")
	switch {
	case p.Get("compress") == "1", p.Get("decompress") == "1", encoding != "" && encoding != "identity":
		return newException(codeNotImplemented, "the embedded ClickHouse speaks no compression: use a client without it. (NOT_IMPLEMENTED)")
	case p.Get("session_id") != "":
		return newException(codeNotImplemented, "the embedded ClickHouse has no sessions over HTTP. (NOT_IMPLEMENTED)")
	case strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/"):
		return newException(codeNotImplemented, "the embedded ClickHouse takes no external tables. (NOT_IMPLEMENTED)")
	}
	return nil
}

// read makes a request of the URL and the body. The data of an insert go to a file, whose removal is the caller's.
func (f *front) read(w http.ResponseWriter, r *http.Request, readonly bool) (*request, error) {
	q := &request{readonly: readonly, format: "TabSeparated", settings: map[string]string{}, parameters: map[string]string{}}
	q.database = r.Header.Get("X-ClickHouse-Database")
	if v := r.Header.Get("X-ClickHouse-Format"); v != "" {
		q.format = v
	}
	if err := q.takeParameters(r.URL.Query()); err != nil {
		return nil, err
	}
	text := r.URL.Query().Get("query")
	body := io.Reader(http.MaxBytesReader(w, r.Body, maxBody))
	var err error
	if text != "" {
		if q.statement, err = parse(text); err == nil && q.dataAt >= 0 {
			return q, f.engine.spoolData(q, body)
		}
		text += "\n"
	}
	rest, readErr := io.ReadAll(http.MaxBytesReader(w, io.NopCloser(body), maxText))
	if readErr != nil {
		return nil, bodyError(readErr)
	}
	if len(rest) == 0 && err != nil {
		return nil, err
	}
	if q.statement, err = parse(strings.TrimRight(text+string(rest), "\n")); err != nil {
		return nil, err
	}
	if q.dataAt >= 0 {
		return q, f.engine.spoolData(q, strings.NewReader(""))
	}
	return q, nil
}

func bodyError(err error) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return newException(codeTooManyBytes, "the request body is larger than %d bytes. (TOO_MANY_BYTES)", tooLarge.Limit)
	}
	return newException(codeAborted, "the request body ended early: %v. (ABORTED)", err)
}

// settingName is what a setting may be called; it goes into the SQL as it is.
var settingName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_]{0,127}$`)

// transport are parameters of the HTTP interface itself, which are no settings of the engine.
func transport(name string) bool {
	switch name {
	case "query", "user", "password", "query_id", "quota_key", "client_protocol_version", "compress", "decompress", "session_timeout",
		"session_check", "close_session", "stacktrace", "wait_end_of_query", "buffer_size", "send_progress_in_http_headers",
		"http_headers_progress_interval_ms", "enable_http_compression", "http_write_exception_in_output_format", "role":
		return true
	}
	return false
}

// harmless settings may be changed by the read-only user: drivers send them by themselves.
func harmless(setting string) bool {
	return setting == "max_execution_time" || setting == "max_result_rows" || strings.HasPrefix(setting, "output_format_")
}

// takeParameters sorts the URL's parameters into the interface's own, query parameters and settings.
func (q *request) takeParameters(values map[string][]string) error {
	for name, v := range values {
		value := v[len(v)-1]
		switch {
		case transport(name):
		case name == "database":
			q.database = value
		case name == "default_format":
			q.format = value
		case !settingName.MatchString(name):
			return newException(codeUnknownSetting, "%q is no name of a setting. (UNKNOWN_SETTING)", name)
		case strings.HasPrefix(name, "param_"):
			q.parameters[strings.TrimPrefix(name, "param_")] = value
		case q.readonly && !harmless(name):
			return newException(codeReadonly, "Cannot modify '%s' setting in readonly mode. (READONLY)", name)
		default:
			q.settings[name] = value
		}
	}
	return nil
}

// spoolData writes an insert's data, those in the text and those that follow, to a file that the engine loads.
func (e *engine) spoolData(q *request, body io.Reader) error {
	file, err := os.CreateTemp(e.spool, "insert-*")
	if err != nil {
		return fmt.Errorf("spool an insert: %w", err)
	}
	q.dataFile = file.Name()
	_, err = io.Copy(file, io.MultiReader(strings.NewReader(q.text[q.dataAt:]), body))
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		_ = os.Remove(q.dataFile)
		return bodyError(err)
	}
	return nil
}
