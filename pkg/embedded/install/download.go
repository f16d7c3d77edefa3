package install

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha512"
	_ "embed" // the pom
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// ClickHouse's engine as a library: package, version, size of the archive and its checksum (npm's integrity).
const (
	chdbPackage   = "@chdb/lib-linux-x64-gnu"
	chdbVersion   = "26.5.3"
	chdbSize      = 166_572_008
	chdbSHA512    = "fPrLmRt5Moor9yGz4mazbrNje4t7X9KB2mTGkXFWRxRBs2iKy8yh6jx11xsa0Qr3iDFMU/yHqd+bVdYJXu3QaQ=="
	chdbFile      = "libchdb.so"
	clickhouseMin = 24 // the first program version whose deduplication was made for what the sinks rely on
)

// Engine is how ClickHouse can be run here: at least one of the two is set.
type Engine struct {
	Binary  string // a clickhouse program
	Library string // libchdb.so
}

// ClickHouse gives the clickhouse program on PATH if it is new enough (Debian's own is of 2018), else libchdb.so. A
// library that is in the cache is given in any case: it may have made data that only it reads.
func (i *Installer) ClickHouse(ctx context.Context) (Engine, error) {
	name := "chdb-" + chdbVersion
	library := filepath.Join(i.cache, name, chdbFile)
	if path, err := exec.LookPath("clickhouse"); err == nil {
		if out, err := i.run(ctx, path, "local", "--version"); err == nil && majorOf(out) >= clickhouseMin {
			if !exists(library) {
				library = ""
			}
			return Engine{Binary: path, Library: library}, nil
		}
	}
	err := i.exclusive(ctx, func() bool { return exists(library) }, func() error {
		if err := supported("clickhouse"); err != nil {
			return err
		}
		npm, err := i.program(ctx, "npm", "npm", 30<<20)
		if err != nil {
			return err
		}
		return i.staged(name, func(dir string) error { return i.fetchChdb(ctx, npm, dir) })
	})
	return Engine{Library: library}, err
}

// majorOf is the first number of "ClickHouse local version 26.5.1.1 …", 0 if there is none.
func majorOf(version string) int {
	n, _ := strconv.Atoi(regexp.MustCompile(`\d+`).FindString(version))
	return n
}

// program finds a tool or brings its Debian package.
func (i *Installer) program(ctx context.Context, tool, packageName string, size int64) (string, error) {
	if path, err := exec.LookPath(tool); err == nil {
		return path, nil
	}
	if err := i.aptInstall(ctx, tool, size, packageName); err != nil {
		return "", err
	}
	return exec.LookPath(tool)
}

// fetchChdb lets npm fetch the archive (with the user's own settings: registry, proxy), checks it and unpacks the one
// file that is needed. npm's cache is put into dir too, so that the archive is not kept twice.
func (i *Installer) fetchChdb(ctx context.Context, npm, dir string) error {
	what := "ClickHouse engine (npm " + chdbPackage + " " + chdbVersion + ")"
	i.report.Begin(what, chdbSize)
	work := filepath.Join(dir, "download")
	if err := os.Mkdir(work, 0o755); err != nil {
		return fmt.Errorf("cache folder: %w", err)
	}
	stop := i.watch(work, chdbSize)
	_, err := i.run(ctx, npm, "pack", "--ignore-scripts", "--silent", "--cache", filepath.Join(work, "cache"), "--pack-destination", work, chdbPackage+"@"+chdbVersion)
	stop()
	if err != nil {
		return fmt.Errorf("fetch the ClickHouse engine: %w", err)
	}
	archives, err := filepath.Glob(filepath.Join(work, "*.tgz"))
	if err != nil || len(archives) != 1 {
		return fmt.Errorf("fetch the ClickHouse engine: npm left %d archives", len(archives))
	}
	if err := unpack(archives[0], chdbSHA512, "package/"+chdbFile, filepath.Join(dir, chdbFile)); err != nil {
		return fmt.Errorf("unpack the ClickHouse engine: %w", err)
	}
	if err := os.RemoveAll(work); err != nil {
		return fmt.Errorf("cache folder: %w", err)
	}
	i.report.End(what)
	return nil
}

// watch reports how much a folder holds, until stop is called. npm writes into its cache first and then packs, so the
// sum is cut off at size.
func (i *Installer) watch(dir string, size int64) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(300 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				i.report.Progress(min(bytesIn(dir), size))
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// bytesIn sums the files below dir; what vanishes meanwhile counts as nothing.
func bytesIn(dir string) int64 {
	var sum int64
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				sum += info.Size()
			}
		}
		return nil
	})
	return sum
}

// unpack takes one file out of a .tgz, if the archive's SHA-512 (base64) is the one that is pinned.
func unpack(archive, sum, member, target string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha512.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if got := base64.StdEncoding.EncodeToString(h.Sum(nil)); got != sum {
		return fmt.Errorf("checksum of %s is %s, want %s", filepath.Base(archive), got, sum)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	gz, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	for r := tar.NewReader(gz); ; {
		header, err := r.Next()
		if err != nil {
			return fmt.Errorf("no %s in %s: %w", member, filepath.Base(archive), err)
		}
		if header.Name == member {
			return writeFile(target, r)
		}
	}
}

func writeFile(target string, r io.Reader) error {
	out, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, r)
	return errors.Join(err, out.Sync(), out.Close())
}

//go:embed pom.xml
var kafkaPOM string

// kafkaName is the cache folder of Apache Kafka's jars.
const kafkaName = "kafka-4.4.0"

// Kafka gives the folder with Apache Kafka's jars. Only who wants a real broker calls it.
func (i *Installer) Kafka(ctx context.Context) (string, error) {
	jars := filepath.Join(i.cache, kafkaName)
	err := i.exclusive(ctx, func() bool { return exists(jars) }, func() error {
		if err := supported("Apache Kafka"); err != nil {
			return err
		}
		mvn, err := i.program(ctx, "mvn", "maven", 60<<20)
		if err != nil {
			return err
		}
		return i.staged(kafkaName, func(dir string) error { return i.fetchKafka(ctx, mvn, dir) })
	})
	return jars, err
}

func (i *Installer) fetchKafka(ctx context.Context, mvn, dir string) error {
	what := "Apache Kafka 4.4.0 (Maven)"
	i.report.Begin(what, 54<<20)
	pom := filepath.Join(dir, "pom.xml")
	if err := os.WriteFile(pom, []byte(kafkaPOM), 0o644); err != nil {
		return fmt.Errorf("cache folder: %w", err)
	}
	if _, err := i.run(ctx, mvn, "-q", "-B", "-f", pom, "dependency:copy-dependencies", "-DoutputDirectory="+dir); err != nil {
		return fmt.Errorf("fetch Apache Kafka: %w", err)
	}
	found, err := filepath.Glob(filepath.Join(dir, "kafka_*.jar"))
	if err != nil || len(found) == 0 {
		return fmt.Errorf("fetch Apache Kafka: Maven left no jars in %s", dir)
	}
	i.report.End(what)
	return nil
}
