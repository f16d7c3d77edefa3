package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const (
	// maxRecordBytes bounds what a topic may declare: a larger record does not belong on Kafka.
	maxRecordBytes = 16 << 20
	// maxPartitions bounds a typing error, not a deployment.
	maxPartitions = 1024
	// minLagMs is the shortest compaction lag, so that a reader that is behind sees each total.
	minLagMs = 3_600_000
	// anyProducer stands for writers outside the project; it gets no ACL here.
	anyProducer = "any producer"
	// operator is the command line tool, run by a person.
	operator = "weir"
)

// services lists the processes of the project in the order of an event's way. A name outside it is a typing error.
func services() []string {
	return []string{"admission", "outbox-relay", "cost-attributor", "budget-aggregator", "breaker"}
}

func known(name string) bool { return name == operator || slices.Contains(services(), name) }

// validate reports everything that is wrong with the set, each problem with its file.
func (s contractSet) validate() []error {
	var problems []error
	for _, t := range s.topics {
		report := func(format string, args ...any) {
			problems = append(problems, fmt.Errorf(t.file+": "+format, args...))
		}
		t.validateIdentity(report)
		t.validateBounds(report)
		s.validateSchema(t, report)
		s.validateConsumers(t, report)
	}
	return append(problems, s.validateTogether()...)
}

func (t topicFile) validateIdentity(report func(string, ...any)) {
	if t.file != "topics/"+t.Name+".yaml" {
		report("name %q must be the file's name without .yaml", t.Name)
	}
	if !regexp.MustCompile(`^[a-z]+(\.[a-z]+)+\.v[1-9][0-9]*$`).MatchString(t.Name) {
		report("name %q must be words and a version joined by dots, like usage.events.v1", t.Name)
	}
	for field, value := range map[string]string{"about": t.About, "owner": t.Owner, "key": t.Key, "data_class": t.DataClass} {
		if strings.TrimSpace(value) == "" {
			report("%s is missing", field)
		}
	}
	if len(t.Writers) == 0 {
		report("writers is empty: who writes it?")
	}
	for _, writer := range t.Writers {
		if writer != anyProducer && !known(writer) {
			report("writer %q is no service (%s), nor %q, nor %q", writer, strings.Join(services(), ", "), operator, anyProducer)
		}
	}
}

func (t topicFile) validateBounds(report func(string, ...any)) {
	if t.Partitions < 1 || t.Partitions > maxPartitions {
		report("partitions %d must be 1..%d", t.Partitions, maxPartitions)
	}
	if t.MaxRecordBytes < 1 || t.MaxRecordBytes > maxRecordBytes {
		report("max_record_bytes %d must be 1..%d", t.MaxRecordBytes, maxRecordBytes)
	}
	compacted := strings.Contains(t.Cleanup, "compact")
	switch t.Cleanup {
	case "delete", "compact,delete":
		if _, err := parseSpan(t.Retention); err != nil {
			report("retention: %w", err)
		}
	case "compact":
		if t.Retention != "" {
			report("retention is not used by cleanup: compact")
		}
	default:
		report("cleanup %q must be delete, compact or compact,delete", t.Cleanup)
	}
	if !compacted && t.MinCompactionLag != "" {
		report("min_compaction_lag needs cleanup: compact")
	}
	if lag, err := parseSpan(t.MinCompactionLag); compacted && (err != nil || lag < minLagMs) {
		report("min_compaction_lag %q must be at least 1h", t.MinCompactionLag)
	}
}

func (s contractSet) validateSchema(t topicFile, report func(string, ...any)) {
	switch {
	case t.Schema == "original bytes":
	case strings.HasPrefix(t.Schema, "docs/"):
		if !s.docs[t.Schema] {
			report("schema %s: no such document", t.Schema)
		}
	case !s.messages[t.Schema]:
		report("schema %q is no message of schemas/weir/v1", t.Schema)
	}
}

func (s contractSet) validateConsumers(t topicFile, report func(string, ...any)) {
	if len(t.Consumers) == 0 {
		report("consumers is empty: a topic that nobody reads is not needed")
	}
	seen := map[string]bool{}
	for _, c := range t.Consumers {
		if !known(c.Service) {
			report("consumer %q is no service", c.Service)
		}
		if c.grouped() && !strings.HasPrefix(c.Group, "weir.") {
			report("group %q of %s must start with weir., or be none", c.Group, c.Service)
		}
		if c.grouped() && seen[c.Group] {
			report("group %s is named twice", c.Group)
		}
		seen[c.Group] = true
		if c.Replay == "" {
			report("consumer %s: replay must say why reading from the start again is safe", c.Service)
		}
		s.validateDeadLetter(t, c, report)
	}
}

func (s contractSet) validateDeadLetter(t topicFile, c consumer, report func(string, ...any)) {
	if c.DeadLetter == "none" {
		return
	}
	dead, ok := s.byName(c.DeadLetter)
	if !ok {
		report("consumer %s: dead_letter %q is neither a topic nor none", c.Service, c.DeadLetter)
		return
	}
	if dead.MaxRecordBytes <= t.MaxRecordBytes {
		report("dead letter %s takes %d bytes: it must take more than the source's %d, headers are added", dead.Name, dead.MaxRecordBytes, t.MaxRecordBytes)
	}
	if !slices.Contains(dead.Writers, c.Service) {
		report("dead letter %s does not name %s as a writer", dead.Name, c.Service)
	}
}

// validateTogether checks what one file cannot: groups are not shared between services, the journal has as many
// partitions as its input (its entries go to the partition of their event), and it is kept for ever (I6).
func (s contractSet) validateTogether() []error {
	var problems []error
	owner := map[string]string{}
	for _, t := range s.topics {
		for _, c := range t.Consumers {
			if !c.grouped() {
				continue
			}
			if first := owner[c.Group]; first != "" && first != c.Service {
				problems = append(problems, fmt.Errorf("%s: group %s belongs to %s, %s needs its own", t.file, c.Group, first, c.Service))
			}
			owner[c.Group] = c.Service
		}
	}
	input, hasInput := s.byName("usage.events.v1")
	journal, hasJournal := s.byName("ledger.entries.v1")
	if hasInput && hasJournal && input.Partitions != journal.Partitions {
		problems = append(problems, fmt.Errorf("%s has %d partitions, %s has %d: they must be equal", input.file, input.Partitions, journal.file, journal.Partitions))
	}
	if hasJournal && (journal.Cleanup != "delete" || journal.Retention != "forever") {
		problems = append(problems, fmt.Errorf("%s: the journal must have cleanup: delete and retention: forever", journal.file))
	}
	return problems
}
