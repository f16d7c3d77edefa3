package httpbench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// perClient is how many reservations each client makes for a slot of settles.
const perClient = settles / clients

// post writes a request with what comes from every real client.
func (w *world) post(b *bytes.Buffer, path string, body []byte) {
	b.WriteString("POST ")
	b.WriteString(path)
	b.WriteString(" HTTP/1.1\r\nHost: admission\r\nUser-Agent: bench\r\nAuthorization: Bearer ")
	b.WriteString(w.key)
	b.WriteString("\r\nContent-Type: application/json\r\nContent-Length: ")
	b.WriteString(strconv.Itoa(len(body)))
	b.WriteString("\r\n\r\n")
	b.Write(body)
}

// id is a new one for every reservation of the run, and the one of the n-th reservation of a client's last slot.
func (w *world) id(client, n int) string {
	return "call-" + strconv.Itoa(w.slots) + "-" + strconv.Itoa(client) + "-" + strconv.Itoa(n)
}

// reserve is an endless row of reservations.
func (w *world) reserve(b *bytes.Buffer, client, n int) (int, bool) {
	body := fmt.Appendf(nil, `{"reservation_id":"%s","provider":"openai","model":"gpt-4o","estimate":{"input_tokens":900,"max_output_tokens":300},`+
		`"effect":"read","lease_seconds":120,"execution_token":"%s"}`, w.id(client, n), w.tokens[client])
	w.post(b, "/v1/reservations", body)
	return http.StatusCreated, true
}

// reserveSome are the reservations that settle ends.
func (w *world) reserveSome(b *bytes.Buffer, client, n int) (int, bool) {
	status, _ := w.reserve(b, client, n)
	return status, n < perClient
}

// usage is what a provider answers, without the text.
const usage = `{"usage":{"prompt_tokens":880,"completion_tokens":210,"total_tokens":1090,"prompt_tokens_details":{"cached_tokens":128,"audio_tokens":0},` +
	`"completion_tokens_details":{"reasoning_tokens":64,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}},` +
	`"api":"chat.completions","status":"SUCCESS"}`

// settle ends what reserveSome made.
func (w *world) settle(b *bytes.Buffer, client, n int) (int, bool) {
	w.post(b, "/v1/reservations/"+w.id(client, n)+"/settle", []byte(usage))
	return http.StatusOK, n < perClient
}

// trivial is the same request as reserve, to the floor.
func (w *world) trivial(b *bytes.Buffer, client, n int) (int, bool) {
	w.reserve(b, client, n)
	return http.StatusCreated, true
}

// commit is the same request as settle, to the floor that commits a row.
func (w *world) commit(b *bytes.Buffer, _, n int) (int, bool) {
	w.post(b, commitPath, []byte(usage))
	return http.StatusOK, n < perClient
}

// startExecutions gets every client an execution token.
func (w *world) startExecutions(ctx context.Context) error {
	for client := range clients {
		c, err := dial(ctx, w.admission.address)
		if err != nil {
			return err
		}
		var b bytes.Buffer
		w.post(&b, "/v1/executions", fmt.Appendf(nil, `{"root_execution_id":"root-%d","agent_id":"agent-%d","cost_center":"bench","max_cost_usd":"100000","max_depth":5}`, client, client))
		err = c.ask(b.Bytes(), http.StatusCreated)
		c.close()
		if err != nil {
			return fmt.Errorf("start an execution: %w", err)
		}
		var made struct {
			Token string `json:"token"`
		}
		if err := json.Unmarshal(c.body, &made); err != nil {
			return fmt.Errorf("start an execution: %w", err)
		}
		w.tokens = append(w.tokens, made.Token)
	}
	return nil
}
