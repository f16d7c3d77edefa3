// Package obs is what operators see of a service: its log, its metrics, its health, and which catalog it has applied.
//
// It owns the field names of the logs and the four operational paths. It does not know Kafka or any store: services give
// it functions. Bounds: request bodies are not read, answers are small, and every check has a time-out.
package obs

import (
	"fmt"
	"io"
	"log/slog"
)

// The field names of all logs. Prompts, completions and secrets are never logged.
const (
	TenantID        = "tenant_id"
	RootExecutionID = "root_execution_id"
	EventID         = "event_id"
	Topic           = "topic"
	Partition       = "partition"
	Offset          = "offset"
	ErrID           = "err_id"
)

// NewLogger makes a logger. level is debug, info, warn or error; format is json or text. Every line carries the service.
func NewLogger(w io.Writer, level, format, service string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("-log-level %q: want debug, info, warn or error", level)
	}
	opts := &slog.HandlerOptions{Level: l}
	var h slog.Handler
	switch format {
	case "json":
		h = slog.NewJSONHandler(w, opts)
	case "text":
		h = slog.NewTextHandler(w, opts)
	default:
		return nil, fmt.Errorf("-log-format %q: want json or text", format)
	}
	return slog.New(h).With("service", service), nil
}
