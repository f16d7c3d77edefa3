package admission

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// Goal: a path is served by the same handler with the shortcut as without, whatever the method and however it is written.
func TestShortcutIsTheMux(t *testing.T) {
	said := func(what string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Said", what+" "+r.PathValue("id")) })
	}
	byPattern := map[string]http.Handler{"POST /v1/reservations": said("reserve"), "POST /v1/reservations:batch": said("batch"),
		"GET /v1/reservations/{id}": said("state"), "POST /v1/reservations/{id}/settle": said("settle"), "POST /v1/executions/{root}/close": said("close")}
	mux := http.NewServeMux()
	for pattern, h := range byPattern {
		mux.Handle(pattern, h)
	}
	plain := fallback(mux, time.Now)
	quick := shortcut(byPattern, plain)
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodHead, http.MethodOptions} {
		for _, path := range []string{"/v1/reservations", "/v1/reservations/", "/v1//reservations", "/v1/x/../reservations", "/v1%2Freservations", "/v1/%72eservations",
			"/v1/reservations?a=b", "/v1/reservations:batch", "/v1/reservations%3Abatch", "/v1/reservations/r1", "/", "/v2",
			"/v1/reservations/r1/settle", "/v1/reservations/r1/settle/", "/v1/reservations/r1%2Fx/settle", "/v1/reservations/%72%31/settle", "/v1/reservations//settle",
			"/v1/reservations/../settle", "/v1/reservations/./r1/settle", "/v1/reservations/.r1/settle", "/v1/reservations/r1/more", "/v1/reservations/r1/../r2/settle",
			"/v1/reservations/r1/settle/more", "/v1/executions/r1/close", "/v1/reservations/r1/settle?a=b"} {
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
