package pagetest

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// Step is what a page has its reader do: write a file, which has a Path, or run commands.
type Step struct {
	Block
	Output string // of the last command; empty: the page does not show it
}

// Steps returns what a page has its reader do. It fails when a block is neither a file, nor commands, nor their
// output.
func Steps(t testing.TB, path string) []Step {
	t.Helper()
	all, err := steps(Read(t, path))
	if err != nil {
		t.Fatalf("%s:%v", path, err)
	}
	return all
}

func steps(blocks []Block) ([]Step, error) {
	var all []Step
	var commands *Step // whose output may come next
	for _, b := range blocks {
		isFile, isCommands := b.Path() != "", b.Language == "sh"
		switch {
		case isFile || isCommands:
			all = append(all, Step{Block: b})
		case commands == nil:
			return nil, fmt.Errorf("%d: neither a file, nor commands, nor their output", b.Line)
		default:
			commands.Output = b.Text
		}
		commands = nil
		if isCommands && !isFile {
			commands = &all[len(all)-1]
		}
	}
	return all, nil
}

// Command is a command of a page.
type Command struct {
	Text   string
	Line   int
	Output string // empty: the page does not show it
}

// Commands returns the commands of a step that is no file.
func (s Step) Commands() []Command {
	var all []Command
	for line := range strings.SplitSeq(strings.TrimSpace(s.Text), "\n") {
		all = append(all, Command{Text: line, Line: s.Line + len(all)})
	}
	all[len(all)-1].Output = s.Output
	return all
}

var looks = regexp.MustCompile(`^(curl|echo "show|healthd (status|explain|events|check)) ?`)

// Looks says whether the command only looks: what it shows may take its time.
func (c Command) Looks() bool { return looks.MatchString(c.Text) }

// Check returns what is wrong with what the command printed and with how it ended. The page shows when healthd
// refuses to do it.
func (c Command) Check(printed string, err error) error {
	refused := strings.Contains(c.Output, "\nhealthd: cannot ")
	switch {
	case refused && err == nil:
		return fmt.Errorf("it succeeds and prints\n%s", printed)
	case !refused && err != nil:
		return fmt.Errorf("%w\n%s", err, printed)
	case c.Output == "":
		return nil
	}
	return Compare(c.Output, printed)
}
