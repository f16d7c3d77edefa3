package part

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// handOver is how long a killed process may still hold its files.
const handOver = 5 * time.Second

// LockDir makes dir and takes its lock for the life of the process, so that two processes never write the same data.
// The kernel frees the lock however the process ends.
func LockDir(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	// Of a process that was killed the first thread may have ended, so that it seems gone, while others still hold its files.
	ctx, cancel := context.WithTimeout(context.Background(), handOver)
	defer cancel()
	if err := Flock(ctx, f); err != nil {
		err = fmt.Errorf("%s is in use by another process: %w", dir, err)
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// Flock takes the lock of an open file as soon as no other process has it. It fails when ctx ends.
func Flock(ctx context.Context, f *os.File) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil || !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-tick.C:
		}
	}
}
