package clickhouse

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
)

// Bounds of one engine.
const (
	// maxWaiting is how many requests may wait for the one that runs.
	maxWaiting = 100
	// maxResultBytes bounds what one read may give: the answer is held in memory.
	maxResultBytes = 1 << 30
	// maxQueryMemory is the default of max_memory_usage; a request may set its own.
	maxQueryMemory = 4 << 30
	// maxQuerySeconds is the default of max_execution_time.
	maxQuerySeconds = 300
	// financeSeconds and financeMemory are the same for the user finance, and the most that it may have: whatever it asks, the sinks
	// and everybody else wait for it.
	financeSeconds = 20
	financeMemory  = 1 << 30
)

// engine runs statements one at a time.
type engine struct {
	lib     *library
	path    string
	spool   string   // folder for the data of inserts
	keeper  *session // keeps the engine up between requests
	slot    chan struct{}
	waiting atomic.Int64

	version, timezone string
	// forbidden names the table functions and scalar functions that the read-only user may not call.
	forbidden map[string]bool
}

func openEngine(libraryFile, dir string) (*engine, error) {
	lib, err := openLibrary(libraryFile)
	if err != nil {
		return nil, err
	}
	e := &engine{lib: lib, path: filepath.Join(dir, libraryData), spool: filepath.Join(dir, "spool"), slot: make(chan struct{}, 1)}
	// Left-overs of a killed process were never acknowledged.
	if err := os.RemoveAll(e.spool); err != nil {
		return nil, fmt.Errorf("clickhouse spool: %w", err)
	}
	for _, d := range []string{e.path, e.spool} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("clickhouse folder: %w", err)
		}
	}
	if err := sweepDropped(e.path); err != nil {
		return nil, err
	}
	if e.keeper, err = lib.open(e.path); err != nil {
		return nil, err
	}
	a, err := e.keeper.run("SELECT version(), timezone()", "TabSeparated")
	if err != nil {
		return nil, fmt.Errorf("ask the engine for its version: %w", err)
	}
	e.version, e.timezone, _ = strings.Cut(strings.TrimSpace(string(a.body)), "\t")
	return e, e.learnForbidden()
}

// sweepDropped removes what dropped tables left on disk. The engine notes each in metadata_dropped/DB.TABLE.UUID.sql; its
// data are in store/UUI/UUID.
func sweepDropped(data string) error {
	notes, err := filepath.Glob(filepath.Join(data, "metadata_dropped", "*.sql"))
	if err != nil {
		return fmt.Errorf("dropped tables: %w", err)
	}
	for _, note := range notes {
		const uuid = 36
		id := strings.TrimSuffix(filepath.Base(note), ".sql")
		if len(id) <= uuid || id[len(id)-uuid-1] != '.' || strings.Count(id[len(id)-uuid:], "-") != 4 {
			continue // not a note as we know it
		}
		id = id[len(id)-uuid:]
		// First the data, then the note: a crash in between leaves the note, and the next start goes on.
		if err := os.RemoveAll(filepath.Join(data, "store", id[:3], id)); err != nil {
			return fmt.Errorf("dropped tables: %w", err)
		}
		if err := os.Remove(note); err != nil {
			return fmt.Errorf("dropped tables: %w", err)
		}
	}
	return nil
}

// learnForbidden asks the engine for its table functions, so that a newer engine brings no new hole, and leaves out
// those that only compute.
func (e *engine) learnForbidden() error {
	a, err := e.keeper.run("SELECT lower(name) FROM system.table_functions", "TabSeparated")
	if err != nil {
		return fmt.Errorf("ask the engine for its table functions: %w", err)
	}
	e.forbidden = map[string]bool{"file": true, "catboostevaluate": true, "python": true}
	for _, name := range strings.Fields(string(a.body)) {
		e.forbidden[name] = true
	}
	for _, harmless := range []string{"numbers", "numbers_mt", "zeros", "zeros_mt", "primes", "generate_series", "generateseries", "generaterandom", "values", "view", "format", "null"} {
		delete(e.forbidden, harmless)
	}
	return nil
}

// request is one statement with all that belongs to it.
type request struct {
	statement
	readonly   bool
	database   string
	format     string            // default output format
	settings   map[string]string // names are checked
	parameters map[string]string
	dataFile   string // for an insert with data
}

// sql is what the engine is given: an insert's data come from a file.
func (r *request) sql() string {
	if r.dataAt < 0 {
		return r.text
	}
	return fmt.Sprintf("%s FROM INFILE %s FORMAT %s", r.target, quote(r.dataFile), r.statement.format)
}

// acquire waits for the turn. Too many waiting, or a caller that left: an exception.
func (e *engine) acquire(ctx context.Context) error {
	if e.waiting.Add(1) > maxWaiting {
		e.waiting.Add(-1)
		return newException(codeTooMany, "Too many simultaneous queries. Maximum: %d waiting; the embedded ClickHouse runs one at a time. (TOO_MANY_SIMULTANEOUS_QUERIES)", maxWaiting)
	}
	defer e.waiting.Add(-1)
	select {
	case e.slot <- struct{}{}:
		return nil
	case <-ctx.Done():
		return newException(codeAborted, "the client left while the query waited. (ABORTED)")
	}
}

// do runs a request in a session of its own, so that nothing of it outlives it. A read whose client leaves is killed;
// a write runs to its end, as its caller cannot tell how far it came.
func (e *engine) do(ctx context.Context, r *request) (answer, error) {
	if err := e.acquire(ctx); err != nil {
		return answer{}, err
	}
	defer func() { <-e.slot }()
	s, err := e.lib.open(e.path)
	if err != nil {
		return answer{}, newException(codeLogical, "%v", err)
	}
	defer s.close()
	if err := s.prepare(r); err != nil {
		return answer{}, err
	}
	if r.reads() {
		stop := e.killOnLeave(ctx)
		defer stop()
	}
	return s.run(r.sql(), r.format)
}

// killOnLeave kills what runs when ctx ends. stop returns only when no kill is under way, so that the next query is
// never hit.
func (e *engine) killOnLeave(ctx context.Context) (stop func()) {
	finished, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-finished:
		case <-ctx.Done():
			// The query holds the slot, so it is the only one besides the kill itself. Its client is gone: no one to tell.
			_, _ = e.keeper.run("KILL QUERY WHERE query NOT LIKE 'KILL QUERY%' ASYNC", "Null")
		}
	}()
	return func() {
		close(finished)
		<-ended
	}
}

// prepare brings a fresh session into the state that the request asks for. readonly comes last: it forbids the rest.
func (s *session) prepare(r *request) error {
	settings := map[string]string{
		"max_result_bytes": fmt.Sprint(maxResultBytes), "result_overflow_mode": "throw",
		"max_memory_usage": fmt.Sprint(maxQueryMemory), "max_execution_time": fmt.Sprint(maxQuerySeconds),
	}
	for k, v := range r.settings {
		settings[k] = v
	}
	if r.readonly {
		settings["max_memory_usage"] = fmt.Sprint(financeMemory)
		// 0 means no limit, and so may what is no number.
		if n, err := strconv.ParseFloat(settings["max_execution_time"], 64); err != nil || !(n > 0 && n < financeSeconds) {
			settings["max_execution_time"] = fmt.Sprint(financeSeconds)
		}
	}
	for k, v := range r.parameters {
		settings["param_"+k] = v
	}
	for k, v := range settings {
		if err := s.set(k, v); err != nil {
			return err
		}
	}
	if strings.TrimSpace(r.statement.settings) != "" {
		if _, err := s.run("SET "+r.statement.settings, "Null"); err != nil {
			return err
		}
	}
	if r.database != "" {
		if _, err := s.run("USE `"+strings.NewReplacer("\\", "\\\\", "`", "\\`").Replace(r.database)+"`", "Null"); err != nil {
			return err
		}
	}
	if r.readonly {
		return s.set("readonly", "1")
	}
	return nil
}

// close ends the engine: it flushes and frees its data folder.
func (e *engine) close() {
	e.slot <- struct{}{} // wait for what runs; nothing starts any more
	e.keeper.close()
}
