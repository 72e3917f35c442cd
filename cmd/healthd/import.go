package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/spf13/cobra"

	"healthd/configs/importer"
)

// maxImport bounds a file to import, and a Compose file to check, in bytes. Manifests of a whole cluster have less.
const maxImport = 8 << 20

func (a *app) importCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Print specs for what others say about health",
		Example: "  healthd import docker > /etc/healthd/conf.d/imported.toml\n  healthd import compose compose.yaml\n" +
			"  healthd import kubernetes deployment.yaml service.yaml\n  healthd import nomad web.nomad.hcl",
		Long: "Print specs in TOML that mean what containers, Compose files, Kubernetes manifests or Nomad jobs say about\n" +
			"health. A comment at its place tells of each setting that cannot be carried over, why, and what to do. It changes\n" +
			"nothing: read what it prints, write it to a file of the configuration, and run healthd check and healthd reload.\n" +
			"A file that cannot be read is an error, and nothing is printed.",
		Args: func(_ *cobra.Command, args []string) error {
			text := "import takes docker, compose, kubernetes or nomad"
			if len(args) > 0 {
				text += ", not " + args[0]
			}
			return usageError{errors.New(text)}
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }, // without it, nobody would check Args
	}
	cmd.AddCommand(a.importDockerCommand(), a.importFilesCommand("compose", "Compose files", "  healthd import compose compose.yaml\n  docker compose config | healthd import compose -",
		"Each file is a project of its own; docker compose config joins several, and - reads them from stdin. Files are\nread as Compose does, with variables and .env, extends and include. No network is asked.", a.importCompose),
		a.importFilesCommand("kubernetes", "Kubernetes manifests", "  healthd import kubernetes deployment.yaml service.yaml\n  kubectl get deployment,service -o yaml | healthd import kubernetes -",
			"Files may have several documents, and lists, in YAML or JSON; - is stdin. Give Services and\nPodDisruptionBudgets with what they are about.", importTexts(importer.Kubernetes)),
		a.importFilesCommand("nomad", "Nomad jobs", "  healthd import nomad web.nomad.hcl\n  nomad job inspect web | healthd import nomad -",
			"Files are HCL, or JSON of Nomad's API, as nomad job run -output or nomad job inspect print it; - is stdin.", importTexts(importer.Nomad)))
	return cmd
}

func (a *app) importDockerCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "docker [NAME…]",
		Short:   "Print specs for the containers of this host",
		Example: "  healthd import docker > /etc/healthd/conf.d/imported.toml\n  healthd import docker shop-web-1",
		Long: "Print specs for the containers of the engines in the configuration, running or not: one for each Compose service\n" +
			"and each other container with a HEALTHCHECK, or that autoheal, deunhealth or Docker-Guardian heals. NAME is a\n" +
			"container, a Compose service (PROJECT/SERVICE) or a Compose project.",
		RunE: func(cmd *cobra.Command, names []string) error {
			ctx, cancel := interruptible(cmd)
			defer cancel()
			doc, err := a.importDocker(ctx, names)
			if err != nil {
				return err
			}
			return a.printImport(doc)
		},
		ValidArgsFunction: a.completeNames,
	}
}

// importFilesCommand is an import of files.
func (a *app) importFilesCommand(name, what, example, more string, do func(ctx context.Context, files []string) (*importer.Document, error)) *cobra.Command {
	return &cobra.Command{
		Use: name + " FILE…", Short: "Print specs for " + what, Example: example,
		Long: "Print specs for " + what + ". " + more,
		Args: func(_ *cobra.Command, files []string) error {
			if len(files) == 0 {
				return usageError{fmt.Errorf("import %s takes files, or - for stdin", name)}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, files []string) error {
			doc, err := do(cmd.Context(), files)
			if err != nil {
				return err
			}
			return a.printImport(doc)
		},
	}
}

// printImport prints the specs, and in a line on stderr what is left to do.
func (a *app) printImport(doc *importer.Document) error {
	if _, err := io.WriteString(a.stdout, doc.Text); err != nil {
		return err
	}
	for _, note := range doc.Notes {
		fmt.Fprintln(a.stderr, "note:", line(note))
	}
	text := plural(doc.Specs, "spec")
	if doc.Lost > 0 {
		text += "; " + plural(doc.Lost, "setting") + " could not be carried over: see the comments"
	}
	fmt.Fprintln(a.stderr, text)
	return nil
}

// importTexts has do import files that are read here.
func importTexts(do func([]importer.File) (*importer.Document, error)) func(context.Context, []string) (*importer.Document, error) {
	return func(_ context.Context, names []string) (*importer.Document, error) {
		var files []importer.File
		var failed []error
		for _, name := range names {
			f, err := readImport(name)
			files, failed = append(files, f), append(failed, err)
		}
		if err := errors.Join(failed...); err != nil {
			return nil, err
		}
		doc, err := do(files)
		return doc, cannotImport(err)
	}
}

// cannotImport says of each of several errors what could not be done.
func cannotImport(err error) error {
	if err == nil {
		return nil
	}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, err := range several.Unwrap() {
			all = append(all, cannotImport(err))
		}
		return errors.Join(all...)
	}
	return fmt.Errorf("cannot import %s", line(err.Error()))
}

// readImport reads a file, or stdin for "-".
func readImport(name string) (importer.File, error) {
	f, err := readBounded(name)
	if err != nil {
		return f, fmt.Errorf("cannot import %s: %w", line(name), err)
	}
	return f, nil
}

func readBounded(name string) (importer.File, error) {
	none := importer.File{}
	in := io.Reader(os.Stdin)
	shown := "stdin"
	if name != "-" {
		if err := checkImport(name); err != nil {
			return none, err
		}
		f, err := os.Open(name)
		if err != nil {
			return none, withoutPath(err)
		}
		defer f.Close()
		in, shown = f, line(name)
	}
	data, err := io.ReadAll(io.LimitReader(in, maxImport+1))
	if err != nil {
		return none, withoutPath(err)
	}
	if len(data) > maxImport {
		return none, errTooLong
	}
	return importer.File{Name: shown, Data: data}, nil
}

var errTooLong = fmt.Errorf("it is longer than %d MiB: split it", maxImport>>20)

// checkImport refuses what is no file of a usual size.
func checkImport(name string) error {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return withoutPath(err)
	case !info.Mode().IsRegular():
		return errors.New("it is not a regular file")
	case info.Size() > maxImport:
		return errTooLong
	}
	return nil
}

// withoutPath returns the cause of an error about a file whose name is said already.
func withoutPath(err error) error {
	if wrapped, ok := errors.AsType[*os.PathError](err); ok {
		return wrapped.Err
	}
	return err
}

// importCompose reads Compose files as check --compose does.
func (a *app) importCompose(ctx context.Context, files []string) (*importer.Document, error) {
	var projects []*types.Project
	var failed []error
	for _, file := range files {
		project, err := a.loadCompose(ctx, file)
		if err != nil {
			failed = append(failed, fmt.Errorf("cannot import the Compose file %s: %s", line(file), line(err.Error())))
		}
		projects = append(projects, project)
	}
	if err := errors.Join(failed...); err != nil {
		return nil, err
	}
	doc, err := importer.Compose(projects)
	return doc, cannotImport(err)
}

// importPatience bounds the questions about one container.
const importPatience = 10 * time.Second
