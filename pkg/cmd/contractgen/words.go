package main

import (
	"fmt"
	"slices"
	"strings"
)

// node is a mermaid identifier.
func node(name string) string { return strings.NewReplacer("-", "_", ".", "_", " ", "_").Replace(name) }

// anchor is the heading anchor that renderers of Markdown make of a topic name: dots vanish.
func anchor(topic string) string { return strings.ReplaceAll(topic, ".", "") }

func code(names []string) string {
	if len(names) == 0 {
		return "-"
	}
	return "`" + strings.Join(names, "`, `") + "`"
}

// readers lists the services that read t, each once, in the order of the file.
func readers(t topicFile) []string {
	var names []string
	for _, c := range t.Consumers {
		if !slices.Contains(names, c.Service) {
			names = append(names, c.Service)
		}
	}
	return names
}

// kept says in words how long records stay.
func kept(t topicFile) string {
	var parts []string
	if strings.Contains(t.Cleanup, "compact") {
		parts = append(parts, "newest per key (compaction after "+t.MinCompactionLag+")")
	}
	if t.Retention == "forever" {
		parts = append(parts, "for ever")
	} else if t.Retention != "" {
		parts = append(parts, t.Retention)
	}
	return strings.Join(parts, ", ")
}

func size(bytes int) string {
	if bytes%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	if bytes%(1<<10) == 0 {
		return fmt.Sprintf("%d KiB", bytes>>10)
	}
	return fmt.Sprintf("%d B", bytes)
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// schemaLink links a schema from docs/reference/.
func schemaLink(schema string) string {
	if message, ours := strings.CutPrefix(schema, "weir.v1."); ours {
		return "Protobuf `" + schema + "` ([example](../../schemas/weir/v1/examples/" + message + ".json))"
	}
	if document, ours := strings.CutPrefix(schema, "docs/"); ours {
		return "[" + document + "](../" + document + ")"
	}
	return schema
}
