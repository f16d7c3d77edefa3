package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-project/weir/pkg/embedded/install"
	"github.com/weir-project/weir/pkg/embedded/part"
	"github.com/weir-project/weir/pkg/embedded/redis"
	"github.com/weir-project/weir/pkg/httpbench"
	"github.com/weir-project/weir/pkg/storebench"
)

// overStore measures the script.
func overStore(ctx context.Context, url, dir string) error {
	if url == "" {
		installer, err := install.New("", nil)
		if err != nil {
			return err
		}
		binary, err := installer.Redis(ctx)
		if err != nil {
			return err
		}
		p, err := redis.Start(ctx, redis.Config{Config: part.Config{Dir: dir}, Binary: binary})
		if err != nil {
			return err
		}
		defer func() { _ = p.Stop(part.DefaultGrace) }()
		url = p.Address
	}
	figures, err := storebench.Figures(ctx, url, time.Now)
	return errors.Join(write(figures), err)
}

// overHTTP measures the service.
func overHTTP(ctx context.Context, url, dir string, log io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the binaries: %w", err)
	}
	figures, err := httpbench.Figures(ctx, httpbench.Config{Admission: filepath.Join(filepath.Dir(self), "admission"), Floor: []string{self, floor},
		Dir: dir, Redis: url, Log: log, Now: time.Now})
	return errors.Join(write(figures), err)
}

func write(figures []storebench.Figure) error {
	out := json.NewEncoder(os.Stdout)
	for _, f := range figures {
		if err := out.Encode(f); err != nil {
			return fmt.Errorf("write figure: %w", err)
		}
	}
	return nil
}
