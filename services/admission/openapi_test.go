package admission

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

// Goal: docs/reference says what this version does. -update writes it, as make gen does.
func TestReference(t *testing.T) {
	files, err := Reference()
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		path := filepath.Join("..", "..", "docs", "reference", name)
		if *update {
			if err := os.WriteFile(path, content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if old, err := os.ReadFile(path); err != nil || !bytes.Equal(old, content) {
			t.Errorf("%s is not current (run make gen): %v", path, err)
		}
	}
}

// Goal: the document is OpenAPI 3.1 by the book, has every route and no other, and needs no credential.
func TestOpenAPI(t *testing.T) {
	routes := (&Service{}).table()
	text, err := openAPI(routes, false)
	if err != nil {
		t.Fatal(err)
	}
	document, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := document.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	for path, item := range document.Paths.Map() {
		for method := range item.Operations() {
			described[method+" "+path] = true
		}
	}
	for _, r := range routes {
		if !described[r.pattern] {
			t.Errorf("%s is not described", r.pattern)
		}
		delete(described, r.pattern)
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/catalogz"} {
		delete(described, "GET "+path)
	}
	if len(described) > 0 || len(operations()) != len(routes) {
		t.Errorf("described but not there: %v", described)
	}
	s := &Service{description: text}
	a, err := s.describe(t.Context(), caller{}, nil, nil)
	if err != nil || !bytes.Equal(a.body.([]byte), text) {
		t.Error(err)
	}
}

// contractOf checks exchanges against the document, with answers closed: a member that is not described fails.
type contractOf struct {
	document *openapi3.T
	mux      *http.ServeMux
}

func newContract(t *testing.T) *contractOf {
	t.Helper()
	text, err := openAPI((&Service{}).table(), true)
	if err != nil {
		t.Fatal(err)
	}
	document, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	c := &contractOf{document: document, mux: http.NewServeMux()}
	for _, r := range (&Service{}).table() {
		c.mux.Handle(r.pattern, http.NotFoundHandler())
	}
	return c
}

// check holds one exchange against the document: the answer always, and the request where it was taken as it is.
func (c *contractOf) check(method, path string, header http.Header, body []byte, taken bool, status int, answerHeader http.Header, answer []byte) error {
	r := httptest.NewRequest(method, path, bytes.NewReader(body))
	r.Header = header.Clone()
	if len(body) > 0 && r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/json")
	}
	_, pattern := c.mux.Handler(r)
	_, described, found := strings.Cut(pattern, " ")
	if !found {
		return nil // 404 and 405 of what is no path
	}
	item := c.document.Paths.Value(described)
	options := &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true}
	input := &openapi3filter.RequestValidationInput{Request: r, PathParams: params(described, r.URL), QueryParams: r.URL.Query(), Options: options,
		Route: &routers.Route{Spec: c.document, Path: described, PathItem: item, Method: method, Operation: item.GetOperation(method)}}
	if taken {
		if err := openapi3filter.ValidateRequest(context.Background(), input); err != nil {
			return fmt.Errorf("%s: a request that was taken: %w", pattern, err)
		}
	}
	err := openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{RequestValidationInput: input, Status: status,
		Header: answerHeader, Body: io.NopCloser(bytes.NewReader(answer)), Options: options})
	if err != nil {
		return fmt.Errorf("%s: an answer: %w", pattern, err)
	}
	return nil
}

// params are the values of a path's parameters.
func params(described string, u *url.URL) map[string]string {
	out := map[string]string{}
	have := strings.Split(u.Path, "/")
	for i, part := range strings.Split(described, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok && i < len(have) {
			out[strings.TrimSuffix(name, "}")] = have[i]
		}
	}
	return out
}

// Goal: the check of exchanges would find something.
func TestContractFinds(t *testing.T) {
	c := newContract(t)
	json, problems := http.Header{"Content-Type": {"application/json"}}, http.Header{"Content-Type": {"application/problem+json"}}
	good := `{"root_execution_id":"x1","state":"closed","closed_at":"2026-11-30T00:00:00Z"}`
	for name, e := range map[string]struct {
		body   string
		status int
		header http.Header
		answer string
		ok     bool
	}{
		"good":                {`{}`, 200, json, good, true},
		"no body":             {``, 200, json, good, true},
		"an unknown member":   {`{}`, 200, json, strings.Replace(good, "state", "stat", 1), false},
		"no time":             {`{}`, 200, json, strings.Replace(good, "2026-11-30T00:00:00Z", "now", 1), false},
		"an undescribed code": {`{}`, 404, problems, `{"type":"urn:weir:problem:x","title":"t","status":404,"code":"x"}`, false},
		"a problem":           {`{}`, 404, problems, `{"type":"urn:weir:problem:execution_not_found","title":"t","status":404,"code":"execution_not_found"}`, true},
		"another status":      {`{}`, 418, problems, `{}`, false},
		"a member to it":      {`{"a":1}`, 200, json, good, false},
	} {
		err := c.check("POST", "/v1/executions/x1/close", http.Header{}, []byte(e.body), e.status < 300, e.status, e.header, []byte(e.answer))
		if (err == nil) != e.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
