package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress tells a person on standard error what happens; downloads get a bar where a terminal can show one.
type progress struct {
	out io.Writer
	bar *progressbar.ProgressBar
}

func newProgress(out io.Writer) *progress { return &progress{out: out} }

func (p *progress) say(format string, args ...any) { fmt.Fprintf(p.out, "weir: "+format+"\n", args...) }

// Begin implements install.Reporter.
func (p *progress) Begin(what string, size int64) {
	if size <= 0 {
		p.say("installing %s", what)
		return
	}
	p.say("downloading %s, %.0f MB", what, float64(size)/1e6)
	if p.out == os.Stderr && term.IsTerminal(int(os.Stderr.Fd())) {
		p.bar = progressbar.NewOptions64(size, progressbar.OptionSetWriter(p.out), progressbar.OptionShowBytes(true),
			progressbar.OptionSetPredictTime(true), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	}
}

// Progress implements install.Reporter.
func (p *progress) Progress(done int64) {
	if p.bar != nil {
		_ = p.bar.Set64(done) // a bar that cannot be drawn is no reason to stop
	}
}

// End implements install.Reporter.
func (p *progress) End(what string) {
	if p.bar != nil {
		_ = p.bar.Finish()
		p.bar = nil
	}
	p.say("installed %s", what)
}
