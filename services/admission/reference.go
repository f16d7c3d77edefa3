package admission

import (
	"fmt"
	"strings"

	"github.com/weir-project/weir/pkg/domain/admit"
)

// problemType is the type URI of RFC 9457.
func problemType(code admit.Code) string { return "urn:weir:problem:" + string(code) }

// Reference is the generated part of docs/reference: contents by file name.
func Reference() (map[string][]byte, error) {
	document, err := openAPI((&Service{}).table(), false)
	return map[string][]byte{"openapi.json": document, "codes.md": codesPage()}, err
}

// codesPage is the table of codes for readers.
func codesPage() []byte {
	var b strings.Builder
	b.WriteString(`# Codes

<!-- Generated from services/admission/codes.go: make gen. -->

Every error of admission has a stable ` + "`code`" + `. Over HTTP it is an RFC 9457 problem document (` + "`application/problem+json`" + `) with ` + "`type`, `title`, `status`, `code`" + `
and ` + "`detail`" + `, and with the members that say more: ` + "`limit`, `window`, `scope`, `field`, `state`, `resets_at`, `upgrade_url`, `used`, `asked`, `ceiling`, `rung`, `percent_used`, `message`, `retry_after_ms`" + `.
The type is ` + "`urn:weir:problem:` and the code" + `; the title is the same for every occurrence.

A retry makes sense exactly where there is a ` + "`Retry-After`" + ` (whole seconds, jittered, at most 65; ` + "`retry_after_ms`" + ` has it finer). ` + "`RateLimit-Policy`" + ` and
` + "`RateLimit`" + ` are the structured fields of the IETF draft, in the answers to reservations. The first has those that the tenant has of the
policies ` + "`requests`, `input_tokens`, `output_tokens` (each per minute; `qu=\"tokens\"`) and `concurrency` (`qu=\"concurrent-requests\"`)" + `, the
second what they leave: all of them where a call is admitted; where one of them refused (` + "`rate_limited`" + `), that one, with the seconds until
the same call fits by time alone; after any other refusal, ` + "`estimate_exceeds_limit`" + ` among them, there is the first field alone. So: ` + "`\"requests\";q=60;w=60, \"concurrency\";q=20;qu=\"concurrent-requests\"` and `\"requests\";r=0;t=12`" + `. In the
answer to a repeat they are those of the first answer, and after a batch those of its last reservation.

Over gRPC the same problem has the code of the last column, with ` + "`google.rpc.ErrorInfo` (domain `weir`, reason = the code), `google.rpc.RetryInfo`" + ` exactly
where HTTP has ` + "`Retry-After`, `google.rpc.QuotaFailure`" + ` for a quota, ` + "`google.rpc.BadRequest`" + ` where a field is named, and ` + "`weir.v1.Problem`" + ` with every
member. UNAVAILABLE and RESOURCE_EXHAUSTED may be retried, nothing else may: a quota is no rate.

If several limits fail, the one that must not be retried is reported; ` + "`execution_revoked`" + ` precedes ` + "`execution_budget_exceeded`" + `; a kill precedes everything but a
request that cannot be read or has no valid credential. An outage is never ` + "`unauthenticated`" + `.
A credential in the header (for Slack: that there is a signature, and its time) is judged before the body has come, and a ` + "`Content-Length`" + ` above the
bound after it; the connection ends then, unless the body was there.

What Go's HTTP server refuses before it is a request is no problem document: it is a line of plain text, or nothing but the status, and the connection
ends. That is 400 for a request line, a header or a ` + "`Host`" + ` that cannot be read, and for plain HTTP where TLS is spoken; 417 for an ` + "`Expect`" + ` that is not
` + "`100-continue`" + `; 431 for a header above 64 KiB; 501 for a ` + "`Transfer-Encoding`" + ` that is not ` + "`chunked`" + `; 505 for a version that is not HTTP/1. A retry gets the same.

| code | HTTP | retry | who acts | when | gRPC |
|---|---|---|---|---|---|
`)
	for _, line := range codeTable() {
		retry := "no"
		if line.code.Retryable() {
			retry = "yes, `Retry-After`"
		}
		when := line.when
		if line.notYet != "" {
			when += " Not answered by this version: " + line.notYet + "."
		}
		fmt.Fprintf(&b, "| `%s` | %d | %s | %s | %s | %s |\n", line.code, status(line.code), retry, line.who, when, grpcName(line))
	}
	return []byte(b.String())
}

// grpcName is a code of gRPC as its documentation writes it.
func grpcName(line codeLine) string {
	var b strings.Builder
	for i, r := range line.grpc.String() {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.ToUpper(b.String())
}
