package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
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
	return interpretCompose(ctx, file, a.stderr)
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
	log.SetOutput(w)
	log.SetFormatter(composeWarning{})
	return func() {
		log.SetOutput(out)
		log.SetFormatter(formatter)
	}
}

type composeWarning struct{}

// Format implements logrus.Formatter.
func (composeWarning) Format(entry *logrus.Entry) ([]byte, error) {
	return []byte("warning: " + line(entry.Message) + "\n"), nil
}
