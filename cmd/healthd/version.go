package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Set by the linker for a release: -ldflags "-X main.version=… -X main.commit=…".
var version, commit string

// build is the version of this binary.
type build struct{ version, commit string }

func thisBuild() build {
	b := build{version, commit}
	info, ok := debug.ReadBuildInfo()
	if ok && b.version == "" && info.Main.Version != "" && info.Main.Version != "(devel)" {
		b.version = info.Main.Version
	}
	if ok && b.commit == "" {
		b.commit = vcsCommit(info.Settings)
	}
	if b.version == "" {
		b.version = "devel"
	}
	if b.commit == "" {
		b.commit = "unknown"
	}
	return b
}

func vcsCommit(settings []debug.BuildSetting) string {
	revision, modified := "", ""
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = " (modified)"
		}
	}
	if revision == "" {
		return ""
	}
	return revision + modified
}

// versionText is what healthd version and --version print.
func versionText() string {
	b := thisBuild()
	return fmt.Sprintf("healthd %s\ncommit: %s\ngo: %s %s/%s\n", b.version, b.commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Example: "  healthd version",
		Short:   "Print the version of healthd",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(a.stdout, versionText())
			return err
		},
	}
}
