package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// wholeFiles are the places that read all there is: FILE what.
var wholeFiles = map[string]string{
	"supervisor/journal/open.go /proc/sys/kernel/random/boot_id":  "the kernel's, 37 bytes",
	"runtime/containerd/clock.go /proc/sys/kernel/random/boot_id": "the kernel's, 37 bytes",
	"cmd/healthd/journal.go /proc/sys/kernel/random/boot_id":      "the kernel's, 37 bytes",
	"supervisor/fleet/certificate.go f.ca":                        "the operator's",
	"supervisor/fleet/client.go s.config.PasswordFile":            "the operator's",
	"cmd/healthd/checkfleet.go f.CAFile":                          "the operator's",
	"cmd/healthd/checkfleet.go f.PasswordFile":                    "the operator's",
	"cmd/healthd/checkfiles.go file":                              "the operator's",
	"configs/configs.go path":                                     "the operator's",
	"supervisor/api/gate.go body":                                 "bounded by API.Control",
}

var (
	wholeRead = regexp.MustCompile(`(?:os\.ReadFile|io\.ReadAll|ioutil\.\w+)\(("[^"]*"|[^()]*(?:\([^()]*\))?[^()]*)\)`)
	isBounded = regexp.MustCompile(`^io\.(LimitReader|NewSectionReader)\(`)
)

// Containers shape what the daemon reads: files of /proc, logs, answers. So each
// read has a bound.
func TestReadsAreBounded(t *testing.T) {
	found := map[string]bool{}
	eachSource(t, []string{"prober", "runtime", "supervisor", "configs", "cmd"}, func(name, path string) error {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, call := range wholeRead.FindAllStringSubmatch(string(text), -1) {
			what := name + " " + strings.Trim(call[1], `"`)
			if found[what] = true; !isBounded.MatchString(call[1]) && wholeFiles[what] == "" {
				t.Errorf("%s: %s has no bound", name, call[0])
			}
		}
		return nil
	})
	for what := range wholeFiles {
		if !found[what] {
			t.Errorf("%s is not there", what)
		}
	}
}
