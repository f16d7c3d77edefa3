package httpbench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// errAnswer: an answer that is not the one expected, so the slot measured something else.
var errAnswer = errors.New("not the answer that was wanted")

// maxRefused is how many answers of a slot may be others than wanted. Where programs besides wait for the same cores, a
// moment without any misses the deadline of everyone who waits then: once for each client. They are no part of a rate.
const maxRefused = clients

// target is a server under load.
type target struct {
	address string // host:port
	pid     int
}

// loaded is what a slot did: requests a second, percentiles of their times in ms, the processor time of the server and of
// this process for each, in µs, and how many were refused.
type loaded struct {
	rate, p50, p99, serverCPU, loadCPU float64
	refused                            int64
}

// request writes the n-th request of a client in a slot to b, and says which status it wants. It returns false when the
// client has no more of them.
type request func(b *bytes.Buffer, client, n int) (status int, more bool)

// load asks a server from all clients at once, each over a connection of its own, until the slot is over; a slot of 0 ends
// when the requests do.
func (w *world) load(ctx context.Context, what string, to target, slot time.Duration, next request) (loaded, error) {
	connections := make([]*connection, clients)
	for i := range connections {
		c, err := dial(ctx, to.address)
		if err != nil {
			return loaded{}, err
		}
		defer c.close()
		connections[i] = c
	}
	var refused atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	times := make([][]time.Duration, clients)
	server, own := cpuTime(to.pid), cpuTime(os.Getpid())
	began := w.cfg.Now()
	for i, c := range connections {
		group.Go(func() error {
			var b bytes.Buffer
			for n := 0; ctx.Err() == nil; n++ {
				b.Reset()
				want, more := next(&b, i, n)
				at := w.cfg.Now()
				if !more || slot > 0 && at.Sub(began) > slot {
					return nil
				}
				if err := c.ask(b.Bytes(), want); err != nil {
					if !errors.Is(err, errAnswer) || refused.Add(1) > maxRefused {
						return err
					}
					continue
				}
				times[i] = append(times[i], w.cfg.Now().Sub(at))
			}
			return ctx.Err()
		})
	}
	err := group.Wait()
	took := w.cfg.Now().Sub(began)
	if err != nil {
		return loaded{}, err
	}
	all := slices.Concat(times...)
	if len(all) == 0 {
		return loaded{}, fmt.Errorf("%w: none", errAnswer)
	}
	slices.Sort(all)
	n := float64(len(all))
	l := loaded{rate: n / took.Seconds(), p50: millis(all[len(all)/2]), p99: millis(all[len(all)*99/100]),
		serverCPU: micros(cpuTime(to.pid)-server) / n, loadCPU: micros(cpuTime(os.Getpid())-own) / n, refused: refused.Load()}
	w.say(what, l)
	return l, nil
}

func millis(d time.Duration) float64 { return micros(d) / 1000 }

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// connection is a keep-alive HTTP/1.1 connection that costs as little as one can: the load shares the cores with what it
// measures.
type connection struct {
	conn net.Conn
	in   *bufio.Reader
	body []byte // of the last answer
}

func dial(ctx context.Context, address string) (*connection, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &connection{conn: conn, in: bufio.NewReaderSize(conn, 8<<10)}, nil
}

func (c *connection) close() { _ = c.conn.Close() }

// ask sends a request and reads its answer, which must have the wanted status and a length.
func (c *connection) ask(request []byte, want int) error {
	if _, err := c.conn.Write(request); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if len(line) < len("HTTP/1.1 200") {
		return fmt.Errorf("%w: %q", errAnswer, line)
	}
	status, length := string(line[9:12]), -1
	for {
		if line, err = c.in.ReadSlice('\n'); err != nil {
			return fmt.Errorf("read: %w", err)
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			break
		}
		if name, value, _ := bytes.Cut(line, []byte(": ")); bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return fmt.Errorf("%w: length %q", errAnswer, value)
			}
		}
	}
	if length < 0 {
		return fmt.Errorf("%w: status %s without a length", errAnswer, status)
	}
	c.body = slices.Grow(c.body[:0], length)[:length]
	for read := 0; read < length; {
		n, err := c.in.Read(c.body[read:])
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		read += n
	}
	if status != strconv.Itoa(want) {
		return fmt.Errorf("%w: %s %s", errAnswer, status, c.body)
	}
	return nil
}
