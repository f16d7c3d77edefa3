package clickhouse

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// library is ClickHouse's engine as a shared object, bound without cgo. Handles are opaque addresses.
type library struct {
	connect    func(argc int32, argv unsafe.Pointer) *uintptr
	closeConn  func(conn *uintptr)
	query      func(conn uintptr, sql string, sqlLen uintptr, format string, formatLen uintptr) uintptr
	buffer     func(result uintptr) unsafe.Pointer
	length     func(result uintptr) uintptr
	failure    func(result uintptr) string
	rowsRead   func(result uintptr) uint64
	rowsPut    func(result uintptr) uint64
	destroy    func(result uintptr)
	setSignals func(enabled bool)
}

// openLibrary loads libchdb.so. It keeps its hands off the process' signals: Go needs its own handlers.
func openLibrary(file string) (*library, error) {
	handle, err := purego.Dlopen(file, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", file, err)
	}
	l := &library{}
	for name, fn := range map[string]any{
		"chdb_connect": &l.connect, "chdb_close_conn": &l.closeConn, "chdb_query_n": &l.query,
		"chdb_result_buffer": &l.buffer, "chdb_result_length": &l.length, "chdb_result_error": &l.failure,
		"chdb_result_rows_read": &l.rowsRead, "chdb_result_rows_written": &l.rowsPut,
		"chdb_destroy_query_result": &l.destroy, "chdb_set_signal_handlers_enabled": &l.setSignals,
	} {
		address, err := purego.Dlsym(handle, name)
		if err != nil {
			return nil, fmt.Errorf("%s is of another version: %w", file, err)
		}
		purego.RegisterFunc(fn, address)
	}
	l.setSignals(false)
	return l, nil
}

// session is one connection to the engine, with settings, parameters and a current database of its own.
type session struct {
	lib  *library
	conn *uintptr
}

// open connects to the data in path. The first session of a process starts the engine, the last one stops it.
func (l *library) open(path string) (*session, error) {
	args := [][]byte{[]byte("clickhouse\x00"), []byte("--path=" + path + "\x00")}
	argv := make([]*byte, len(args)+1)
	for i := range args {
		argv[i] = &args[i][0]
	}
	conn := l.connect(int32(len(args)), unsafe.Pointer(&argv[0]))
	if conn == nil || *conn == 0 {
		return nil, errors.New("the ClickHouse engine does not open " + path)
	}
	return &session{lib: l, conn: conn}, nil
}

func (s *session) close() { s.lib.closeConn(s.conn) }

// answer is what a statement gave.
type answer struct {
	body              []byte
	rowsRead, rowsPut uint64
}

// run executes one statement. Its error is always an *Exception.
func (s *session) run(sql, format string) (answer, error) {
	result := s.lib.query(*s.conn, sql, uintptr(len(sql)), format, uintptr(len(format)))
	if result == 0 {
		return answer{}, newException(codeLogical, "the engine gave no answer")
	}
	defer s.lib.destroy(result)
	if text := s.lib.failure(result); text != "" {
		return answer{}, parseException(text)
	}
	a := answer{rowsRead: s.lib.rowsRead(result), rowsPut: s.lib.rowsPut(result)}
	if n := s.lib.length(result); n > 0 {
		// The engine frees its buffer with the result, so the bytes are copied.
		a.body = append([]byte(nil), unsafe.Slice((*byte)(s.lib.buffer(result)), n)...)
	}
	return a, nil
}

// set changes a setting of this session.
func (s *session) set(name, value string) error {
	_, err := s.run("SET "+name+" = "+quote(value), "Null")
	return err
}

// quote makes a string literal.
func quote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}
