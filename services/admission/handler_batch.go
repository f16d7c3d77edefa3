package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/weir-project/weir/pkg/budgetstore"
)

// maxBatch bounds the reservations of one request.
const maxBatch = 256

// batchItemCall is how the metrics name one reservation of a batch, beside the batch itself.
const batchItemCall = "POST /v1/reservations:batch (each)"

// batchItem is one reservation of a batch, or what is wrong with it.
type batchItem struct {
	req     reserveRequest
	problem *Problem
}

// reserveBatchHTTP decodes a batch: POST /v1/reservations:batch.
func (s *Service) reserveBatchHTTP(ctx context.Context, c caller, w http.ResponseWriter, r *http.Request) (answer, error) {
	var req batchRequest
	if p := s.decode(w, r, &req, notEmpty); p != nil {
		return answer{}, p
	}
	if p := checkBatch(len(req.Reservations)); p != nil {
		return answer{}, p
	}
	items := make([]batchItem, len(req.Reservations))
	for i, raw := range req.Reservations {
		items[i].problem = decodeStrict(raw, &items[i].req)
	}
	return s.reserveBatch(ctx, c, items)
}

func checkBatch(n int) *Problem {
	if n < 1 || n > maxBatch {
		return invalid("reservations", fmt.Sprintf("reservations has %d members, not 1 to %d.", n, maxBatch))
	}
	return nil
}

// reserveBatch decides on several reservations of the caller's tenant in one round trip, in order, each as if it had come
// alone. The batch itself is answered 200; what fails, a store that is away too, fails each of its reservations.
func (s *Service) reserveBatch(ctx context.Context, c caller, items []batchItem) (answer, error) {
	results := make([]batchResult, len(items))
	var (
		ready []prepared
		place []int // where the answer to ready[n] goes
		last  rates
	)
	for i, item := range items {
		if item.problem != nil {
			results[i] = s.batchResult(answer{}, item.problem)
			continue
		}
		var p prepared
		if err := s.prepare(&c, &item.req, &p); err != nil {
			results[i] = s.batchResult(answer{}, err)
			continue
		}
		ready, place = append(ready, p), append(place, i)
	}
	for n, r := range s.decideAll(ctx, ready) {
		var a answer
		err := r.Err
		if err == nil {
			a, err = s.conclude(&c, &ready[n], &r.Reply)
		}
		if a.rates.known > 0 {
			last = a.rates
		}
		results[place[n]] = s.batchResult(a, err)
	}
	return answer{status: http.StatusOK, body: batchAnswer{Results: results}, rates: last}, nil
}

// batchResult is the answer to one of them, counted.
func (s *Service) batchResult(a answer, err error) batchResult {
	if err != nil {
		p := s.failed(err)
		s.metrics.answers.WithLabelValues(batchItemCall, string(p.Code)).Inc()
		return batchResult{Status: p.Status, Problem: p}
	}
	s.metrics.answers.WithLabelValues(batchItemCall, codeGood).Inc()
	return batchResult{Status: a.status, Reservation: a.body.(*reserveAnswer)} // conclude answers with nothing else
}

// decideAll asks the store about all of them at once. They are of one tenant; where its counters do not exist yet, they
// are made and whatever found none is asked again.
func (s *Service) decideAll(ctx context.Context, ready []prepared) []budgetstore.Result {
	results := make([]budgetstore.Result, len(ready))
	if len(ready) == 0 {
		return results
	}
	open := make([]int, len(ready)) // those without a decision
	for n := range open {
		open[n] = n
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	err := s.onTenant(ctx, ready[0].request.Tenant, func() error {
		requests := make([]budgetstore.Request, len(open))
		for i, n := range open {
			requests[i] = ready[n].request
		}
		asked, again := open, []int(nil)
		var missing error
		for i, r := range s.counters.ReserveBatch(ctx, requests) {
			results[asked[i]] = r
			if errors.Is(r.Err, budgetstore.ErrLost) || errors.Is(r.Err, budgetstore.ErrNotReady) {
				again, missing = append(again, asked[i]), r.Err
			}
		}
		open = again
		return missing
	})
	for _, n := range open { // the counters could not be made
		results[n].Err = err
	}
	return results
}
