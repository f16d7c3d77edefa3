package admission

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// rollOut is how long replicas may go on signing with the old key after the first one signs with the new: an old key
// ends when the last token that it could have signed until then does.
const rollOut = time.Hour

// publishKeys announces the public half of this replica's token key, and then when the old ones end. All replicas write
// the same records; before the first is written no token can be verified, so this replica is not ready.
func (s *Service) publishKeys(ctx context.Context) error {
	if !s.publishKey(ctx, s.cfg.TokenKey.Record()) {
		return nil
	}
	for _, old := range s.cfg.OldTokenKeys {
		if s.keyEnds(ctx, old.GetKeyId()) {
			continue // told once: a restart must not move the end
		}
		record := proto.CloneOf(old)
		end := s.deps.Now().Add(s.cfg.TokenTTL + rollOut)
		record.NotAfter = timestamppb.New(end)
		if s.publishKey(ctx, record) {
			s.deps.Log.Info("an old signing key will end", "key", old.GetKeyId(), "not_after", end.UTC())
		}
	}
	<-ctx.Done()
	return nil
}

// keyEnds reports whether the end of a key is announced, once all announcements are read.
func (s *Service) keyEnds(ctx context.Context, id string) bool {
	for _, f := range s.catalogs.followers {
		if f.Topic().Name() == topics.ControlKeys.Name() && f.WaitReady(ctx) != nil {
			return true // stopping
		}
	}
	known, ok := s.catalogs.signing.Get(id)
	return ok && known.GetNotAfter() != nil
}

// publishKey writes one record, trying until Kafka has it; false if ctx ended before.
func (s *Service) publishKey(ctx context.Context, key *weirv1.SigningKey) bool {
	value, err := proto.MarshalOptions{Deterministic: true}.Marshal(key)
	if err != nil { // cannot happen: the record is made of valid parts
		s.deps.Log.Error("signing key", "error", fmt.Errorf("encode: %w", err))
		return false
	}
	record := bus.NewRecord(topics.ControlKeys, key.GetKeyId(), []byte(key.GetKeyId()), value)
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		try, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := s.producer.Produce(try, record)
		cancel()
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		s.deps.Log.Warn("the signing key could not be published yet", "key", key.GetKeyId(), "error", err)
		select {
		case <-ctx.Done():
			return false
		case <-time.After(wait):
		}
	}
}
