package configs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var tomlBlock = regexp.MustCompile("(?s)```toml\n(.*?)```")

// Every TOML block of the documentation is a configuration that works.
func TestDocumentedConfigurations(t *testing.T) {
	files, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	for _, file := range append(files, "../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range tomlBlock.FindAllSubmatchIndex(text, -1) {
			blocks++
			line := 1 + strings.Count(string(text[:found[2]]), "\n")
			// As many empty lines as stand before it make its lines those of the file.
			block := strings.Repeat("\n", line-1) + string(text[found[2]:found[3]])
			c, err := Parse(file, []byte(block))
			if err != nil {
				t.Errorf("%v", err)
				continue
			}
			for _, warning := range c.Warnings() {
				t.Error(warning)
			}
		}
	}
	if blocks < 2 {
		t.Errorf("found only %d TOML blocks", blocks)
	}
}
