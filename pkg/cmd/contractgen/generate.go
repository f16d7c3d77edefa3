package main

import (
	"context"
	"errors"
)

// options switches off the two steps that need tools or a module graph, for tests and for a first build.
type options struct {
	proto, deps, acceptBreaking bool
}

// generate runs every step over root and collects what each wants written. All problems of the data are reported at
// once, so that one run shows one whole list.
func generate(ctx context.Context, root string, opt options) (*output, error) {
	set, err := load(root)
	if err != nil {
		return nil, err
	}
	if problems := set.validate(); len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	out := newOutput()
	steps := []func() error{
		func() error { return renderGo(out, set) },
		func() error { return renderReference(out, set) },
		func() error { return renderManifests(out, set) },
		func() error { return renderArchitecture(out, set, root) },
		func() error { return copyMigrations(out, root) },
		func() error { return renderADRIndex(out, root) },
	}
	if opt.proto {
		steps = append(steps, func() error { return generateProto(ctx, out, root, opt.acceptBreaking) })
	}
	if opt.deps {
		steps = append(steps, func() error { return listDeps(ctx, out, root) })
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return out, nil
}
