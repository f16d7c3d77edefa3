// Package caller is an agent's side of Weir over HTTP: start an execution, reserve, settle.
//
// It owns the JSON that goes over the wire, keep-alive, and what to do with a refusal: one that carries Retry-After is
// repeated under the same id, every other is final (invariant I9). It does not own what is called and when.
//
// Invariants: a request is repeated only with the same id and content; nothing here counts money.
package caller

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// maxAnswer bounds an answer that is read.
const maxAnswer = 1 << 20

// Client talks to one admission with one key. It is safe for concurrent use.
type Client struct {
	url, key string
	http     *http.Client
}

// New is a client for the admission at url (no path) with an API key.
func New(url, key string, client *http.Client) *Client { return &Client{url, key, client} }

// HTTP is a client that keeps conns connections open, for as many callers.
func HTTP(conns int) *http.Client {
	return &http.Client{
		Timeout:   15 * time.Second,
		Transport: &http.Transport{MaxIdleConns: conns, MaxIdleConnsPerHost: conns, IdleConnTimeout: time.Minute, DisableCompression: true},
	}
}

// Execution asks for the token of an agent: of a root, or of a child by its parent's token. Empty members are absent.
type Execution struct {
	RootExecutionID string `json:"root_execution_id,omitempty"`
	ParentToken     string `json:"parent_token,omitempty"`
	AgentID         string `json:"agent_id"`
	CostCenter      string `json:"cost_center,omitempty"`
}

// Started is the answer to an Execution.
type Started struct {
	RootExecutionID string `json:"root_execution_id"`
	Token           string `json:"token"`
}

// Reservation asks for one call. Without an ExecutionToken the agent stands in the request itself.
type Reservation struct {
	ID             string           `json:"reservation_id"`
	Provider       string           `json:"provider"`
	Model          string           `json:"model"`
	Estimate       map[string]int64 `json:"estimate"`
	Effect         string           `json:"effect,omitempty"` // read (default) or write
	ExecutionToken string           `json:"execution_token,omitempty"`
	AgentID        string           `json:"agent_id,omitempty"`
	CostCenter     string           `json:"cost_center,omitempty"`
	LeaseSeconds   int64            `json:"lease_seconds,omitempty"`
}

// Estimate is a prompt of so many tokens, and the most that may be answered.
func Estimate(input, maxOutput int64) map[string]int64 {
	return map[string]int64{"input_tokens": input, "max_output_tokens": maxOutput}
}

// Admission is the answer to an admitted Reservation, as far as anybody here asks for it; so are the other answers.
type Admission struct {
	Model   string `json:"model"` // the one granted
	Rung    int    `json:"rung"`
	Receipt string `json:"receipt"`
}

// Settlement says what a call has used.
type Settlement struct {
	Usage     map[string]int64 `json:"usage,omitempty"`
	API       string           `json:"api,omitempty"`
	Status    string           `json:"status,omitempty"`
	Model     string           `json:"model,omitempty"`     // the one that answered, if not the one granted
	CacheHit  string           `json:"cache_hit,omitempty"` // exact or semantic, instead of usage
	ErrorCode string           `json:"error_code,omitempty"`
	Receipt   string           `json:"receipt,omitempty"`
}

// Chat is the settlement of a successful call by OpenAI's usage object.
func Chat(input, output int64) Settlement {
	return Settlement{Usage: map[string]int64{"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output},
		API: "chat.completions", Status: "SUCCESS"}
}

// Settled is the answer to a Settlement. CostUSD is decimal text, "" when unpriced.
type Settled struct {
	CostUSD string   `json:"cost_usd"`
	Late    bool     `json:"late"`
	Flags   []string `json:"flags"`
}

// Window is one window of dollars in a Budget, as decimal text.
type Window struct {
	CeilingUSD   string `json:"ceiling_usd"`
	UsedUSD      string `json:"used_usd"`
	OwnUSD       string `json:"own_usd"`
	ExternalUSD  string `json:"external_usd"`
	HeldUSD      string `json:"held_usd"`
	RemainingUSD string `json:"remaining_usd"`
}

// Budget is the answer of GET /v1/budget.
type Budget struct {
	Rung        int               `json:"rung"`
	Mode        string            `json:"mode"`
	PercentUsed int64             `json:"percent_used"`
	Windows     map[string]Window `json:"windows"` // minute, day, month
}

// Refusal is an answer of 400 and above; it is an error.
type Refusal struct {
	Status       int
	Code         string `json:"code"`
	Limit        string `json:"limit"`
	Window       string `json:"window"`
	Detail       string `json:"detail"`
	RetryAfterMS int64  `json:"retry_after_ms"`
	// RetryAfter is above zero exactly where the answer said when to come back.
	RetryAfter time.Duration
}

// Error is code, limit and detail.
func (r *Refusal) Error() string {
	return fmt.Sprintf("%d %s %s%s: %s", r.Status, r.Code, r.Limit, r.Window, r.Detail)
}

// Start starts an execution, or a child agent in one.
func (c *Client) Start(ctx context.Context, e Execution) (out Started, err error) {
	err = c.do(ctx, http.MethodPost, "/v1/executions", e, &out)
	return out, err
}

// Close ends a root execution.
func (c *Client) Close(ctx context.Context, root string) error {
	return c.do(ctx, http.MethodPost, "/v1/executions/"+url.PathEscape(root)+"/close", nil, nil)
}

// Reserve asks for one call.
func (c *Client) Reserve(ctx context.Context, r Reservation) (out Admission, err error) {
	err = c.do(ctx, http.MethodPost, "/v1/reservations", r, &out)
	return out, err
}

// Settle reports what a reserved call has used.
func (c *Client) Settle(ctx context.Context, id string, s Settlement) (out Settled, err error) {
	err = c.do(ctx, http.MethodPost, "/v1/reservations/"+url.PathEscape(id)+"/settle", s, &out)
	return out, err
}

// State is where a reservation stands: open, expiring, settled, released, expired or external.
func (c *Client) State(ctx context.Context, id string) (string, error) {
	var out struct {
		State string `json:"state"`
	}
	err := c.do(ctx, http.MethodGet, "/v1/reservations/"+url.PathEscape(id), nil, &out)
	return out.State, err
}

// Release gives a reservation back: the call was never made.
func (c *Client) Release(ctx context.Context, id string) error {
	return c.do(ctx, http.MethodPost, "/v1/reservations/"+url.PathEscape(id)+"/release", struct{}{}, nil)
}

// Extend is the heartbeat of a long call; the receipt keeps its hold where Redis has forgotten it. stop: the call must end.
func (c *Client) Extend(ctx context.Context, id, receipt string) (stop bool, err error) {
	var out struct {
		Stop bool `json:"stop"`
	}
	err = c.do(ctx, http.MethodPost, "/v1/reservations/"+url.PathEscape(id)+"/extend", map[string]string{"receipt": receipt}, &out)
	return out.Stop, err
}

// Budget is the caller's own budget.
func (c *Client) Budget(ctx context.Context) (out Budget, err error) {
	err = c.do(ctx, http.MethodGet, "/v1/budget", nil, &out)
	return out, err
}

// do sends one request. A refusal is a *Refusal; any other error means that the outcome is not known.
func (c *Client) do(ctx context.Context, method, path string, body, into any) error {
	var send io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
		send = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, send)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return refusal(resp, raw)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s %s: answer: %w", method, path, err)
	}
	return nil
}

func refusal(resp *http.Response, raw []byte) *Refusal {
	r := &Refusal{Status: resp.StatusCode}
	if json.Unmarshal(raw, r) != nil || r.Code == "" {
		r.Detail = string(raw)
	}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		r.RetryAfter = max(time.Duration(seconds)*time.Second, time.Millisecond)
		if fine := time.Duration(r.RetryAfterMS) * time.Millisecond; fine > 0 && fine < r.RetryAfter {
			r.RetryAfter = fine
		}
	}
	return r
}
