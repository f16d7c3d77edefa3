package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// The description of the API, OpenAPI 3.1. It is made once, at the start, from the routes, from what operations says about
// them, and from the structs of wire.go; nothing of it is written by hand twice.

// doc is a node of the document.
type doc = map[string]any

// openAPI makes the document. strict closes the answers too, which no client should rely on: it is for tests.
func openAPI(routes []route, strict bool) ([]byte, error) {
	s := &schemas{strict: strict, all: doc{}}
	paths := doc{}
	known := operations()
	for _, r := range routes {
		method, path, _ := strings.Cut(r.pattern, " ")
		item, ok := paths[path].(doc)
		if !ok {
			item = doc{}
			paths[path] = item
		}
		o, ok := known[r.pattern]
		if !ok {
			return nil, fmt.Errorf("admission: nothing describes %s", r.pattern)
		}
		item[strings.ToLower(method)] = s.operation(path, o)
	}
	maps.Copy(paths, operational())
	s.problem()
	text, err := json.MarshalIndent(doc{
		"openapi": "3.1.0",
		"info": doc{"title": "Weir admission", "version": "v1", "license": doc{"name": "Apache-2.0", "identifier": "Apache-2.0"},
			"description": "Decides before a call whether a tenant may spend, and takes what was spent after it. Money is a decimal string in US dollars, times are RFC 3339. " +
				"Errors are RFC 9457 problem documents with a stable `code`, but for what is no HTTP request that can be read (400, 417, 431, 501, 505)."},
		"paths":      paths,
		"components": doc{"schemas": s.all, "securitySchemes": securitySchemes()},
	}, "", "  ")
	return append(text, '\n'), err
}

// describe serves the document: GET /openapi.json, to anyone.
func (s *Service) describe(context.Context, caller, http.ResponseWriter, *http.Request) (answer, error) {
	return answer{status: http.StatusOK, body: s.description}, nil
}

func securitySchemes() doc {
	return doc{
		byBearer:   doc{"type": "http", "scheme": "bearer", "description": "An API key (wk_…) or a JWT."},
		"mtls":     doc{"type": "mutualTLS", "description": "A client certificate, where no Authorization header is sent."},
		bySlack:    doc{"type": "apiKey", "in": "header", "name": "X-Slack-Signature", "description": "Slack's signature of the raw body, with X-Slack-Request-Timestamp."},
		byTelegram: doc{"type": "apiKey", "in": "header", "name": "X-Telegram-Bot-Api-Secret-Token"},
	}
}

func (s *schemas) operation(path string, o operation) doc {
	out := doc{"operationId": o.id, "summary": o.summary, "responses": s.responses(o), "security": []doc{}}
	switch o.who {
	case byBearer:
		out["security"] = []doc{{byBearer: []string{}}, {"mtls": []string{}}}
	case byAnyone:
	default:
		out["security"] = []doc{{o.who: []string{}}}
	}
	if parameters := parametersOf(path, o); len(parameters) > 0 {
		out["parameters"] = parameters
	}
	content := doc{}
	switch {
	case o.request != nil:
		content["application/json"] = doc{"schema": s.ref(o.request, true)}
	case o.types != nil:
		for _, t := range o.types {
			content[t] = doc{"schema": doc{}}
		}
	default:
		return out
	}
	out["requestBody"] = doc{"required": !o.optional, "content": content}
	return out
}

func parametersOf(path string, o operation) []doc {
	var out []doc
	for _, name := range []string{"id", "root"} {
		if strings.Contains(path, "{"+name+"}") {
			out = append(out, doc{"name": name, "in": "path", "required": true, "schema": idSchema()})
		}
	}
	for _, name := range o.query {
		out = append(out, doc{"name": name, "in": "query", "schema": parameter(name)})
	}
	if o.who == byBearer {
		out = append(out, doc{"name": tenantHeader, "in": "header", "schema": doc{"type": "string"}, "description": "Which of the credential's tenants is meant; needed where it has several."})
		out = append(out, doc{"name": "Accept-Language", "in": "header", "schema": doc{"type": "string"}, "description": "The language of texts for the end user."})
	}
	return out
}

func (s *schemas) responses(o operation) doc {
	out := doc{}
	for _, a := range o.answers {
		response := doc{"description": http.StatusText(a.status)}
		if o.rates {
			response["headers"] = rateHeaders()
		}
		if a.body != nil {
			response["content"] = doc{"application/json": doc{"schema": s.ref(a.body, false)}}
		}
		out[strconv.Itoa(a.status)] = response
	}
	grouped := byStatus(o.problemsOf())
	for _, n := range slices.Sorted(maps.Keys(grouped)) {
		var lines []string
		headers := doc{}
		if o.rates && n == http.StatusTooManyRequests {
			headers = rateHeaders()
		}
		for _, c := range grouped[n] {
			lines = append(lines, fmt.Sprintf("`%s`: %s.", c, title(c)))
			if c.Retryable() {
				headers["Retry-After"] = doc{"schema": doc{"type": "integer", "minimum": 1}, "description": "Seconds; only where a retry makes sense."}
			}
		}
		response := doc{"description": strings.Join(lines, " "), "content": doc{"application/problem+json": doc{"schema": doc{"$ref": "#/components/schemas/Problem"}}}}
		if len(headers) > 0 {
			response["headers"] = headers
		}
		out[strconv.Itoa(n)] = response
	}
	return out
}

// rateHeaders are the RateLimit fields.
func rateHeaders() doc {
	return doc{
		"RateLimit-Policy": doc{"schema": doc{"type": "string"}, "description": "The tenant's rates and its concurrency, as the IETF draft writes them."},
		"RateLimit":        doc{"schema": doc{"type": "string"}, "description": "What they leave, as far as the decision says."},
	}
}

// operational are the paths of pkg/obs.
func operational() doc {
	get := func(id, summary string, media string, statuses ...int) doc {
		responses := doc{}
		for _, n := range statuses {
			responses[strconv.Itoa(n)] = doc{"description": http.StatusText(n), "content": doc{media: doc{"schema": doc{}}}}
		}
		return doc{"get": doc{"operationId": id, "summary": summary, "responses": responses, "security": []doc{}}}
	}
	return doc{
		"/healthz":  get("health", "Whether the process runs", "application/json", http.StatusOK),
		"/readyz":   get("readiness", "Whether it can decide", "application/json", http.StatusOK, http.StatusServiceUnavailable),
		"/metrics":  get("metrics", "Prometheus metrics", "text/plain", http.StatusOK),
		"/catalogz": get("catalogs", "Which offsets of the catalogs are applied", "application/json", http.StatusOK),
	}
}
