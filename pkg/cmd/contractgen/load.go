package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weir-project/weir/pkg/bus"
)

// topicFile is topics/<name>.yaml. Every field is required unless it says otherwise; unknown fields are errors.
type topicFile struct {
	Name    string   `yaml:"name"`
	About   string   `yaml:"about"`
	Owner   string   `yaml:"owner"`
	Writers []string `yaml:"writers"`
	Key     string   `yaml:"key"`
	// Schema is a message of schemas/, a document of docs/, or "original bytes".
	Schema     string `yaml:"schema"`
	Partitions int    `yaml:"partitions"`
	Cleanup    string `yaml:"cleanup"`
	// Retention is "35d", "12h" or "forever"; absent for a topic that is only compacted.
	Retention string `yaml:"retention"`
	// MinCompactionLag is required for compacted topics and forbidden for others.
	MinCompactionLag string     `yaml:"min_compaction_lag"`
	MaxRecordBytes   int        `yaml:"max_record_bytes"`
	DataClass        string     `yaml:"data_class"`
	Consumers        []consumer `yaml:"consumers"`

	// file is where it came from, for messages.
	file string
}

// consumer is one reader of a topic. Group is a consumer group, or "none" with an optional remark.
type consumer struct {
	Service    string `yaml:"service"`
	Group      string `yaml:"group"`
	Replay     string `yaml:"replay"`
	DeadLetter string `yaml:"dead_letter"`
}

// grouped reports whether the reader commits offsets under a group of its own.
func (c consumer) grouped() bool { return c.Group != "none" && !strings.HasPrefix(c.Group, "none ") }

// contractSet is all that was read: topics in the order of their names, and the messages that schemas/ defines.
type contractSet struct {
	topics   []topicFile
	messages map[string]bool
	docs     map[string]bool
}

func (s contractSet) byName(name string) (topicFile, bool) {
	for _, t := range s.topics {
		if t.Name == name {
			return t, true
		}
	}
	return topicFile{}, false
}

// load reads topics/*.yaml strictly and the message names of schemas/weir/v1/*.proto.
func load(root string) (contractSet, error) {
	set := contractSet{messages: map[string]bool{}, docs: map[string]bool{}}
	files, err := filepath.Glob(filepath.Join(root, "topics", "*.yaml"))
	if err != nil {
		return set, fmt.Errorf("list topics: %w", err)
	}
	if len(files) == 0 {
		return set, fmt.Errorf("no topics/*.yaml under %s: is -root the repository root?", root)
	}
	slices.Sort(files)
	var problems []error
	for _, file := range files {
		topic, err := loadTopic(file)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		set.topics = append(set.topics, topic)
		if strings.HasPrefix(topic.Schema, "docs/") {
			_, err := os.Stat(filepath.Join(root, filepath.FromSlash(topic.Schema)))
			set.docs[topic.Schema] = err == nil
		}
	}
	if err := errors.Join(problems...); err != nil {
		return set, err
	}
	return set, loadMessages(root, set.messages)
}

func loadTopic(file string) (topicFile, error) {
	topic := topicFile{file: "topics/" + filepath.Base(file)}
	raw, err := os.ReadFile(file)
	if err != nil {
		return topic, fmt.Errorf("read topic: %w", err)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	decoder.KnownFields(true)
	if err := decoder.Decode(&topic); err != nil {
		return topic, fmt.Errorf("%s: %w", topic.file, err)
	}
	if err := decoder.Decode(new(topicFile)); !errors.Is(err, io.EOF) {
		return topic, fmt.Errorf("%s: one document per file", topic.file)
	}
	return topic, nil
}

// loadMessages finds the message names by their text: the generator must work before the Go code of the schemas does.
func loadMessages(root string, messages map[string]bool) error {
	files, err := filepath.Glob(filepath.Join(root, "schemas", "weir", "v1", "*.proto"))
	if err != nil {
		return fmt.Errorf("list schemas: %w", err)
	}
	declaration := regexp.MustCompile(`(?m)^message (\w+) `)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read schema: %w", err)
		}
		for _, found := range declaration.FindAllSubmatch(raw, -1) {
			messages["weir.v1."+string(found[1])] = true
		}
	}
	return nil
}

// parseSpan reads "35d", "12h" or "forever" as milliseconds; -1 is for ever.
func parseSpan(text string) (int64, error) {
	const hour, day = int64(3_600_000), int64(86_400_000)
	if text == "forever" {
		return -1, nil
	}
	if len(text) < 2 {
		return 0, fmt.Errorf("%q is no span: write 35d, 12h or forever", text)
	}
	count, err := strconv.ParseInt(text[:len(text)-1], 10, 32)
	if err != nil || count <= 0 {
		return 0, fmt.Errorf("%q is no span: write 35d, 12h or forever", text)
	}
	switch text[len(text)-1] {
	case 'd':
		return count * day, nil
	case 'h':
		return count * hour, nil
	}
	return 0, fmt.Errorf("%q is no span: write 35d, 12h or forever", text)
}

// spec is the topic, which validate has accepted, as pkg/bus declares it.
func (t topicFile) spec() bus.TopicSpec {
	s := bus.TopicSpec{Name: t.Name, Key: t.Key, Partitions: t.Partitions, Cleanup: t.Cleanup, RetentionMs: -1, MaxRecordBytes: t.MaxRecordBytes}
	if t.Retention != "" {
		s.RetentionMs, _ = parseSpan(t.Retention)
	}
	if t.MinCompactionLag != "" {
		s.MinCompactionLagMs, _ = parseSpan(t.MinCompactionLag)
	}
	return s
}
