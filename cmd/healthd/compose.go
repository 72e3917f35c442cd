package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/template"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/sirupsen/logrus"

	"healthd/configs/importer"
)

// composePatience bounds the reading of one Compose file and of all that it names.
const composePatience = 30 * time.Second

// loadCompose reads a file as docker compose -f does, with every profile, and - from stdin. It runs nothing and
// asks no network. The variables of containers are not needed, so neither are the files that have them.
func (a *app) loadCompose(ctx context.Context, file string) (*types.Project, error) {
	if remote := (noNetwork{}); remote.Accept(file) {
		_, err := remote.Load(ctx, file)
		return nil, err
	}
	f, err := readBounded(file)
	if err != nil {
		return nil, err
	}
	if err := importer.BoundAliases(f); err != nil {
		return nil, err
	}
	if file == "-" {
		restore, err := replaceStdin(f.Data)
		if err != nil {
			return nil, err
		}
		defer restore()
	}
	ctx, cancel := context.WithTimeout(ctx, composePatience)
	defer cancel()
	project, err := interpretCompose(ctx, file, a.stderr)
	return project, composeError(f, err)
}

var (
	composePath    = regexp.MustCompile(`\b(?:services|networks|volumes|configs|secrets)\.[^\s:]+`)
	composeService = regexp.MustCompile(`service "([^"]+)"`)
	composeLine    = regexp.MustCompile(`^yaml: .*\bline (\d+)`)
	composePrefix  = regexp.MustCompile(`^validating \S+: |^error while interpolating `)
)

// composeError returns what Compose's reader found with the place in the file, as far as that is there: five of many.
func composeError(f importer.File, err error) error {
	const most, longest = 5, 300
	if err == nil {
		return nil
	}
	type found struct{ at, text string }
	var all []found
	for text := range strings.Lines(err.Error()) {
		text = composePrefix.ReplaceAllString(strings.TrimSpace(text), "")
		text = strings.ReplaceAll(text, " false schema", ": Compose knows no such key")
		at := ""
		if m := composeLine.FindStringSubmatch(text); m != nil {
			at = f.Name + ":" + m[1]
		} else if path := composePath.FindString(text); path != "" {
			at = importer.Where(f, strings.TrimRight(path, ".,"))
		} else if m := composeService.FindStringSubmatch(text); m != nil {
			at = importer.Where(f, "services."+m[1])
		}
		switch last := len(all) - 1; {
		case at == "" && last >= 0: // it goes on
			all[last].text += " " + text
		default:
			all = append(all, found{at, text})
		}
	}
	slices.SortFunc(all, func(a, b found) int { // the reader's order is by chance
		return cmp.Or(cmp.Compare(len(a.at), len(b.at)), strings.Compare(a.at, b.at), strings.Compare(a.text, b.text))
	})
	var texts []string
	for _, e := range all[:min(len(all), most)] {
		if len(e.text) > longest {
			e.text = strings.ToValidUTF8(e.text[:longest], "") + "…"
		}
		texts = append(texts, strings.TrimPrefix(e.at+": "+e.text, ": "))
	}
	if more := len(all) - most; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return errors.New(strings.Join(texts, "; "))
}

// interpretCompose gives up when ctx ends: a pipe that the file names would keep its reader for ever.
func interpretCompose(ctx context.Context, file string, warn io.Writer) (*types.Project, error) {
	defer redirectComposeLog(warn)()
	type loaded struct {
		project *types.Project
		err     error
	}
	done := make(chan loaded, 1)
	go func() {
		project, err := readCompose(ctx, file)
		done <- loaded{project, err}
	}()
	select {
	case l := <-done:
		return l.project, l.err
	case <-ctx.Done():
		return nil, errors.New("it takes too long: does it name a pipe?")
	}
}

func readCompose(ctx context.Context, file string) (*types.Project, error) {
	options, err := cli.NewProjectOptions([]string{file},
		cli.WithOsEnv, cli.WithEnvFiles(), cli.WithDotEnv, cli.WithProfiles([]string{"*"}), cli.WithoutEnvironmentResolution, cli.WithResourceLoader(noNetwork{}),
		cli.WithLoadOptions(boundCompose))
	if err != nil {
		return nil, err
	}
	return options.LoadProject(ctx)
}

// boundCompose refuses a project that has very much when each alias is what it stands for, also in a file that is
// included or extended: Compose's reader copies each value several times. It has values substituted before that.
func boundCompose(o *loader.Options) {
	if o.Interpolate == nil { // these options only find files
		return
	}
	size, substitute := 0, o.Interpolate.Substitute
	o.Interpolate.Substitute = func(text string, variables template.Mapping) (string, error) {
		if size > importer.MaxExpanded { // the error is told, but the reader looks for more of them
			return "", nil
		}
		text, err := substitute(text, variables)
		if size += 1 + len(text); size > importer.MaxExpanded {
			return "", fmt.Errorf("with its aliases and the files that it names it has more than %d MiB: split it", importer.MaxExpanded>>20)
		}
		return text, err
	}
}

// replaceStdin has the reader of Compose, which takes stdin to its end, get what was read from it.
func replaceStdin(data []byte) (restore func(), err error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	written := make(chan struct{})
	go func() { // ends when all is read, or when restore closes the pipe
		defer close(written)
		_, _ = writer.Write(data)
		writer.Close()
	}()
	stdin := os.Stdin
	os.Stdin = reader
	return func() {
		os.Stdin = stdin
		reader.Close()
		<-written
	}, nil
}

// noNetwork refuses what a Compose file includes or extends from elsewhere. What is not known to be remote is a file.
type noNetwork struct{}

// Accept says whether a reference is one to the network.
func (noNetwork) Accept(ref string) bool {
	return strings.Contains(ref, "://") || strings.HasPrefix(ref, "git@")
}

// Load refuses the reference.
func (noNetwork) Load(_ context.Context, ref string) (string, error) {
	return "", fmt.Errorf("%s is not a local file, and healthd asks no network", ref)
}

// Dir is for references that were loaded.
func (noNetwork) Dir(string) string { return "" }

// redirectComposeLog has the warnings of Compose's reader, such as of a variable that is not set, look like others,
// until it is restored.
func redirectComposeLog(w io.Writer) (restore func()) {
	log := logrus.StandardLogger()
	out, formatter := log.Out, log.Formatter
	warnings := &composeWarnings{}
	log.SetOutput(w)
	log.SetFormatter(warnings)
	return func() {
		log.SetOutput(out)
		log.SetFormatter(formatter)
		if len(warnings.unset) > 0 {
			slices.Sort(warnings.unset)
			names := strings.Join(slices.Compact(warnings.unset), ", ")
			fmt.Fprintln(w, "warning: variables that are not set, and empty here:", names)
		}
	}
}

// composeWarnings keeps the variables that are not set for one line. Its user, logrus, calls it one at a time.
type composeWarnings struct{ unset []string }

var composeUnset = regexp.MustCompile(`^The "([^"]+)" variable is not set`)

// Format implements logrus.Formatter.
func (c *composeWarnings) Format(entry *logrus.Entry) ([]byte, error) {
	if m := composeUnset.FindStringSubmatch(entry.Message); m != nil {
		c.unset = append(c.unset, line(m[1]))
		return nil, nil
	}
	return []byte("warning: " + line(entry.Message) + "\n"), nil
}
