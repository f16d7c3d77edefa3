package tidy

import (
	"regexp"
	"sort"
	"strings"
)

// checkVersions wants one version of every module that several go.mod files require: the workspace would hide a
// difference that a build without it shows. Content is by module folder.
func checkVersions(content map[string]string) []finding {
	requirement := regexp.MustCompile(`(?m)^\s*(?:require )?([a-z][^\s]*\.[^\s]+/[^\s]+) (v[^\s]+)`)
	first, owner := map[string]string{}, map[string]string{}
	var folders []string
	for folder := range content {
		folders = append(folders, folder)
	}
	sort.Strings(folders)
	var found []finding
	for _, folder := range folders {
		for _, match := range requirement.FindAllStringSubmatch(content[folder], -1) {
			name, version := match[1], match[2]
			if strings.HasPrefix(name, module) {
				continue
			}
			if have := first[name]; have != "" && have != version {
				found = append(found, finding{folder + "/go.mod", 0, name + " " + version + ", but " + owner[name] + " has " + have})
			}
			first[name], owner[name] = version, folder
		}
	}
	return found
}
