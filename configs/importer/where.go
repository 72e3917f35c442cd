package importer

import (
	"strings"

	"go.yaml.in/yaml/v4"
)

// Where returns FILE:LINE of the value at a path such as services.web.image, or of the list that has it; empty: the
// file has none.
func Where(f File, path string) string {
	documents, err := readYAML(f)
	if err != nil || len(documents) == 0 {
		return ""
	}
	v, at := documents[0], ""
	for path != "" && !v.is(yaml.SequenceNode) {
		found := value{}
		for _, e := range v.entries() { // a key may have dots
			if rest, ok := strings.CutPrefix(path, e.key); ok && (rest == "" || rest[0] == '.') {
				found, path = e.value, strings.TrimPrefix(rest, ".")
				at = e.at()
				break
			}
		}
		if v = found; !v.there() {
			return ""
		}
	}
	return at
}
