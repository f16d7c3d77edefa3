package tidy

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// checkMarkdown wants every relative link of a document to lead to a file, and its anchor to a heading; code blocks are left out.
func checkMarkdown(root, name, content string) []finding {
	var found []finding
	link := regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)
	fenced := false
	for number, line := range strings.Split(content, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		if fenced {
			continue
		}
		for _, match := range link.FindAllStringSubmatch(line, -1) {
			if problem := checkLink(root, name, content, match[1]); problem != "" {
				found = append(found, finding{name, number + 1, problem})
			}
		}
	}
	return found
}

func checkLink(root, name, content, target string) string {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return ""
	}
	file, anchor, _ := strings.Cut(target, "#")
	if file != "" {
		to := path.Join(path.Dir(name), file)
		info, err := os.Stat(filepath.Join(root, filepath.FromSlash(to)))
		if err != nil {
			return "link " + target + " leads nowhere"
		}
		if anchor == "" || info.IsDir() || !strings.HasSuffix(to, ".md") {
			return ""
		}
		raw, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(to)))
		if err != nil {
			return "link " + target + ": " + err.Error()
		}
		content = string(raw)
	}
	if anchor != "" && !headings(content)[anchor] {
		return "link " + target + ": no such heading"
	}
	return ""
}

// headings are the anchors that renderers make: lower case, spaces to dashes, other signs dropped.
func headings(content string) map[string]bool {
	all := map[string]bool{}
	drop := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, line := range strings.Split(content, "\n") {
		if text, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			slug := drop.ReplaceAllString(strings.ToLower(strings.TrimSpace(text)), "")
			all[strings.ReplaceAll(slug, " ", "-")] = true
		}
	}
	return all
}

// maxLines bounds the documents that people read from end to end.
func maxLines(name string) int {
	switch {
	case name == "README.md":
		return 200 // it shows real output
	case name == "ARCHITECTURE.md":
		return 600
	case strings.HasPrefix(name, "docs/adr/"):
		return 120
	}
	return 0
}

func checkDocumentLength(name, content string) []finding {
	limit, lines := maxLines(name), strings.Count(content, "\n")
	if limit == 0 || lines <= limit {
		return nil
	}
	return []finding{{name, 0, fmt.Sprintf("%d lines, at most %d", lines, limit)}}
}

// checkLeaks finds what only makes sense on the machine of whoever wrote it: absolute paths of a work folder or of
// root's home, and the hosts of a local package mirror (taken from that machine's own settings).
func checkLeaks(name, content string, hosts []string) []finding {
	local := regexp.MustCompile(`(^|[\s"'(=:\x60])(/work/|/root/|/home/[a-z]+/|/farm/)`)
	var found []finding
	for number, line := range strings.Split(content, "\n") {
		if local.MatchString(line) {
			found = append(found, finding{name, number + 1, "a path of one machine: make it relative, or take it from a flag"})
		}
		for _, host := range hosts {
			if strings.Contains(line, host) {
				found = append(found, finding{name, number + 1, "the host of a local package mirror: use the public registry's name, or none"})
			}
		}
	}
	return found
}
