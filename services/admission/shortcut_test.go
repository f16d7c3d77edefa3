package admission

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// Goal: a path is served by the same handler with the shortcut as without, whatever the method and however it is written.
func TestShortcutIsTheMux(t *testing.T) {
	said := func(what string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Said", what) })
	}
	whole := map[string]http.Handler{"/v1/reservations": said("reserve"), "/v1/reservations:batch": said("batch")}
	mux := http.NewServeMux()
	for path, h := range whole {
		mux.Handle("POST "+path, h)
	}
	mux.Handle("GET /v1/reservations/{id}", said("state"))
	plain := fallback(mux)
	quick := shortcut(whole, plain)
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodHead, http.MethodOptions} {
		for _, path := range []string{"/v1/reservations", "/v1/reservations/", "/v1//reservations", "/v1/x/../reservations", "/v1%2Freservations", "/v1/%72eservations",
			"/v1/reservations?a=b", "/v1/reservations:batch", "/v1/reservations%3Abatch", "/v1/reservations/r1", "/", "/v2"} {
			answers := [2]*httptest.ResponseRecorder{httptest.NewRecorder(), httptest.NewRecorder()}
			for i, h := range []http.Handler{plain, quick} {
				h.ServeHTTP(answers[i], httptest.NewRequest(method, path, nil))
			}
			if a, b := answers[0], answers[1]; a.Code != b.Code || a.Header().Get("Said") != b.Header().Get("Said") || a.Body.String() != b.Body.String() {
				t.Errorf("%s %s: %d %q, not %d %q", method, path, b.Code, b.Header(), a.Code, a.Header())
			}
		}
	}
}
