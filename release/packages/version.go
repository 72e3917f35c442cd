package main

import (
	"fmt"
	"regexp"
)

// semantic is a version as https://semver.org has it, without build metadata: packages order by it.
var semantic = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

func checkVersion(version string) error {
	if !semantic.MatchString(version) {
		return fmt.Errorf("the version must be semantic, such as 0.1.0 or 0.2.0-rc.1, it is %q", version)
	}
	return nil
}
