package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var (
	generatedPart = regexp.MustCompile(`(?s)(<!-- commands: [^\n]* -->\n).*?(<!-- /commands -->)`)
	inMarkdown    = strings.NewReplacer("|", `\|`, "*", `\*`, "<", `\<`)
)

// docs/commands.md, and the manual page that is made from it, say of each command what its help does.
func TestCommandsPage(t *testing.T) {
	const page = "../../docs/commands.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	root := (&app{}).rootCommand()
	part := commandPart(root)
	for _, cmd := range root.Commands() {
		if cmd.Name() != "help" && !cmd.Hidden {
			part += commandPart(cmd)
		}
	}
	want := generatedPart.ReplaceAllString(string(text), "${1}"+strings.ReplaceAll(part, "$", "$$")+"${2}")
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if strings.Count(part, "\n### ") < 13 || string(text) != want {
		t.Errorf("%s is not what the commands say: run go test ./cmd/healthd -run TestCommandsPage -update", page)
	}
}

// commandPart returns what the page says of one command.
func commandPart(cmd *cobra.Command) string {
	var b strings.Builder
	if cmd.HasParent() {
		about := cmd.Long
		if about == "" {
			about = cmd.Short + "."
		}
		fmt.Fprintf(&b, "\n### %s\n\n```text\n%s\n```\n\n%s\n", cmd.CommandPath(), cmd.UseLine(), inMarkdown.Replace(strings.TrimSpace(about)))
	} else {
		fmt.Fprintf(&b, "\n```text\n%s COMMAND [flags]\n```\n\nFor each command:\n", cmd.Name())
	}
	b.WriteString(subcommandTable(cmd))
	b.WriteString(flagTable(cmd.LocalFlags()))
	if cmd.HasParent() {
		fmt.Fprintf(&b, "\n```sh\n%s\n```\n", strings.ReplaceAll(strings.Trim(cmd.Example, "\n"), "  healthd", "healthd"))
	}
	return b.String()
}

// subcommandTable lists the shells of completion. Those of healthd itself have a part each.
func subcommandTable(cmd *cobra.Command) string {
	if !cmd.HasParent() || !cmd.HasAvailableSubCommands() {
		return ""
	}
	text := "\n| command | does |\n|---|---|\n"
	for _, sub := range cmd.Commands() {
		if sub.Hidden {
			continue
		}
		text += fmt.Sprintf("| `%s` | %s |\n", sub.CommandPath(), inMarkdown.Replace(sub.Short))
	}
	return text
}

func flagTable(flags *pflag.FlagSet) string {
	text := ""
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		value, about := pflag.UnquoteUsage(f)
		if value != "" {
			name += " " + value
		}
		about = strings.ReplaceAll(about, "\n", " ")
		if given := f.DefValue; value != "" && given != "" && given != "[]" && given != "0" {
			about += " (default " + given + ")"
		}
		text += fmt.Sprintf("| `%s` | %s |\n", name, inMarkdown.Replace(about))
	})
	if text == "" {
		return ""
	}
	return "\n| flag | does |\n|---|---|\n" + text
}
