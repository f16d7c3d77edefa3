package tidy

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// module is the prefix of every import path of ours.
const module = "github.com/weir-project/weir/"

// goFile is one parsed file. Path is relative to the repository root, with slashes.
type goFile struct {
	path string
	text string
	set  *token.FileSet
	tree *ast.File
}

func (f goFile) dir() string     { return path.Dir(f.path) }
func (f goFile) isTest() bool    { return strings.HasSuffix(f.path, "_test.go") }
func (f goFile) isMain() bool    { return path.Base(f.path) == "main.go" && f.tree.Name.Name == "main" }
func (f goFile) generated() bool { return under(f.path, "pkg/gen") }

func (f goFile) at(pos token.Pos, format string, args ...any) finding {
	return finding{file: f.path, line: f.set.Position(pos).Line, text: fmt.Sprintf(format, args...)}
}

// imports lists the import paths of the file with their places.
func (f goFile) imports() map[string]token.Pos {
	all := map[string]token.Pos{}
	for _, spec := range f.tree.Imports {
		all[strings.Trim(spec.Path.Value, `"`)] = spec.Pos()
	}
	return all
}

// localName is the name under which the file uses an import, "" when it does not import it.
func (f goFile) localName(importPath string) string {
	for _, spec := range f.tree.Imports {
		if strings.Trim(spec.Path.Value, `"`) != importPath {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(importPath)
	}
	return ""
}

// under reports whether name is folder or lies below it.
func under(name, folder string) bool { return name == folder || strings.HasPrefix(name, folder+"/") }

func underAny(name string, folders []string) bool {
	for _, folder := range folders {
		if under(name, folder) {
			return true
		}
	}
	return false
}

// parse makes a goFile of text, for the repository and for the snippets of tests alike.
func parse(name, text string) (goFile, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return goFile{}, fmt.Errorf("parse: %w", err)
	}
	return goFile{path: name, text: text, set: set, tree: tree}, nil
}

// findRoot walks up to the folder of go.work.
func findRoot() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("working folder: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.work")); err == nil {
			return folder, nil
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", errors.New("no go.work above the working folder")
		}
		folder = parent
	}
}

// walk calls visit for every file of the repository that people or generators wrote; built, fetched and instance
// folders are left out.
func walk(root string, visit func(name string) error) error {
	skip := map[string]bool{".git": true, "bin": true, "node_modules": true, ".weir": true, ".cache": true, "__pycache__": true}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // removed by a build that runs beside us
			}
			return err
		}
		if entry.IsDir() {
			if skip[entry.Name()] {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() || entry.Name() == ".git" { // a file in a linked worktree
			return nil
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		return visit(filepath.ToSlash(name))
	})
	if err != nil {
		return fmt.Errorf("walk repository: %w", err)
	}
	return nil
}

// loadGo parses every Go file of the three modules; testdata belongs to its tests.
func loadGo(root string) ([]goFile, error) {
	var files []goFile
	err := walk(root, func(name string) error {
		if !strings.HasSuffix(name, ".go") || strings.Contains(name, "/testdata/") {
			return nil
		}
		raw, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		file, err := parse(name, string(raw))
		if err != nil {
			return err
		}
		files = append(files, file)
		return nil
	})
	return files, err
}
