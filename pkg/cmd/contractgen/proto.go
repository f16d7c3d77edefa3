package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// baseline is the descriptor set of the schemas as they were last accepted. Every change must be compatible with it;
// a run whose schemas are compatible moves it on, so that additions are protected from then on.
const baseline = "schemas/baseline.binpb"

// generateProto lints the schemas, compares them with the baseline, and generates the packages of pkg/gen. buf and
// its plugins are tools of the module .ci/tools at pinned versions; nothing is installed on the machine.
func generateProto(ctx context.Context, out *output, root string, acceptBreaking bool) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return fmt.Errorf("repository root: %w", err)
	}
	work, err := os.MkdirTemp("", "contractgen")
	if err != nil {
		return fmt.Errorf("temporary folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	tools := toolbox{dir: filepath.Join(root, ".ci", "tools")}
	if err := tools.findPlugins(ctx, work, "protoc-gen-go", "protoc-gen-go-grpc"); err != nil {
		return err
	}
	schemas := filepath.Join(root, "schemas")
	if err := tools.run(ctx, "buf", "lint", schemas); err != nil {
		return err
	}
	committed := filepath.Join(root, filepath.FromSlash(baseline))
	if _, err := os.Stat(committed); err == nil && !acceptBreaking {
		if err := tools.run(ctx, "buf", "breaking", schemas, "--against", committed); err != nil {
			return fmt.Errorf("%w\n(a schema change must be additive; otherwise make a new version of the message)", err)
		}
	}
	image := filepath.Join(work, "image.binpb")
	if err := tools.run(ctx, "buf", "build", schemas, "--exclude-source-info", "-o", image); err != nil {
		return err
	}
	// buf resolves the template's `out` against -o, so the code lands in work/pkg/gen.
	template := filepath.Join(schemas, "buf.gen.yaml")
	if err := tools.run(ctx, "buf", "generate", schemas, "--template", template, "-o", filepath.Join(work, "schemas")); err != nil {
		return err
	}
	return collectProto(out, work, image)
}

func collectProto(out *output, work, image string) error {
	content, err := os.ReadFile(image)
	if err != nil {
		return fmt.Errorf("read descriptor image: %w", err)
	}
	if err := out.add(baseline, content); err != nil {
		return err
	}
	for _, target := range []string{"pkg/gen/weirv1", "pkg/gen/admissionv1"} {
		if err := collectPackage(out, work, target); err != nil {
			return err
		}
	}
	return nil
}

func collectPackage(out *output, work, target string) error {
	out.own(target)
	files, err := filepath.Glob(filepath.Join(work, filepath.FromSlash(target), "*.pb.go"))
	if err != nil || len(files) == 0 {
		return errors.Join(fmt.Errorf("buf generated no Go code for %s", target), err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read generated code: %w", err)
		}
		if err := out.add(target+"/"+filepath.Base(file), content); err != nil {
			return err
		}
	}
	return nil
}

// toolbox runs the pinned tools. Workspace mode is switched off: the tools module is not part of go.work, so that its
// dependencies never mix with the product's.
type toolbox struct {
	dir, path string
}

// findPlugins builds buf's plugins into the build cache and links them into bin, which goes in front of PATH for buf.
func (t *toolbox) findPlugins(ctx context.Context, bin string, names ...string) error {
	for _, name := range names {
		printed, err := t.command(ctx, "tool", "-n", name).Output()
		if err != nil {
			return fmt.Errorf("build %s from .ci/tools: %w%s", name, err, stderrOf(err))
		}
		if err := os.Symlink(strings.TrimSpace(string(printed)), filepath.Join(bin, name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("link %s: %w", name, err)
		}
	}
	t.path = bin + string(os.PathListSeparator) + os.Getenv("PATH")
	return nil
}

func (t *toolbox) run(ctx context.Context, tool string, args ...string) error {
	cmd := t.command(ctx, append([]string{"tool", tool}, args...)...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", tool, args[0], err, strings.TrimSpace(said.String()))
	}
	return nil
}

func (t *toolbox) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = t.dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if t.path != "" {
		cmd.Env = append(cmd.Env, "PATH="+t.path)
	}
	return cmd
}

// stderrOf is what a command that failed in Output said.
func stderrOf(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return "\n" + strings.TrimSpace(string(exit.Stderr))
	}
	return ""
}
