package migrate

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Migration is one pair of files.
type Migration struct {
	// Version is NNNN, from 1.
	Version int
	// Name is the file name between number and suffix: letters, digits and _.
	Name string
	// Up is the text of NNNN_name.up.sql, Check that of NNNN_name.check.sql.
	Up, Check string
	// Checksum is the SHA-256 of both files, hex.
	Checksum string
}

func (m Migration) String() string { return fmt.Sprintf("%04d_%s", m.Version, m.Name) }

// Load reads the *.sql files at the root of files, or in its only folder, as an embed.FS has them. A gap in the numbers, a
// number used twice, a missing or an empty check and a file of another name are errors: each has once meant a migration that
// silently did not run.
func Load(files fs.FS) ([]Migration, error) {
	files, names, err := list(files)
	if err != nil {
		return nil, fmt.Errorf("migrate: list files: %w", err)
	}
	if len(names) == 0 {
		return nil, errors.New("migrate: no *.sql files")
	}
	byVersion := map[int]Migration{}
	for _, name := range names {
		if err := loadFile(files, name, byVersion); err != nil {
			return nil, fmt.Errorf("migrate: %s: %w", name, err)
		}
	}
	out := make([]Migration, 0, len(byVersion))
	for _, m := range byVersion {
		if strings.TrimSpace(m.Up) == "" || strings.TrimSpace(m.Check) == "" {
			return nil, fmt.Errorf("migrate: %s needs a non-empty .up.sql and .check.sql", m)
		}
		sum := sha256.Sum256([]byte(m.Up + "\x00" + m.Check))
		m.Checksum = hex.EncodeToString(sum[:])
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b Migration) int { return a.Version - b.Version })
	for i, m := range out {
		if m.Version != i+1 {
			return nil, fmt.Errorf("migrate: %s follows %04d: a number is missing", m, i)
		}
	}
	return out, nil
}

func list(files fs.FS) (fs.FS, []string, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil || len(names) > 0 {
		return files, names, err
	}
	entries, err := fs.ReadDir(files, ".")
	if err != nil || len(entries) != 1 || !entries[0].IsDir() {
		return files, nil, err
	}
	if files, err = fs.Sub(files, entries[0].Name()); err != nil {
		return nil, nil, err
	}
	names, err = fs.Glob(files, "*.sql")
	return files, names, err
}

func loadFile(files fs.FS, name string, byVersion map[int]Migration) error {
	parts := regexp.MustCompile(`^([0-9]{4})_([a-z0-9_]{1,64})\.(up|check)\.sql$`).FindStringSubmatch(name)
	if parts == nil {
		return errors.New("want NNNN_name.up.sql or NNNN_name.check.sql")
	}
	text, err := fs.ReadFile(files, name)
	if err != nil {
		return err
	}
	version, err := strconv.Atoi(parts[1])
	if err != nil {
		return err
	}
	m, seen := byVersion[version]
	if seen && m.Name != parts[2] {
		return fmt.Errorf("number %04d is already %s", version, m)
	}
	m.Version, m.Name = version, parts[2]
	if parts[3] == "up" {
		m.Up = string(text)
	} else {
		m.Check = string(text)
	}
	byVersion[version] = m
	return nil
}

// record is a row of schema_migrations.
type record struct {
	version        int
	name, checksum string
}

// pending compares files and records and returns what is still to be applied.
func pending(all []Migration, applied []record) ([]Migration, error) {
	for i, r := range applied {
		if i >= len(all) {
			return nil, fmt.Errorf("migrate: the database has %04d_%s, which these files do not know: a newer version was here", r.version, r.name)
		}
		if m := all[i]; r.version != m.Version || r.name != m.Name || r.checksum != m.Checksum {
			return nil, fmt.Errorf("migrate: %s was changed after it was applied as %04d_%s: restore the file and write a new migration", m, r.version, r.name)
		}
	}
	return all[len(applied):], nil
}

// verdict judges the rows of one check statement; at is its place in the file, from 1.
func verdict(m Migration, at int, rows [][]string) error {
	for _, row := range rows {
		if len(row) == 0 || !slices.Contains([]string{"t", "true", "1"}, row[0]) {
			return fmt.Errorf("migrate: check %d of %s found: %s", at, m, strings.Join(row, ", "))
		}
	}
	return nil
}
